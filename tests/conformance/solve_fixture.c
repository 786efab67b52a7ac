#include "conformance/solve_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

void fixture_init(struct fixture *f, struct backend *be, const struct fixture_spec *spec)
{
    struct rng rng = rng_new(spec->seed, RNG_TEST);
    *f = (struct fixture){.be = be, .n = spec->n, .d = spec->d, .t = spec->t};
    f->kernel = (struct kernel){.id = spec->kernel,
                                .d = spec->d,
                                .bandwidth = 2.0,
                                .gamma = 0.5,
                                .coef0 = spec->kernel == KERNEL_SIGMOID ? -1.0 : 1.0,
                                .degree = 2};
    f->X = host_normal(&rng, f->n * f->d);
    host_round(f->X, f->n * f->d, spec->points);
    for (int64_t k = 0; k < spec->copies * f->d; k++) {
        f->X[(f->n - spec->copies) * f->d + k] = f->X[k];
    }
    f->host = (struct rows){.dtype = DTYPE_F64, .n = f->n, .d = f->d, .data = f->X};
    f->Y = host_normal(&rng, f->n * f->t);
    host_round(f->Y, f->n * f->t, spec->vectors);
    must(be->ops->points_new(be, &f->kernel, spec->points, &f->host, &f->points, &err));
    if (spec->points == DTYPE_F32 && spec->vectors == DTYPE_F64) {
        must(be->ops->points_new(be, &f->kernel, DTYPE_F64, &f->host, &f->exact, &err));
    }
    f->problem = (struct problem){
        .be = be,
        .X = f->points,
        .exact = f->exact,
        .host = &f->host,
        .kernel = &f->kernel,
        .n = f->n,
        .t = f->t,
        .d = f->d,
        .ridge = (double)f->n * spec->lambda,
        .dtype = spec->vectors,
        .points_dtype = spec->points,
        .Y = device_mat(be, spec->vectors, f->n, f->t, f->Y),
        .seed = spec->seed,
    };
    f->A = device_mat(be, spec->vectors, f->n, f->t, NULL);
}

void fixture_deinit(struct fixture *f)
{
    f->be->ops->mat_free(f->be, &f->A);
    f->be->ops->mat_free(f->be, &f->problem.Y);
    if (f->exact != NULL) {
        f->be->ops->points_free(f->be, f->exact);
    }
    f->be->ops->points_free(f->be, f->points);
    mem_free(f->X);
    mem_free(f->Y);
}

double *fixture_matrix(const struct fixture *f)
{
    double *M = host_zeros(f->n * f->n);
    for (int64_t j = 0; j < f->n; j++) {
        for (int64_t i = 0; i < f->n; i++) {
            M[i + j * f->n] = kernel_eval(&f->kernel, f->X + i * f->d, f->X + j * f->d);
        }
        M[j + j * f->n] += f->problem.ridge;
    }
    return M;
}

bool host_factor(double *A, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k < j; k++) {
            for (int64_t i = j; i < n; i++) {
                A[i + j * n] -= A[i + k * n] * A[j + k * n];
            }
        }
        if (!(A[j + j * n] > 0)) {
            return false;
        }
        const double root = sqrt(A[j + j * n]);
        for (int64_t i = j; i < n; i++) {
            A[i + j * n] /= root;
        }
    }
    return true;
}

void host_solve(const double *L, int64_t n, double *B, int64_t t)
{
    for (int64_t c = 0; c < t; c++) {
        double *b = B + c * n;
        for (int64_t j = 0; j < n; j++) {
            b[j] /= L[j + j * n];
            for (int64_t i = j + 1; i < n; i++) {
                b[i] -= L[i + j * n] * b[j];
            }
        }
        for (int64_t j = n - 1; j >= 0; j--) {
            for (int64_t i = j + 1; i < n; i++) {
                b[j] -= L[i + j * n] * b[i];
            }
            b[j] /= L[j + j * n];
        }
    }
}

double host_residual(const struct fixture *f, const double *M, const double *B)
{
    double largest = 0;
    for (int64_t c = 0; c < f->t; c++) {
        double rr = 0, yy = 0;
        for (int64_t i = 0; i < f->n; i++) {
            double e = f->Y[i + c * f->n];
            yy += e * e;
            for (int64_t j = 0; j < f->n; j++) {
                e -= M[i + j * f->n] * B[j + c * f->n];
            }
            rr += e * e;
        }
        largest = fmax(largest, yy > 0 ? sqrt(rr / yy) : sqrt(rr));
    }
    return largest;
}

