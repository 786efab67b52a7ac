#include "conformance/restricted_fixture.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/methods/centers/center_rank.h"

static int read_rows(const struct row_source *s, int64_t first, const int64_t *index, int64_t count,
                     void *ret_X, double *ret_Y, struct err *err)
{
    struct restricted_fixture *f = s->context;
    (void)err;
    f->reads += count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = index != NULL ? index[i] : first + i;
        assert_in_range(row, 0, f->n - 1);
        for (int64_t k = 0; k < f->d; k++) {
            const double x = f->X[row * f->d + k];
            if (s->dtype == DTYPE_F32) {
                ((float *)ret_X)[i * f->d + k] = (float)x;
            } else {
                ((double *)ret_X)[i * f->d + k] = x;
            }
        }
        for (int64_t j = 0; ret_Y != NULL && j < f->t; j++) {
            ret_Y[i + j * count] = f->Y[row + j * f->n];
        }
    }
    return 0;
}

/* Centers are every (n / m)th row. */
static void choose_centers(struct restricted_fixture *f, int64_t copies)
{
    f->Z = mem_array((size_t)(f->m * f->d), sizeof(double));
    for (int64_t j = 0; j < f->m; j++) {
        const int64_t from = j < f->m - copies ? j : j - (f->m - copies);
        memcpy(f->Z + j * f->d, f->X + from * (f->n / f->m) * f->d, (size_t)f->d * sizeof(double));
    }
}

static void move_out(struct restricted_fixture *f, int64_t far)
{
    for (int64_t i = 0; far > 0 && i < f->n; i += far) {
        for (int64_t k = 0; k < f->d; k++) {
            f->X[i * f->d + k] *= 10;
        }
    }
}

/* As a fit does before it solves. */
static void keep_independent(struct restricted_fixture *f)
{
    struct centers c = {.m = f->m, .d = f->d, .dtype = DTYPE_F64, .points = f->Z};
    must(center_rank_reduce(f->be, &f->kernel, &c, NULL, NULL, &err));
    f->m = c.m;
}

/* The data on the host, and the centers. */
static void draw_data(struct restricted_fixture *f, struct backend *be,
                      const struct restricted_spec *spec)
{
    struct rng rng = rng_new((uint64_t)(spec->n + 7 * spec->m), RNG_TEST);
    *f = (struct restricted_fixture){
        .be = be,
        .kernel = {.id = spec->kernel,
                   .d = spec->d,
                   .bandwidth =
                       kernel_uses_l1(spec->kernel) ? (double)spec->d : sqrt((double)spec->d),
                   .gamma = 0.5 / (double)spec->d,
                   .coef0 = 0.5,
                   .degree = 3},
        .points = spec->points,
        .n = spec->n,
        .m = spec->m,
        .d = spec->d,
        .t = spec->t,
        .X = host_normal(&rng, spec->n * spec->d),
        .Y = host_normal(&rng, spec->n * spec->t),
    };
    move_out(f, spec->far);
    host_round(f->X, f->n * f->d, spec->points);
    host_round(f->Y, f->n * f->t, spec->vectors);
    choose_centers(f, spec->copies);
    keep_independent(f);
}

/* The same on the device. */
static void prepare_points(struct restricted_fixture *f, const struct restricted_spec *spec)
{
    struct backend *const be = f->be;
    f->source = (struct row_source){
        .context = f, .n = f->n, .d = f->d, .t = f->t, .dtype = DTYPE_F64, .read = read_rows};
    const struct rowset_spec rows = {
        .be = be,
        .kernel = &f->kernel,
        .source = &f->source,
        .points = spec->points,
        .vectors = spec->vectors,
        .centers = f->m,
        .budget = spec->streamed ? 0 : INT64_MAX,
        .tile_rows = spec->tile_rows,
    };
    f->host_centers = (struct rows){.dtype = DTYPE_F64, .n = f->m, .d = f->d, .data = f->Z};
    must(rowset_new(&rows, &f->rows, &err));
    must(be->ops->points_new(be, &f->kernel, spec->points, &f->host_centers, &f->centers, &err));
    must(be->ops->points_new(be, &f->kernel, DTYPE_F64, &f->host_centers, &f->core, &err));
}

