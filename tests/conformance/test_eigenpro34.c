/* What the suite of all restricted solvers does not reach of eigenpro3 and eigenpro4: projections,
 * guards, saved states in the middle of a window. */
#include "engine/methods/eigenpro/eigenpro34.h"

#include <math.h>

#include "base/mem.h"
#include "conformance/restricted_fixture.h"

static const char *const both[] = {"eigenpro3", "eigenpro4"};

/* ---- projections ---- */

/* theta of H, [m, t], by a projection of its own. */
static double *project(struct restricted_fixture *f, bool exact, int64_t epochs, const double *H)
{
    const struct center_projection_spec spec = {
        .p = &f->problem, .exact = exact, .epochs = epochs, .subsample = 20, .eigenvectors = -1};
    struct center_projection *c = NULL;
    struct mat h = device_mat(f->be, DTYPE_F64, f->m, f->t, H), theta = {0};
    double part;
    int r = 0;
    must(center_projection_new(&spec, &c, &err));
    while (r == 0) {
        struct err err;
        r = center_projection_build(c, &part, &err);
    }
    assert_int_equal(r, 1);
    assert_true((center_projection_factor(c) != NULL) == exact);
    must(center_projection_begin(c, &h, &err));
    for (r = 0; r == 0;) {
        struct err err;
        r = center_projection_step(c, &theta, &err);
    }
    assert_int_equal(r, 1);
    double *found = device_get(f->be, &theta);
    f->be->ops->mat_free(f->be, &h);
    center_projection_free(c);
    return found;
}

/* |K_mm theta - H| / |H|. */
static double missed(struct restricted_fixture *f, const double *theta, const double *H)
{
    double rr = 0, hh = 0;
    for (int64_t j = 0; j < f->t; j++) {
        for (int64_t a = 0; a < f->m; a++) {
            double sum = -H[a + j * f->m];
            for (int64_t b = 0; b < f->m; b++) {
                sum +=
                    kernel_eval(&f->kernel, f->Z + a * f->d, f->Z + b * f->d) * theta[b + j * f->m];
            }
            rr += sum * sum;
            hh += H[a + j * f->m] * H[a + j * f->m];
        }
    }
    return sqrt(rr / hh);
}

enum { EPOCHS = 4 };

static void test_projections(void **state)
{
    const struct restricted_spec spec = restricted_matern(400);
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    struct rng rng = rng_new(3, RNG_TEST);
    double *H = host_normal(&rng, f.m * f.t), *found[EPOCHS];
    static const int64_t epochs[EPOCHS] = {1, 10, 100, 1000};
    double least = 1.0;
    for (int i = 0; i < EPOCHS; i++) {
        found[i] = project(&f, false, epochs[i], H);
        assert_true(missed(&f, found[i], H) < 0.8 * least);
        least = missed(&f, found[i], H);
    }
    double *exact = project(&f, true, 1, H), *again = project(&f, false, 1, H);
    assert_true(missed(&f, exact, H) < 1e-10);
    assert_memory_equal(found[0], again, (size_t)(f.m * f.t) * sizeof(double));
    for (int64_t i = 0; i < f.m * f.t; i++) {
        H[i] *= 2;
    }
    double *twice = project(&f, false, 1, H); /* linear */
    for (int64_t i = 0; i < f.m * f.t; i++) {
        assert_true(twice[i] == 2 * found[0][i]);
    }
    double *const all[] = {H, exact, again, twice};
    for (int i = 0; i < 4; i++) {
        mem_free(all[i]);
        mem_free(found[i]);
    }
    restricted_deinit(&f);
}

/* Either projection leads to the same solution, also when the preconditioner has few centers. With
 * an inexact one that has few itself, slow directions come slowly: the residual stops falling. */
