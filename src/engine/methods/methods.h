/* The methods this engine has, one table each; registry.c and centers_registry.c list them. */
#pragma once

#include "engine/centers.h"
#include "engine/precond.h"
#include "engine/solver.h"

extern const struct solver_ops solver_askotch2_ops;
extern const struct solver_ops solver_askotch_ops;
extern const struct solver_ops solver_cg_ops;
extern const struct solver_ops solver_cholesky_ops;
extern const struct solver_ops solver_direct_ops;
extern const struct solver_ops solver_eigenpro2_ops;
extern const struct solver_ops solver_eigenpro3_ops;
extern const struct solver_ops solver_eigenpro4_ops;
extern const struct solver_ops solver_falkon_ops;
extern const struct solver_ops solver_falkon_bless_ops;
extern const struct solver_ops solver_inducing_ops;
extern const struct solver_ops solver_kmcg_ops;
extern const struct solver_ops solver_kmcg_restricted_ops;
extern const struct solver_ops solver_krill_ops;
extern const struct solver_ops solver_pcg_ops;
extern const struct solver_ops solver_sketchykatyusha_ops;
extern const struct solver_ops solver_sketchysaga_ops;
extern const struct solver_ops solver_skotch_ops;

extern const struct precond_ops precond_kronecker_ops;
extern const struct precond_ops precond_none_ops;
extern const struct precond_ops precond_rpcholesky_ops;
extern const struct precond_ops precond_nystrom_uniform_ops;
extern const struct precond_ops precond_nystrom_gaussian_ops;
extern const struct precond_ops precond_cholesky_greedy_ops;

extern const struct center_ops centers_uniform_ops;
extern const struct center_ops centers_kmeans_ops;
extern const struct center_ops centers_rpcholesky_ops;
extern const struct center_ops centers_bless_ops;
extern const struct center_ops centers_bless_r_ops;
extern const struct center_ops centers_rls_ops;
extern const struct center_ops centers_two_pass_ops;
extern const struct center_ops centers_squeak_ops;
extern const struct center_ops centers_file_ops;
