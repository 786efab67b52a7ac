/* What each solver for full problems takes on the backend, against what its entry in the catalog
 * says. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

enum { STEPS_MAX = 3000, ITERATIONS = 3, FEATURES = 5, TARGETS = 3 };

/* Float64 numbers, of n rows, t targets, and the rank or block that the method took. */
static double stated(const struct method *m, double n, double t, double rank)
{
    const double piece = fmin(n * n, (double)(1 << 23)); /* of the kernel matrix */
    if (strcmp(m->solver, "cholesky") == 0) {
        return n * n + 3 * n * t;
    }
    if (strcmp(m->solver, "kmcg") == 0) { /* whatever it has used of them */
        const double p = fmin(n, 500), w = fmax(t, 16);
        return 2 * n * p + 4 * n * w + 6 * n * t + 2 * p * p + 6 * p * w;
    }
    if (strcmp(m->solver, "eigenpro2") == 0) {
        const double s = fmin(n, 2000);
        return 5 * n * t + 2 * s * s + s * rank;
    }
    if (strcmp(m->solver, "pcg") != 0) { /* block methods, with blocks of this size exactly */
        return 5 * n * t + rank * rank + 8 * rank * t;
    }
    const double preconditioner = n * rank + rank * rank + rank * t;
    const bool sketched = strcmp(m->precond, "nystrom_gaussian") == 0;
    return 5 * n * t + (sketched ? 2 * preconditioner + piece : preconditioner);
}

/* The high-water mark of set-up and a few iterations. */
static int64_t peak_of(struct fixture *f, const struct method *m, int64_t *ret_rank)
{
    const struct solver_ops *ops = solver_find(m->solver);
    const struct solver_options options = options_make(m->solver, m->precond, 1e-12);
    const int64_t before = f->be->bytes;
    struct step_report at = {.iteration = 0};
    struct solver *s = NULL;
    int r = 0;
    f->be->peak_bytes = before;
    must(ops->setup(&f->problem, &options, &s, &err));
    for (int k = 0; r == 0 && k < STEPS_MAX && at.iteration < ITERATIONS; k++) {
        struct err err;
        r = ops->step(s, &at, &err);
    }
    assert_true(r >= 0);
    ops->teardown(s);
    assert_int_equal(f->be->bytes, before);
    *ret_rank = at.rank;
    return f->be->peak_bytes - before;
}

static void check_method(struct backend *be, const struct method *m, int64_t n)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = n,
                                      .d = FEATURES,
                                      .t = TARGETS,
                                      .lambda = 1e-4,
                                      .seed = 3};
    struct fixture f;
    int64_t rank = 0;
    fixture_init(&f, be, &spec);
    const double peak = (double)peak_of(&f, m, &rank);
    const double limit =
        stated(m, (double)n, TARGETS, (double)rank) * (double)sizeof(double) * 1.02;
    if (peak > limit) {
        print_error("%s %s, %lld rows: %.0f bytes, stated are %.0f\n", m->solver,
                    m->precond != NULL ? m->precond : "", (long long)n, peak, limit);
        fail();
    }
    fixture_deinit(&f);
}

static void test_memory_is_what_is_stated(void **state)
{
    (void)state;
    struct method methods[METHODS_MAX];
    const int count = list_methods(methods);
    struct backend *be = device_open(0);
    for (int i = 0; i < count; i++) {
        check_method(be, &methods[i], 1000);
        check_method(be, &methods[i], 2500);
    }
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_memory_is_what_is_stated))