static void test_exact_and_inexact(void **state)
{
    static const struct {
        const char *params;
        bool converges;
        double difference;
    } ways[] = {
        {"{\"projection\": \"exact\"}", true, 1e-6},
        {"{\"projection\": \"inexact\"}", true, 1e-6},
        {"{\"projection\": \"exact\", \"subsample_centers\": 15}", true, 1e-6},
        {"{\"projection\": \"inexact\", \"projection_epochs\": 3}", true, 1e-6},
        {"{\"projection\": \"exact\", \"eigenvectors\": 0}", true, 1e-6},
        {"{\"projection\": \"inexact\", \"subsample_centers\": 25}", false, 1e-2},
    };
    const struct restricted_spec spec = restricted_matern(400);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
            struct restricted_fixture f;
            restricted_init(&f, *state, &spec);
            const struct solve_outcome out =
                restricted_solve_params(&f, both[k], ways[i].params, 1e-8, 200);
            double *B = restricted_solution(&f), *A = device_get(f.be, &f.A);
            const double difference = restricted_difference(&f, A, B);
            if ((out.reason == REASON_CONVERGED) < ways[i].converges ||
                !(difference < ways[i].difference)) {
                print_error("%s %s: %s after %lld, %g, predictions differ by %g\n", both[k],
                            ways[i].params, reason_name(out.reason), (long long)out.iterations,
                            out.relative_residual, difference);
                fail();
            }
            mem_free(A);
            mem_free(B);
            restricted_deinit(&f);
        }
    }
}

/* ---- guards ---- */

/* Of few rows the preconditioner knows all pairs, and takes them all. */
static void test_few_rows(void **state)
{
    static const int64_t rows[] = {20, 50, 150};
    for (int i = 0; i < 6; i++) {
        struct restricted_spec spec = restricted_matern(400);
        spec.kernel = KERNEL_GAUSSIAN;
        spec.n = spec.m = rows[i / 2];
        spec.lambda = 1e-6;
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = restricted_solve_params(&f, both[i % 2], NULL, 1e-9, 40);
        assert_int_equal(out.reason, REASON_CONVERGED);
        restricted_deinit(&f);
    }
}

static void test_steps_too_long(void **state)
{
    const struct restricted_spec spec = restricted_matern(400);
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out =
            restricted_solve_params(&f, both[k], "{\"learning_rate\": 1e6}", 1e-8, 300);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(out.relative_residual <= 1.01e-8);
        restricted_deinit(&f);
    }
}

/* One row in 300 has targets: those before it in an epoch say nothing of what residuals may be. */
static void test_sparse_targets(void **state)
{
    struct restricted_spec spec = restricted_matern(900);
    spec.streamed = true; /* so that the rows are not read before */
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        for (int64_t i = 0; i < f.n * f.t; i++) {
            f.Y[i] *= i % 300 == 7;
        }
        const struct solve_outcome out = restricted_solve_params(
            &f, both[k], "{\"batch_size\": 20, \"eigenvectors\": 10}", 1e-6, 300);
        assert_int_equal(out.reason, REASON_CONVERGED);
        restricted_deinit(&f);
    }
}

static void test_no_ridge(void **state)
{
    struct restricted_spec spec = restricted_matern(400);
    spec.lambda = 0;
    for (int k = 0; k < 2; k++) {
        struct restricted_fixture f;
        restricted_init(&f, *state, &spec);
        const struct solve_outcome out = restricted_solve_params(&f, both[k], "{}", 1e-8, 1000);
        double *B = restricted_solution(&f), *A = device_get(f.be, &f.A);
        assert_int_equal(out.reason, REASON_CONVERGED);
        assert_true(restricted_difference(&f, A, B) < 1e-5);
        mem_free(A);
        mem_free(B);
        restricted_deinit(&f);
    }
}

/* Rows that stay in memory or are read again: the same bits. */
static void test_residency(void **state)
{
    struct restricted_spec spec = restricted_matern(400);
    for (int k = 0; k < 2; k++) {
        double *found[2];
        for (int streamed = 0; streamed < 2; streamed++) {
            struct restricted_fixture f;
            spec.streamed = streamed == 1;
            restricted_init(&f, *state, &spec);
            restricted_solve_params(&f, both[k], "{}", 1e-12, 5);
            found[streamed] = device_get(f.be, &f.A);
            restricted_deinit(&f);
        }
        assert_memory_equal(found[0], found[1], (size_t)(spec.m * spec.t) * sizeof(double));
        mem_free(found[0]);
        mem_free(found[1]);
    }
}

