/*
 * A sample of distinct molecules with their HOMO energies, the same for the same seed.
 */
#pragma once

#include <stdint.h>

#include "molecule.h"

#define SAMPLE_MIN_ATOMS 6
#define SAMPLE_MAX_COUNT 200000

struct sample {
    int64_t count;
    struct molecule *molecules; /* [count], in random order */
    double *homo;               /* [count], eV */
};

/*
 * Draws `count` molecules of SAMPLE_MIN_ATOMS .. max_atoms carbons. No two are the same, and each
 * has a closed shell (a gap of at least 0.5 eV between its frontier levels). Returns 0; -1 when
 * memory ran out or LAPACK failed; 1 when there are not enough distinct molecules of this size.
 */
int sample_draw(uint64_t seed, int64_t count, int max_atoms, struct sample *ret);
void sample_deinit(struct sample *s);