struct restricted_spec restricted_ordinary(void)
{
    return (struct restricted_spec){.kernel = KERNEL_GAUSSIAN,
                                    .points = DTYPE_F64,
                                    .vectors = DTYPE_F64,
                                    .n = 300,
                                    .m = 30,
                                    .d = 3,
                                    .t = 2,
                                    .lambda = 1e-4,
                                    .tile_rows = 128};
}

struct restricted_spec restricted_matern(int64_t n)
{
    struct restricted_spec spec = restricted_ordinary();
    spec.kernel = KERNEL_MATERN32;
    spec.n = n;
    spec.m = n / 10;
    spec.lambda = 1e-3;
    return spec;
}

void restricted_move_centers(struct restricted_fixture *f)
{
    const struct backend_ops *o = f->be->ops;
    o->points_free(f->be, f->centers);
    o->points_free(f->be, f->core);
    must(o->points_new(f->be, &f->kernel, DTYPE_F64, &f->host_centers, &f->centers, &err));
    must(o->points_new(f->be, &f->kernel, DTYPE_F64, &f->host_centers, &f->core, &err));
    f->restricted.Z = f->centers;
    f->restricted.core = f->core;
}

void restricted_init(struct restricted_fixture *f, struct backend *be,
                     const struct restricted_spec *spec)
{
    draw_data(f, be, spec);
    prepare_points(f, spec);
    f->restricted = (struct restricted){
        .core = f->core,
        .rows = f->rows,
        .source = &f->source,
        .kernel = &f->kernel,
        .Z = f->centers,
        .centers = &f->host_centers,
        .m = f->m,
        .weights = spec->weights,
    };
    f->problem = (struct problem){
        .be = be,
        .restricted = &f->restricted,
        .n = f->n,
        .t = f->t,
        .d = f->d,
        .ridge = (double)f->n * spec->lambda,
        .dtype = spec->vectors,
        .points_dtype = spec->points,
        .seed = 5,
    };
    f->A = device_mat(be, spec->vectors, f->m, f->t, NULL);
}

void restricted_deinit(struct restricted_fixture *f)
{
    f->be->ops->mat_free(f->be, &f->A);
    f->be->ops->points_free(f->be, f->centers);
    f->be->ops->points_free(f->be, f->core);
    rowset_free(f->rows);
    mem_free(f->X);
    mem_free(f->Y);
    mem_free(f->Z);
}

static double *kernel_matrix(const struct restricted_fixture *f, const double *X, int64_t n)
{
    double *K = host_zeros(n * f->m);
    for (int64_t j = 0; j < f->m; j++) {
        for (int64_t i = 0; i < n; i++) {
            K[i + j * n] = kernel_eval(&f->kernel, X + i * f->d, f->Z + j * f->d);
        }
    }
    return K;
}

double *restricted_kernel(const struct restricted_fixture *f)
{
    return kernel_matrix(f, f->X, f->n);
}

double *restricted_hessian(const struct restricted_fixture *f, const double *V)
{
    double *K = restricted_kernel(f), *G = host_zeros(f->m * f->t);
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t i = 0; i < f->n; i++) {
            double u = 0;
            for (int64_t a = 0; a < f->m; a++) {
                u += K[i + a * f->n] * V[a + j * f->m];
            }
            for (int64_t a = 0; a < f->m; a++) {
                G[a + j * f->m] += K[i + a * f->n] * u;
            }
        }
        for (int64_t a = 0; a < f->m; a++) {
            for (int64_t b = 0; b < f->m; b++) {
                G[a + j * f->m] += f->problem.ridge *
                                   kernel_eval(&f->kernel, f->Z + a * f->d, f->Z + b * f->d) *
                                   V[b + j * f->m];
            }
        }
    }
    mem_free(K);
    return G;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Of a kernel with low rank only a shifted H has a factor; predictions hardly see it. */
static double *factor(const double *H, int64_t m)
{
    double trace = 0;
    for (int64_t a = 0; a < m; a++) {
        trace += H[a + a * m];
    }
    for (double shift = 0; shift < 1e-12; shift = fmax(10 * shift, 1e-16)) {
        double *L = mem_dup(H, (size_t)(m * m) * sizeof(double));
        for (int64_t a = 0; a < m; a++) {
            L[a + a * m] += shift * trace;
        }
        if (host_factor(L, m)) {
            return L;
        }
        mem_free(L);
    }
    fail();
    return NULL;
}

