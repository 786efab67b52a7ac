/* What stochastic methods begin with: checkpoints that mislead, with the steps back, or that cannot
 * be, and coefficients. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

static const char *const solvers[] = {"sketchysaga", "sketchykatyusha"};

/* ---- checkpoints ---- */

enum { COUNTERS = 9, NUMBERS = 7, SMOOTHNESS = 4, KEPT_MAX = 6 };

/* A checkpoint of either method. */
struct kept {
    int64_t counters[COUNTERS];
    double numbers[NUMBERS], norm[2];
    struct mat matrices[KEPT_MAX], table;
};

static const char *const kept_names[2][KEPT_MAX] = {{"B", "best", "mean"},
                                                    {"Y", "Z", "W", "best", "gradient", "rhs"}};

static void take_apart(struct restricted_fixture *f, int k, const struct state *from,
                       struct kept *ret)
{
    *ret = (struct kept){0};
    must(state_get_ints(from, "counters", ret->counters, COUNTERS, &err));
    must(state_get_reals(from, "numbers", ret->numbers, NUMBERS, &err));
    must(state_get_reals(from, "norm", ret->norm, 2, &err));
    for (int i = 0; i < KEPT_MAX && kept_names[k][i] != NULL; i++) {
        ret->matrices[i] = device_mat(f->be, DTYPE_F64, f->m, f->t, NULL);
        must(state_get_mat(from, kept_names[k][i], f->be, &ret->matrices[i], &err));
    }
    ret->table = device_mat(f->be, DTYPE_F64, f->n, f->t, NULL);
    if (k == 0) {
        must(state_get_mats(from, "table", f->be, &ret->table, 1, &err));
    }
}

/* Lends the table. */
static void put_together(struct restricted_fixture *f, int k, struct kept *from, struct state *to)
{
    must(state_put_ints(to, "counters", from->counters, COUNTERS, &err));
    must(state_put_reals(to, "numbers", from->numbers, NUMBERS, &err));
    must(state_put_reals(to, "norm", from->norm, 2, &err));
    for (int i = 0; i < KEPT_MAX && kept_names[k][i] != NULL; i++) {
        must(state_put_mat(to, kept_names[k][i], f->be, &from->matrices[i], &err));
    }
    if (k == 0) {
        must(state_lend_mats(to, "table", f->be, &from->table, 1, &err));
    }
}

/* A checkpoint at the first coefficients, with a hundredth of the smoothness. */
static struct state *misleading(struct restricted_fixture *f, int k,
                                const struct solver_options *options)
{
    const struct solver_ops *ops = solver_find(solvers[k]);
    struct solver *s = NULL;
    struct step_report at = {0};
    must(ops->setup(&f->problem, options, &s, &err));
    while (!at.usable) {
        must(ops->step(s, &at, &err));
    }
    struct state *saved = state_new(), *changed = state_new();
    must(ops->save(s, saved, &err));
    struct state *read = state_through_file(saved);
    struct kept kept;
    take_apart(f, k, read, &kept);
    kept.numbers[SMOOTHNESS] *= 0.01;
    put_together(f, k, &kept, changed);
    state_free(read);
    read = state_through_file(changed);
    state_free(changed);
    state_free(saved);
    for (int i = 0; i < KEPT_MAX; i++) {
        f->be->ops->mat_free(f->be, &kept.matrices[i]);
    }
    f->be->ops->mat_free(f->be, &kept.table);
    ops->teardown(s);
    return read;
}

/* Where the step is far too long the method goes back, halves it, says so, and converges. */
static void test_steps_back(void **state)
{
    const struct restricted_spec spec = restricted_matern(300);
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solver_ops *ops = solver_find(solvers[k]);
        struct solver_options options = options_make(solvers[k], NULL, 1e-6);
        options_set(&options, "{\"damping\": 1}");
        struct state *from = misleading(&f, k, &options);
        struct solver *s = NULL;
        struct step_report at = {0};
        must(ops->setup(&f.problem, &options, &s, &err));
        must(ops->load(s, from, &err));
        int r = 0;
        for (int steps = 0; r == 0 && steps < 20000; steps++) {
            struct err err;
            r = ops->step(s, &at, &err);
        }
        assert_int_equal(r, REASON_CONVERGED);
        assert_true(at.relative_residual <= 1e-6);
        assert_non_null(at.note);
        assert_non_null(strstr(at.note, "halved"));
        ops->teardown(s);
        state_free(from);
        restricted_deinit(&f);
    }
}

/* A checkpoint with numbers that no run leaves behind is refused. */
static void test_refuses_nonsense(void **state)
{
    const struct restricted_spec spec = restricted_matern(300);
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    for (int i = 0; i < 2 * (COUNTERS + 2); i++) {
        const int k = i % 2, which = i / 2;
        const struct solver_options options = options_make(solvers[k], NULL, 1e-6);
        struct solver *s = NULL;
        must(solver_find(solvers[k])->setup(&f.problem, &options, &s, &err));
        int64_t counters[COUNTERS] = {0};
        double numbers[NUMBERS] = {1, 1, 1, 1, 1};
        if (which < COUNTERS) {
            counters[which] = -1;
        } else {
            numbers[3 + which - COUNTERS] = NAN;
        }
        struct state *bad = state_new();
        must(state_put_ints(bad, "counters", counters, COUNTERS, &err));
        must(state_put_reals(bad, "numbers", numbers, NUMBERS, &err));
        struct err err = {0};
        const int r = solver_find(solvers[k])->load(s, bad, &err);
        assert_int_equal(r, -ERR_CORRUPT);
        assert_non_null(strstr(err.detail, "out of range")); /* and not that arrays are missing */
        state_free(bad);
        solver_find(solvers[k])->teardown(s);
    }
    restricted_deinit(&f);
}

