/*
 * The parts of the catalog, one file each: lists that end with a name of NULL. For catalog.c alone.
 */
#pragma once

#include "wire/catalog.h"

extern const struct method_def catalog_kernels[];
extern const struct method_def catalog_solvers[];
extern const struct method_def catalog_preconditioners[];
extern const struct method_def catalog_centers[];

/* Papers that several parts name. */
#define ROBUST_PRECONDITIONING                                                                     \
    "Díaz, Epperly, Frangella, Tropp, Webber: Robust, randomized preconditioning for kernel "     \
    "ridge regression, arXiv:2304.12465"
#define RPCHOLESKY                                                                                 \
    "Chen, Epperly, Tropp, Webber: Randomly pivoted Cholesky: Practical approximation of a "       \
    "kernel matrix with few entry evaluations, arXiv:2207.06503"
#define BLESS                                                                                      \
    "Rudi, Calandriello, Carratino, Rosasco: On fast leverage score sampling and optimal "         \
    "learning, arXiv:1810.13258"
#define EIGENPRO3 "Abedsoltan, Belkin, Pandit: Toward large kernel models, arXiv:2302.02605"
