/*
 * The parts of the catalog, one file each: lists that end with a name of NULL. For catalog.c alone.
 */
#pragma once

#include "wire/catalog.h"

extern const struct method_def catalog_kernels[];
extern const struct method_def catalog_solvers[];
extern const struct method_def catalog_preconditioners[];
extern const struct method_def catalog_centers[];

/* catalog_solver_params.c */
extern const struct param_def catalog_cholesky_params[];
extern const struct param_def catalog_inducing_params[];
extern const struct param_def catalog_kmcg_params[];
extern const struct param_def catalog_kmcg_restricted_params[];
extern const struct param_def catalog_pcg_params[];
extern const struct param_def catalog_normal_params[];
extern const struct param_def catalog_falkon_bless_params[];
extern const struct param_def catalog_krill_params[];
extern const struct param_def catalog_eigenpro2_params[];
extern const struct param_def catalog_eigenpro34_params[];

/* catalog_descent_params.c */
extern const struct param_def catalog_skotch_params[];
extern const struct param_def catalog_askotch_params[];
extern const struct param_def catalog_askotch2_params[];
extern const struct param_def catalog_sketchysaga_params[];
extern const struct param_def catalog_sketchykatyusha_params[];

/* catalog_clashes.c */
extern const struct param_clash catalog_block_clashes[];
extern const struct param_clash catalog_askotch2_clashes[];
extern const struct param_clash catalog_eigenpro2_clashes[];
extern const struct param_clash catalog_eigenpro34_clashes[];
extern const struct param_clash catalog_stochastic_clashes[];
extern const struct param_clash catalog_kmeans_clashes[];

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
