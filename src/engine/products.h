/*
 * Products with a rectangular kernel matrix K = K(P,Q) beyond backend.h's own, each of which
 * evaluates every kernel value once and never stores K as a whole. A backend with a faster way has
 * an operation for it; for others they are blocks of kernel values and dense products here, whose
 * last bits are those of the vendor's library. Matrices are of one type.
 */
#pragma once

#include "engine/backend.h"

/* Y <- K' diag(weights) (K V - T), or Y <- Y + that with `add`.  V and Y are q x t, T is p x t,
 * NULL: 0; weights [p] on the host, NULL: ones. */
int product_normal(struct backend *be, struct view P, struct view Q, const double *weights,
                   const struct mat *V, const struct mat *T, bool add, const struct mat *Y,
                   struct err *err);

/* U <- K V - T and Y <- K' U, or Y <- Y + K' U with `add`; U is p x t and may be T. */
int product_residual(struct backend *be, struct view P, struct view Q, const struct mat *V,
                     const struct mat *T, const struct mat *U, bool add, const struct mat *Y,
                     struct err *err);

/* S <- Phi K, or S <- S + Phi K with `add`.  Phi (backend.h) has a column for each of P's members;
 * S is phi->rows x q. */
int product_sketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                   bool add, const struct mat *S, struct err *err);

/* The same by blocks on any backend, for backends without the operation. Memory: 48 MiB, or one row
 * of K. */
int product_normal_by_blocks(struct backend *be, struct view P, struct view Q,
                             const double *weights, const struct mat *V, const struct mat *T,
                             const struct mat *U, bool add, const struct mat *Y, struct err *err);
int product_sketch_by_blocks(struct backend *be, const struct sign_sketch *phi, struct view P,
                             struct view Q, bool add, const struct mat *S, struct err *err);
