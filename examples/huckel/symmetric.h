/*
 * Eigenvalues and eigenvectors of a small symmetric matrix (LAPACK's dsyev).
 */
#pragma once

#include "molecule.h"

/*
 * A V = V diag(levels) for n <= MOLECULE_MAX_ATOMS, levels ascending. On return `a` holds V, the
 * k-th eigenvector in a[k n .. k n + n - 1]. Returns 0, or -1 if LAPACK did not converge.
 */
int symmetric_eigen(int n, double *a, double *ret_levels);
