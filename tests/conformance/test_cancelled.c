/* Restricted problems whose right-hand side K_nm' Y cancels to rounding: every row is there twice,
 * with targets of opposite signs. Zeros solve them, and what a solver makes of the rounding does.
 */
#include <math.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

static double ones[64];

/* Two targets; the first one cancels. */
static void init(struct restricted_fixture *f, struct backend *be, bool both)
{
    struct restricted_spec spec = restricted_ordinary();
    for (int64_t j = 0; j < spec.m; j++) {
        ones[j] = 1.0;
    }
    spec.weights = ones;
    spec.lambda = 1e-4;
    restricted_init(f, be, &spec);
    const int64_t half = f->n / 2;
    for (int64_t i = 0; i < half; i++) {
        for (int64_t k = 0; k < f->d; k++) {
            f->X[(half + i) * f->d + k] = f->X[i * f->d + k];
        }
        for (int64_t j = 0; j < (both ? f->t : 1); j++) {
            f->Y[half + i + j * f->n] = -f->Y[i + j * f->n];
        }
    }
}

static void check(struct restricted_fixture *f, const char *solver)
{
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = 300, .time_budget_s = INFINITY};
    const struct solve_outcome out = restricted_solve(f, solver, &limits);
    if (out.reason != REASON_CONVERGED || !(out.relative_residual <= 1e-6)) {
        print_error("%s: %s, residual %g\n", solver, reason_name(out.reason),
                    out.relative_residual);
        fail();
    }
    double *A = device_get(f->be, &f->A);
    for (int64_t i = 0; i < f->m; i++) {
        assert_true(fabs(A[i]) < 1e-8); /* of targets of order 1 */
    }
    mem_free(A);
}

static void test_both_targets(void **state)
{
    for (const struct solver_ops *const *s = solver_list(); *s != NULL; s++) {
        if ((*s)->restricted) {
            struct restricted_fixture f;
            init(&f, *state, true);
            check(&f, (*s)->name);
            restricted_deinit(&f);
        }
    }
}

/* The other target is solved all the same. */
static void test_one_of_two(void **state)
{
    static const char *const names[] = {"direct", "falkon", "krill", "cg"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct restricted_fixture f;
        init(&f, *state, false);
        check(&f, names[i]);
        double *B = restricted_solution(&f), *A = device_get(f.be, &f.A);
        for (int64_t k = 0; k < f.m; k++) { /* the certificate counts its own residual */
            A[k] = B[k] = 0;
        }
        assert_true(restricted_difference(&f, A, B) < 1e-4);
        mem_free(A);
        mem_free(B);
        restricted_deinit(&f);
    }
}

TEST_MAIN(cmocka_unit_test_setup_teardown(test_both_targets, device_setup_one, device_teardown),
          cmocka_unit_test_setup_teardown(test_one_of_two, device_setup_one, device_teardown))
