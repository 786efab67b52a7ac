/* Methods whose rounding error grows with the coefficients: where that outweighs what is left to
 * solve, no model comes out that is worse than zeros. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/solve_fixture.h"

static const struct {
    const char *solver, *params;
} cases[] = {
    {"askotch2", "{\"block_size\": 40}"},
    {"askotch", "{\"block_size\": 40}"},
    {"skotch", "{\"block_size\": 40}"},
    {"eigenpro2", NULL},
};

/* Points so near to each other that K is all ones but for `spread`. */
static void init_flat(struct fixture *f, struct backend *be, enum dtype dtype, double spread)
{
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = dtype,
                                      .vectors = dtype,
                                      .n = 150,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = dtype == DTYPE_F64 ? 0.0 : 1e-10,
                                      .seed = 11};
    fixture_init(f, be, &spec);
    for (int64_t k = 0; k < f->n * f->d; k++) {
        f->X[k] *= spread;
    }
    be->ops->points_free(be, f->points);
    must(be->ops->points_new(be, &f->kernel, dtype, &f->host, &f->points, &err));
    f->problem.X = f->points;
}

static void check_case(struct fixture *f, const char *solver, const char *params)
{
    struct solver_options options = options_make(solver, NULL, 1e-6);
    options_set(&options, params);
    const struct solve_limits limits = {
        .tolerance = 1e-6, .max_iterations = 2000, .time_budget_s = INFINITY};
    struct world w = world_calm();
    const struct solve_control control = world_control(&w);
    struct solve_outcome out = {.reason = REASON_NONE};
    struct err err = {.code = ERR_OK};
    assert_int_equal(solve_run(solver_find(solver), &f->problem, &options, &limits, &control, NULL,
                               &f->kernel, &f->host, &f->A, &out, &err),
                     0);
    const bool honest = out.reason == REASON_DIVERGED
                            ? !out.model && strcmp(err.pointer, "#/regularization") == 0
                            : out.reason == REASON_ITERATION_LIMIT ||
                                  (out.reason == REASON_STAGNATED && out.relative_residual <= 1.01);
    if (!honest) {
        print_error("%s: %s after %ld, residual %g\n", solver, reason_name(out.reason),
                    (long)out.iterations, out.relative_residual);
        fail();
    }
}

static void test_noise_makes_no_model(void **state)
{
    static const struct {
        enum dtype dtype;
        double spread;
    } flats[] = {{DTYPE_F64, 0.0}, {DTYPE_F32, 1e-3}};
    for (size_t p = 0; p < sizeof(flats) / sizeof(*flats); p++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
            struct fixture f;
            init_flat(&f, *state, flats[p].dtype, flats[p].spread);
            check_case(&f, cases[i].solver, cases[i].params);
            fixture_deinit(&f);
        }
    }
}

static void take_rank(struct solver_options *options, int rank)
{
    char text[32];
    struct json *j = NULL;
    snprintf(text, sizeof(text), "{\"rank\": %d}", rank);
    must(json_parse(text, strlen(text), &j, &err));
    must(param_read(catalog_find(CATALOG_PRECONDITIONERS, "rpcholesky")->params, j, NULL,
                    &options->precond_params, &err));
    json_free(j);
}

/* Conjugate gradients that go on at the limit of the precision stay there, and end. */
static void test_cg_stays_at_its_best(void **state)
{
    static const struct {
        enum kernel_id kernel;
        double lambda;
        int rank;
    } hard[] = {
        {KERNEL_MATERN52, 1e-7, 100}, {KERNEL_MATERN52, 1e-8, 50}, {KERNEL_GAUSSIAN, 1e-9, 50}};
    for (size_t i = 0; i < sizeof(hard) / sizeof(*hard); i++) {
        const struct fixture_spec spec = {.kernel = hard[i].kernel,
                                          .points = DTYPE_F64,
                                          .vectors = DTYPE_F64,
                                          .n = 300,
                                          .d = 3,
                                          .t = 1,
                                          .lambda = hard[i].lambda,
                                          .seed = 11};
        struct fixture f;
        fixture_init(&f, *state, &spec);
        struct solver_options options = options_make("pcg", "rpcholesky", 1e-14);
        take_rank(&options, hard[i].rank);
        const struct solve_limits limits = {
            .tolerance = 1e-14, .max_iterations = 3000, .time_budget_s = INFINITY};
        struct world w = world_calm();
        const struct solve_control control = world_control(&w);
        struct solve_outcome out = {.reason = REASON_NONE};
        must(solve_run(solver_find("pcg"), &f.problem, &options, &limits, &control, NULL, &f.kernel,
                       &f.host, &f.A, &out, &err));
        assert_int_equal(out.reason, REASON_STAGNATED);
        assert_true(out.relative_residual < 1e-7);
        fixture_deinit(&f);
    }
}

TEST_MAIN(cmocka_unit_test_setup_teardown(test_cg_stays_at_its_best, device_setup_one,
                                          device_teardown),
          cmocka_unit_test_setup_teardown(test_noise_makes_no_model, device_setup_one,
                                          device_teardown))