double *restricted_solution(const struct restricted_fixture *f)
{
    const int64_t n = f->n, m = f->m;
    double *K = restricted_kernel(f), *core = kernel_matrix(f, f->Z, m);
    double *H = host_zeros(m * m), *B = host_zeros(m * f->t);
    for (int64_t a = 0; a < m; a++) {
        for (int64_t b = 0; b < m; b++) {
            H[a + b * m] = dot(K + a * n, K + b * n, n) + f->problem.ridge * core[a + b * m];
        }
        for (int64_t j = 0; j < f->t; j++) {
            B[a + j * m] = dot(K + a * n, f->Y + j * n, n);
        }
    }
    double *L = factor(H, m);
    host_solve(L, m, B, f->t);
    mem_free(L);
    mem_free(K);
    mem_free(core);
    mem_free(H);
    return B;
}

/* K v for K [rows, m]. */
static double *times(const double *K, int64_t rows, int64_t m, const double *v)
{
    double *y = host_zeros(rows);
    for (int64_t j = 0; j < m; j++) {
        for (int64_t i = 0; i < rows; i++) {
            y[i] += K[i + j * rows] * v[j];
        }
    }
    return y;
}

double restricted_residual(const struct restricted_fixture *f, const double *B)
{
    const int64_t n = f->n, m = f->m;
    double *K = restricted_kernel(f), *core = kernel_matrix(f, f->Z, m);
    double largest = 0;
    for (int64_t j = 0; j < f->t; j++) {
        double *u = times(K, n, m, B + j * m), *v = times(core, m, m, B + j * m);
        double rr = 0, yy = 0;
        for (int64_t i = 0; i < n; i++) {
            u[i] -= f->Y[i + j * n];
        }
        for (int64_t a = 0; a < m; a++) {
            const double r = dot(K + a * n, u, n) + f->problem.ridge * v[a];
            const double y = dot(K + a * n, f->Y + j * n, n);
            rr += r * r;
            yy += y * y;
        }
        largest = fmax(largest, sqrt(rr / yy));
        mem_free(u);
        mem_free(v);
    }
    mem_free(K);
    mem_free(core);
    return largest;
}

double restricted_difference(const struct restricted_fixture *f, const double *B, const double *C)
{
    double *K = restricted_kernel(f);
    double largest = 0, scale = 0;
    for (int64_t j = 0; j < f->t; j++) {
        double *b = times(K, f->n, f->m, B + j * f->m), *c = times(K, f->n, f->m, C + j * f->m);
        for (int64_t i = 0; i < f->n; i++) {
            largest = fmax(largest, fabs(b[i] - c[i]));
            scale = fmax(scale, fabs(c[i]));
        }
        mem_free(b);
        mem_free(c);
    }
    mem_free(K);
    return scale > 0 ? largest / scale : largest;
}

struct solve_outcome restricted_solve(struct restricted_fixture *f, const char *solver,
                                      const struct solve_limits *limits)
{
    const struct solver_options options = options_make(solver, NULL, limits->tolerance);
    return restricted_solve_with(f, solver, &options, limits);
}

struct solve_outcome restricted_solve_with(struct restricted_fixture *f, const char *solver,
                                           const struct solver_options *options,
                                           const struct solve_limits *limits)
{
    struct world w = world_calm();
    const struct solve_control control = world_control(&w);
    struct solve_outcome outcome = {.reason = REASON_NONE};
    must(solve_run(solver_find(solver), &f->problem, options, limits, &control, NULL, NULL, NULL,
                   &f->A, &outcome, &err));
    return outcome;
}

struct solve_outcome restricted_solve_params(struct restricted_fixture *f, const char *solver,
                                             const char *params, double tolerance,
                                             int64_t iterations)
{
    struct solver_options options = options_make(solver, NULL, tolerance);
    options_set(&options, params);
    const struct solve_limits limits = {
        .tolerance = tolerance, .max_iterations = iterations, .time_budget_s = INFINITY};
    return restricted_solve_with(f, solver, &options, &limits);
}