/* ---- coefficients ---- */

/* Coefficients to begin with: the solution is taken as it is, nonsense is dropped. */
static void test_start(void **state)
{
    const struct restricted_spec spec = restricted_matern(300);
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        double *B = restricted_solution(&f);
        struct mat start = device_mat(f.be, DTYPE_F64, f.m, f.t, B);
        f.problem.start = &start;
        struct solve_outcome outcome = restricted_solve_params(&f, solvers[k], NULL, 1e-6, 3000);
        assert_int_equal(outcome.reason, REASON_CONVERGED);
        assert_int_equal(outcome.iterations, 0);
        for (int64_t i = 0; i < f.m * f.t; i++) {
            B[i] = 1e6;
        }
        must(f.be->ops->mat_put(f.be, B, f.m, &start, &err));
        outcome = restricted_solve_params(&f, solvers[k], NULL, 1e-6, 3000);
        assert_int_equal(outcome.reason, REASON_CONVERGED);
        const int64_t iterations = outcome.iterations;
        f.problem.start = NULL; /* as if there had been none */
        outcome = restricted_solve_params(&f, solvers[k], NULL, 1e-6, 3000);
        assert_true(outcome.iterations == iterations && iterations > 0);
        mem_free(B);
        f.be->ops->mat_free(f.be, &start);
        restricted_deinit(&f);
    }
}

/* f(V) - f(0) of column j, with H V and K_nm' Y. */
static double energy(const struct restricted_fixture *f, const double *V, const double *HV,
                     const double *rhs, int64_t j)
{
    double value = 0;
    for (int64_t a = j * f->m; a < (j + 1) * f->m; a++) {
        value += V[a] * (0.5 * HV[a] - rhs[a]);
    }
    return value;
}

static double *host_rhs(const struct restricted_fixture *f)
{
    double *K = restricted_kernel(f), *rhs = host_zeros(f->m * f->t);
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t a = 0; a < f->m; a++) {
            for (int64_t i = 0; i < f->n; i++) {
                rhs[a + j * f->m] += K[i + a * f->n] * f->Y[i + j * f->n];
            }
        }
    }
    mem_free(K);
    return rhs;
}

/* V = c (e_0 - e_b), the same for all columns, with the least residual of column 0: the first b for
 * which f of it is above that at 0. */
static void lead_astray(struct restricted_fixture *f, const double *rhs, double *V)
{
    for (int64_t b = 1; b < f->m; b++) {
        memset(V, 0, (size_t)(f->m * f->t) * sizeof(double));
        for (int64_t j = 0; j < f->t; j++) {
            V[j * f->m] = 1.0;
            V[b + j * f->m] = -1.0;
        }
        double *HV = restricted_hessian(f, V), cross = 0, square = 0;
        for (int64_t a = 0; a < f->m; a++) {
            cross += HV[a] * rhs[a];
            square += HV[a] * HV[a];
        }
        for (int64_t a = 0; a < f->m * f->t; a++) {
            V[a] *= cross / square;
            HV[a] *= cross / square;
        }
        const bool found = energy(f, V, HV, rhs, 0) > 0;
        mem_free(HV);
        if (found) {
            return;
        }
    }
    fail_msg("no such direction");
}

/* Coefficients with a smaller residual than zeros that predict worse are dropped. */
static void test_energy_of_a_start(void **state)
{
    struct restricted_spec spec = restricted_matern(300);
    spec.t = 1;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        double *rhs = host_rhs(&f), *V = host_zeros(f.m);
        lead_astray(&f, rhs, V);
        assert_true(restricted_residual(&f, V) < 1);
        struct mat start = device_mat(f.be, DTYPE_F64, f.m, 1, V);
        f.problem.start = &start;
        const struct solver_options options = options_make(solvers[k], NULL, 1e-6);
        struct solver *s = NULL;
        struct step_report at = {0};
        must(solver_find(solvers[k])->setup(&f.problem, &options, &s, &err));
        while (!at.usable) {
            must(solver_find(solvers[k])->step(s, &at, &err));
        }
        must(solver_find(solvers[k])->coef(s, &f.A, &err));
        double *A = device_get(f.be, &f.A), *HA = restricted_hessian(&f, A);
        assert_true(energy(&f, A, HA, rhs, 0) <= 0);
        solver_find(solvers[k])->teardown(s);
        double *const numbers[] = {rhs, V, A, HA};
        for (int i = 0; i < 4; i++) {
            mem_free(numbers[i]);
        }
        f.be->ops->mat_free(f.be, &start);
        restricted_deinit(&f);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_steps_back), TEST(test_start), TEST(test_energy_of_a_start),
          TEST(test_refuses_nonsense))
