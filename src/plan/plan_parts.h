/* Inside a plan: what its files share. plan.c has the sizes and the story, plan_full.c and
 * plan_restricted.c the methods. All counts are doubles, since n^2 may exceed 2^63. */
#pragma once

#include "plan/plan.h"

/* Work, in what the machine's rates are of. Kernel values count as in a whole product, where each
 * is used twice: one that is used once counts two. */
struct plan_work {
    double values_f32, values_f64, multiply_adds_f32, multiply_adds_f64;
    double read, written; /* bytes of memory */
    double seconds;       /* that no rate stands for */
};

/* What is resident at some moment. */
struct plan_moment {
    double parts[PLAN_PARTS];
    double untouched; /* allocated beside it */
};

struct planning {
    const struct job_spec *spec;
    const struct plan_machine *machine;
    struct plan *plan;
    double n, m, d, t, centers; /* training rows, test rows, features, targets; 0: a full model */
    double ld;                  /* numbers of a prepared point */
    double panel;               /* of these in a panel of the CPU's loops */
    double host;                /* bytes of a number of the standardised rows */
    double vector;              /* of a vector's number */
    double point;               /* of a kernel value */
    double parts;  /* of a float32 point, which a device may hold once more in parts of float16 */
    double halves; /* of a number of points, for these parts: 0 where points are float64 */
    double ridge;
    enum dtype vectors, points;
    struct param_set params; /* of the solver */
    struct param_set precond_params;
    struct plan_moment base;                           /* what is there from loading to the end */
    struct plan_work setup, choice, iteration, finish; /* choice: the rest of the setup */
};

/* plan.c: takes a moment as the peak where it is. */
void plan__moment(struct planning *g, const struct plan_moment *m, const char *name);
/* Of so many columns of a factor of the kernel matrix, those that it has rank for. */
double plan__rank(const struct planning *g, double most);
/* A parameter of g->params; `automatic` where it is left open. */
double plan__int_or(const struct planning *g, const char *key, double automatic);
/* Of a dense library that works on matrices with so many columns. */
double plan__library(const struct planning *g, double columns);
/* Products of the kernel matrix, or of that of rows and centers, with so many vectors at a time, as
 * far as plan__library does not count them. */
double plan__products(const struct planning *g, double vectors);

/* plan_centers.c: the centers, of which g->centers stay. */
void plan__centers(struct planning *g);
void plan__full(struct planning *g);       /* plan_full.c */
void plan__restricted(struct planning *g); /* plan_restricted.c */

/* ---- plan_work.c: what the backend's operations cost (engine/backend.h) ---- */

/* Kernel values that stay in registers, in products with a vector a target: `used` times each, 1 or
 * 2. */
void plan__values(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  int used);
/* What targets beside the first cost where values are read that were kept. */
void plan__further(const struct planning *g, struct plan_work *w, double uses, enum dtype dtype);
/* Values of which something is made that is not as wide as the targets are many. */
void plan__evaluated(const struct planning *g, struct plan_work *w, double values,
                     enum dtype dtype);
/* Kernel values that are written down, as numbers of so many bytes ("kblock"). */
void plan__stored(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  double number);
/* A product with the values between rows and centers and one with their transpose ("kmtkv"). */
void plan__normal(const struct planning *g, struct plan_work *w, double values, enum dtype dtype);
/* A matrix of so many numbers, times a vector a target: a single one takes as long as reading it.
 */
void plan__multiplied(const struct planning *g, struct plan_work *w, double numbers,
                      enum dtype dtype);
/* Multiply-adds of large products. */
void plan__dense(struct plan_work *w, double multiply_adds, enum dtype dtype);
/* A triangular factor of n columns, and solves with it: of many right-hand sides, and of one a
 * target, so many times, of which a single one reads it. */
void plan__factor(struct plan_work *w, double n, enum dtype dtype);
void plan__solve(struct plan_work *w, double n, double sides, enum dtype dtype);
void plan__substitute(const struct planning *g, struct plan_work *w, double n, double times);
/* Eigenvectors of n rows. */
void plan__eigen(struct plan_work *w, double n);
/* Numbers of memory that the system gives as they are written for the first time. */
void plan__touch(struct plan_work *w, double bytes);
/* to += times what `from` has. */
void plan__add(struct plan_work *to, const struct plan_work *from, double times);
double plan__seconds(const struct plan_work *w, const struct plan_rates *r);
