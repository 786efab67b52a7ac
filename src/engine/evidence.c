#include "engine/evidence.h"

#include <math.h>

double evidence_of_target(const struct evidence *e, double misfit)
{
    const double n = (double)e->n, two_pi = 6.283185307179586477;
    const double amplitude = isnan(e->amplitude) ? misfit / (n * e->ridge) : e->amplitude;
    return -0.5 * (misfit / (e->ridge * amplitude) + n * log(two_pi * amplitude) + e->log_det +
                   e->left_out / e->ridge);
}
