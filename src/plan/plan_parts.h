/* Inside a plan: what its files share. plan.c has the sizes and the story, plan_full.c and
 * plan_restricted.c the methods. All counts are doubles, since n^2 may exceed 2^63. */
#pragma once

#include "plan/plan.h"

/* Work, in what the machine's rates are of. Kernel values count as in a whole product, where each
 * is used twice: one that is used once counts two. */
struct plan_work {
    double values_f32, values_f64, multiply_adds_f32, multiply_adds_f64, bytes;
    double seconds; /* that no rate stands for */
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
    double host;                /* bytes of a number of the standardised rows */
    double vector;              /* of a vector's number */
    double point;               /* of a kernel value */
    double ridge;
    enum dtype vectors, points;
    struct param_set params; /* of the solver */
    struct param_set precond_params;
    struct plan_moment base; /* what is there from loading to the end */
    struct plan_work setup, iteration, finish;
};

/* plan.c: takes a moment as the peak where it is. */
void plan__moment(struct planning *g, const struct plan_moment *m, const char *name);
/* Kernel values: `used` times each, 1 or 2. */
void plan__values(const struct planning *g, struct plan_work *w, double values, enum dtype dtype,
                  int used);
void plan__dense(struct plan_work *w, double multiply_adds, enum dtype dtype);
/* Of so many columns of a factor of the kernel matrix, those that it has rank for. */
double plan__rank(const struct planning *g, double most);
/* Of a dense library that works on matrices with so many columns. */
double plan__library(const struct planning *g, double columns);

void plan__full(struct planning *g); /* plan_full.c */
/* plan_restricted.c: the centers, of which g->centers stay, then what is solved with them. */
void plan__centers(struct planning *g);
void plan__restricted(struct planning *g);
