/*
 * A small kernel ridge regression held twice: on the backend under test, and on the host with its
 * solution by plain loops in float64. Failures end the test.
 */
#pragma once

#include "conformance/device.h"
#include "engine/precond.h"
#include "engine/solve/solve.h"
#include "wire/catalog.h"

struct fixture {
    struct backend *be;
    struct kernel kernel;
    int64_t n, d, t;
    double *X; /* [n, d] row-major, rounded to the points' precision */
    struct rows host;
    double *Y; /* [n, t] column-major, rounded to the vectors' precision */
    struct points *points;
    struct points *exact; /* in mixed precision: the problem's exact points, else NULL */
    struct problem problem;
    struct mat A; /* the answer goes here */
};

struct fixture_spec {
    enum kernel_id kernel;
    enum dtype points, vectors; /* note that 0 is float32 */
    int64_t n, d, t;
    double lambda;  /* a row */
    int64_t copies; /* the last so many rows repeat the first ones */
    uint64_t seed;
};

void fixture_init(struct fixture *f, struct backend *be, const struct fixture_spec *spec);
void fixture_deinit(struct fixture *f);

/* K + ridge I, column-major; the caller frees. */
double *fixture_matrix(const struct fixture *f);
/* In place: the lower triangle of A (n x n, column-major) becomes its Cholesky factor. */
bool host_factor(double *A, int64_t n);
/* B <- (L L')^-1 B for t columns. */
void host_solve(const double *L, int64_t n, double *B, int64_t t);
/* max_j |Y_j - M B_j| / |Y_j| with M from fixture_matrix. */
double host_residual(const struct fixture *f, const double *M, const double *B);

/* Options with the defaults of the catalog; precond may be NULL. */
struct solver_options options_make(const char *solver, const char *precond, double tolerance);
/* Sets parameters of the solver from JSON text; NULL changes nothing. */
void options_set(struct solver_options *options, const char *params);

/* A clock that a test moves, a cancel switch, and what the driver said. */
struct world {
    double now;
    double tick;       /* seconds that every reading of the clock takes */
    int64_t cancel_at; /* the call of cancelled() that says yes; -1: none */
    int64_t asked;     /* calls of cancelled() */
    int64_t reports;
    struct progress last;
    double fraction_fell; /* largest step back of the fraction */
    int64_t within;       /* reports from within an iteration: a share of it that grows */
    double latest_end;    /* the largest elapsed_s + eta_s; 0: nothing was guessed */
    int64_t early_etas;   /* guesses while a preconditioner is built */
};
struct solve_control world_control(struct world *w);

/* A clock that stands still, and nobody cancels. */
struct world world_calm(void);

/* Of rows that a fixture does not have: test_kronecker.c. */
bool precond_wants_grid(const char *name);
/* The methods for full problems: each solver, and each solver that takes one with each
 * preconditioner. */
struct method {
    const char *solver, *precond;
};
enum { METHODS_MAX = 16 };
int list_methods(struct method ret[METHODS_MAX]);

/* Solves the fixture with the given limits; evaluator may be NULL. */
struct solve_outcome fixture_solve(struct fixture *f, const char *solver, const char *precond,
                                   const struct solve_limits *limits, struct world *w,
                                   const struct solve_evaluator *evaluator, struct err *err);

/* The state written to a file's image and read again, aligned as a map of a file is. */
struct state *state_through_file(const struct state *s);
