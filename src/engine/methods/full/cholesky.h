/*
 * The two ways of solver `cholesky`, which solver_cholesky.c chooses between. Neither is in the
 * registry: a job asks for the solver and its parameter `factor`.
 */
#pragma once

#include "engine/precond.h"

/* One factorisation in the precision of the vectors (or in float64), triangular solves, classical
 * refinement. */
extern const struct solver_ops cholesky_direct_ops;

/* A float32 factor of K + max(ridge, n eps max_i K_ii) I as the preconditioner of conjugate
 * gradients: refinement that converges wherever the factor is good for anything. */
extern const struct precond_ops cholesky_narrow_ops;