struct solver_options options_make(const char *solver, const char *precond, double tolerance)
{
    struct solver_options o = {.tolerance = tolerance};
    const struct method_def *method = catalog_find(CATALOG_SOLVERS, solver);
    must(param_read(method->params, NULL, NULL, &o.params, &err));
    if (precond != NULL) {
        const struct method_def *def = catalog_find(CATALOG_PRECONDITIONERS, precond);
        must(param_read(def->params, NULL, NULL, &o.precond_params, &err));
        o.precond = precond_find(precond);
    }
    return o;
}

void options_set(struct solver_options *options, const char *params)
{
    struct json *j = NULL;
    if (params != NULL) {
        must(json_parse(params, strlen(params), &j, &err));
        must(param_read(options->params.defs, j, NULL, &options->params, &err));
        json_free(j);
    }
}

static double world_now(void *context)
{
    struct world *w = context;
    w->now += w->tick;
    return w->now;
}

static bool world_cancelled(void *context)
{
    struct world *w = context;
    return w->asked++ == w->cancel_at;
}

static void world_report(void *context, const struct progress *p)
{
    struct world *w = context;
    w->reports++;
    const bool same = w->last.iteration == p->iteration && !isnan(w->last.step);
    w->within += p->step > (same ? w->last.step : 0.0) && p->step < 1.0;
    w->fraction_fell = fmax(w->fraction_fell, w->last.fraction - p->fraction);
    w->last = *p;
    if (!isnan(p->eta_s)) {
        w->latest_end = fmax(w->latest_end, p->elapsed_s + p->eta_s);
        w->early_etas += strcmp(p->phase, "preconditioner") == 0;
    }
}

struct solve_control world_control(struct world *w)
{
    return (struct solve_control){
        .context = w,
        .now = world_now,
        .cancelled = world_cancelled,
        .report = world_report,
        .started = w->now,
    };
}

struct solve_outcome fixture_solve(struct fixture *f, const char *solver, const char *precond,
                                   const struct solve_limits *limits, struct world *w,
                                   const struct solve_evaluator *evaluator, struct err *err)
{
    const struct solver_options options = options_make(solver, precond, limits->tolerance);
    const struct solve_control control = world_control(w);
    struct solve_outcome outcome = {.reason = REASON_NONE};
    struct err cause = {.code = ERR_OK};
    const int rc = solve_run(solver_find(solver), &f->problem, &options, limits, &control,
                             evaluator, &f->kernel, &f->host, &f->A, &outcome, &cause);
    if (rc != 0) {
        print_error("solve_run: %d %s\n", rc, cause.detail);
        fail();
    }
    if (err != NULL) {
        *err = cause;
    }
    return outcome;
}

struct world world_calm(void)
{
    return (struct world){.cancel_at = -1};
}

bool precond_wants_grid(const char *name)
{
    return strcmp(name, "kronecker") == 0;
}

int list_methods(struct method ret[METHODS_MAX])
{
    int count = 0;
    for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
        if ((*s)->restricted) {
            continue;
        }
        if (!catalog_find(CATALOG_SOLVERS, (*s)->name)->has_preconditioner) {
            assert_true(count < METHODS_MAX);
            ret[count++] = (struct method){(*s)->name, NULL};
            continue;
        }
        for (const struct precond_ops *const *m = precond_list(); *m != NULL; m++) {
            assert_true(count < METHODS_MAX);
            if (!precond_wants_grid((*m)->name)) {
                ret[count++] = (struct method){(*s)->name, (*m)->name};
            }
        }
    }
    return count;
}

static int to_buf(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    buf_add(context, data, size);
    return 0;
}

static void free_image(void *image)
{
    mem_free(image);
}

struct state *state_through_file(const struct state *s)
{
    struct buf image = BUF_INIT;
    must(state_write(s, to_buf, &image, &err));
    assert_false(image.failed);
    void *aligned = mem_aligned(image.len, 64);
    assert_non_null(aligned);
    memcpy(aligned, image.data, image.len);
    struct state *read = NULL;
    must(state_read(aligned, image.len, &read, &err));
    state_keep(read, free_image, aligned);
    buf_deinit(&image);
    return read;
}