/* ---- saved states ---- */

struct run {
    struct solver *s;
    struct step_report at;
};

static void run_to(struct run *run, const struct solver_ops *ops, int64_t iteration)
{
    while (run->at.iteration < iteration) {
        struct err err = {0};
        assert_int_equal(ops->step(run->s, &run->at, &err), 0);
    }
}

/* Windows of 1,000 rows take more kernel values than a step has: some states are saved inside of
 * one, with temporary centers; others during projections and passes. */
static void test_resume_inside_a_window(void **state)
{
    struct restricted_spec spec = restricted_matern(400);
    spec.n = 2100;
    spec.m = 1000;
    spec.t = 1;
    spec.tile_rows = 500;
    const struct solver_ops *ops = solver_find("eigenpro4");
    struct solver_options options = options_make("eigenpro4", NULL, 1e-12);
    options_set(&options, "{\"subsample_centers\": 60, \"batch_size\": 100}");
    struct restricted_fixture f, other; /* two: a solver keeps the batch it reads */
    restricted_init(&f, *state, &spec);
    restricted_init(&other, *state, &spec);
    const size_t size = (size_t)f.m * sizeof(double);
    struct run whole = {0};
    must(ops->setup(&f.problem, &options, &whole.s, &err));
    run_to(&whole, ops, 3);
    must(ops->coef(whole.s, &f.A, &err));
    double *expected = device_get(f.be, &f.A);
    int inside = 0;
    struct run first = {0};
    must(ops->setup(&f.problem, &options, &first.s, &err));
    while (first.at.iteration < 2) {
        must(ops->step(first.s, &first.at, &err));
        const bool window = first.s->built && first.s->at.next > first.s->at.window &&
                            first.s->at.stage == EP_BATCHES;
        if (!first.at.usable || !window || inside == 3) {
            continue;
        }
        inside++;
        struct state *saved = state_new();
        must(ops->save(first.s, saved, &err));
        struct state *read = state_through_file(saved);
        struct run second = {.at = first.at};
        must(ops->setup(&other.problem, &options, &second.s, &err));
        must(ops->load(second.s, read, &err));
        run_to(&second, ops, 3);
        must(ops->coef(second.s, &f.A, &err));
        double *found = device_get(f.be, &f.A);
        assert_memory_equal(found, expected, size);
        mem_free(found);
        ops->teardown(second.s);
        state_free(read);
        state_free(saved);
    }
    assert_int_equal(inside, 3);
    ops->teardown(first.s);
    ops->teardown(whole.s);
    mem_free(expected);
    restricted_deinit(&other);
    restricted_deinit(&f);
}

/* A damaged state is refused, and none of it is used. */
static void test_impossible_counters(void **state)
{
    const struct restricted_spec spec = restricted_matern(400);
    const struct solver_ops *ops = solver_find("eigenpro3");
    const struct solver_options options = options_make("eigenpro3", NULL, 1e-12);
    struct restricted_fixture f;
    restricted_init(&f, *state, &spec);
    for (int k = 0; k < EIGENPRO34_COUNTERS; k++) {
        struct run run = {0}, other = {0};
        must(ops->setup(&f.problem, &options, &run.s, &err));
        run_to(&run, ops, 1);
        ((int64_t *)&run.s->at)[k] = -5;
        struct state *saved = state_new();
        must(ops->save(run.s, saved, &err));
        must(ops->setup(&f.problem, &options, &other.s, &err));
        struct err err;
        const bool written = k == EIGENPRO34_COUNTERS - 1 || k == EIGENPRO34_COUNTERS - 2;
        assert_int_equal(ops->load(other.s, saved, &err), written ? 0 : -ERR_CORRUPT);
        state_free(saved);
        ops->teardown(run.s);
        ops->teardown(other.s);
    }
    restricted_deinit(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, device_setup_one, device_teardown)

TEST_MAIN(TEST(test_projections), TEST(test_exact_and_inexact), TEST(test_few_rows),
          TEST(test_steps_too_long), TEST(test_sparse_targets), TEST(test_no_ridge),
          TEST(test_residency), TEST(test_resume_inside_a_window), TEST(test_impossible_counters))
