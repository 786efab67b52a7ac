#include "cpu/grid/polynomial.h"

#include <math.h>
#include <string.h>

/* The share of the Chebyshev polynomial T_j. */
static double share_of(const double *value, int n, int j)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        sum += cos(j * M_PI * (i + 0.5) / n) * value[i];
    }
    return sum * (j == 0 ? 1.0 : 2.0) / n;
}

void polynomial_fit(polynomial_of *f, const void *context, int n, double *term)
{
    double value[POLYNOMIAL_TERMS];
    double before[POLYNOMIAL_TERMS] = {0.0}, power[POLYNOMIAL_TERMS] = {1.0}; /* of T_j-1, T_j */
    memset(term, 0, (size_t)n * sizeof *term);
    for (int i = 0; i < n; i++) {
        value[i] = f(context, cos(M_PI * (i + 0.5) / n));
    }
    for (int j = 0; j < n; j++) {
        const double share = share_of(value, n, j);
        double next[POLYNOMIAL_TERMS] = {0.0};
        for (int t = 0; t < n; t++) {
            term[t] += share * power[t];
            const double raised = t > 0 ? power[t - 1] : 0.0;
            next[t] = j == 0 ? raised : 2.0 * raised - before[t];
        }
        memcpy(before, power, sizeof before);
        memcpy(power, next, sizeof power);
    }
}
