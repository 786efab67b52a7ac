#include "symmetric.h"

#include <cblas.h>
#include <lapack.h>

#define WORK_SIZE (34 * MOLECULE_MAX_ATOMS) /* (block size 32 + 2) n, as LAPACK recommends */

/* Matrices of a few dozen rows: more threads only wait for each other, for minutes on a busy
 * machine. */
static void use_one_thread(void)
{
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
}

int symmetric_eigen(int n, double *a, double *ret_levels)
{
    use_one_thread();
    const lapack_int order = n;
    const lapack_int work_size = WORK_SIZE;
    double work[WORK_SIZE];
    lapack_int info = 0;
    LAPACK_dsyev("V", "L", &order, a, &order, ret_levels, work, &work_size, &info);
    return info == 0 ? 0 : -1;
}
