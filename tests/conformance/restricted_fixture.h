/*
 * A small restricted problem held twice: in tiles on the backend under test, and on the host with
 * its solution by plain loops in float64. Failures end the test.
 */
#pragma once

#include "conformance/solve_fixture.h"
#include "engine/row_source.h"
#include "engine/rowset.h"

struct restricted_fixture {
    struct backend *be;
    struct kernel kernel;
    enum dtype points;
    int64_t n, m, d, t;
    double *X, *Z; /* [n, d], [m, d] row-major, rounded to the points' precision */
    double *Y;     /* [n, t] column-major, rounded to the vectors' precision */
    struct row_source source;
    int64_t reads; /* rows that the source was asked for */
    struct rowset *rows;
    struct points *centers, *core;
    struct rows host_centers;
    struct restricted restricted;
    struct problem problem;
    struct mat A; /* the answer goes here */
};

struct restricted_spec {
    enum kernel_id kernel;
    enum dtype points, vectors; /* note that 0 is float32 */
    int64_t n, m, d, t;
    double lambda;     /* a row */
    int64_t copies;    /* the last so many centers repeat the first ones */
    int64_t tile_rows; /* 0: by the shape */
    bool streamed;     /* no tile stays */
    int64_t far;       /* one row in so many lies ten times as far out; 0: none */
    const double *weights;
};

/* 300 rows in 3 features, 30 centers, two targets, in tiles of 128 rows; gaussian, float64. */
struct restricted_spec restricted_ordinary(void);
/* The same with matern32 and a larger ridge, of n rows and a center for every ten of them. */
struct restricted_spec restricted_matern(int64_t n);

void restricted_init(struct restricted_fixture *f, struct backend *be,
                     const struct restricted_spec *spec);
void restricted_deinit(struct restricted_fixture *f);
/* Takes the centers as Z has them by now, in float64. */
void restricted_move_centers(struct restricted_fixture *f);

/* K_nm, [n, m] column-major; the caller frees. */
double *restricted_kernel(const struct restricted_fixture *f);
/* B of the normal equations, [m, t]; the caller frees. */
double *restricted_solution(const struct restricted_fixture *f);
/* H V for H = K_nm' K_nm + ridge K_mm, V [m, t]; the caller frees. */
double *restricted_hessian(const struct restricted_fixture *f, const double *V);
/* max_j |K_nm'(K_nm B_j - Y_j) + ridge K_mm B_j| / |K_nm' Y_j|. */
double restricted_residual(const struct restricted_fixture *f, const double *B);
/* The largest difference of K_nm B and K_nm C, relative to the largest |K_nm C|. */
double restricted_difference(const struct restricted_fixture *f, const double *B, const double *C);

/* With the driver, from the catalog's options. */
struct solve_outcome restricted_solve(struct restricted_fixture *f, const char *solver,
                                      const struct solve_limits *limits);
/* The same, with options of the caller's. */
struct solve_outcome restricted_solve_with(struct restricted_fixture *f, const char *solver,
                                           const struct solver_options *options,
                                           const struct solve_limits *limits);
/* The same, with parameters as JSON text, NULL: the defaults. */
struct solve_outcome restricted_solve_params(struct restricted_fixture *f, const char *solver,
                                             const char *params, double tolerance,
                                             int64_t iterations);
