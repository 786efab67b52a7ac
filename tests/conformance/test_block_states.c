/* States that block methods save: from one to the same bits, of an earlier version, and some that
 * no run can have saved. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/block_fixture.h"

/* 33 steps, the state, and from there 27 more by another solver; and 60 in one go. */
static void check_saved(struct fixture *f, const struct block_variant *v)
{
    const struct solver_ops *ops = solver_find(v->solver);
    const size_t size = (size_t)(f->n * f->t) * sizeof(double);
    struct solver *whole = block_advance(f, v, NULL, 60), *first = block_advance(f, v, NULL, 33);
    struct state *kept = state_new();
    assert_non_null(kept);
    must(ops->save(first, kept, &err));
    struct solver *loaded = block_advance(f, v, kept, 0), *second = block_advance(f, v, kept, 60);
    double *a = block_coefficients(f, v, first), *b = block_coefficients(f, v, loaded);
    assert_memory_equal(a, b, size);
    double *c = block_coefficients(f, v, whole), *d = block_coefficients(f, v, second);
    assert_memory_equal(c, d, size);
    double *const numbers[] = {a, b, c, d};
    struct solver *const solvers[] = {whole, first, loaded, second};
    for (int i = 0; i < 4; i++) {
        mem_free(numbers[i]);
        ops->teardown(solvers[i]);
    }
    state_free(kept);
}

static void test_saved_states_go_on_to_the_same_bits(void **state)
{
    for (int i = 0; i < BLOCK_VARIANTS; i++) {
        struct fixture f;
        const struct fixture_spec spec = {.kernel = KERNEL_MATERN52,
                                          .points = DTYPE_F32,
                                          .vectors = i % 2 == 0 ? DTYPE_F32 : DTYPE_F64,
                                          .n = 170,
                                          .d = 3,
                                          .t = 2,
                                          .lambda = 1e-4,
                                          .seed = 3};
        fixture_init(&f, *state, &spec);
        check_saved(&f, &block_variants[i]);
        fixture_deinit(&f);
    }
}

/* ---- states that no run can have saved ---- */

static const int64_t sound_counters[] = {17, 3, 1, 4, 0, 1, 0};
enum { COUNTERS = sizeof(sound_counters) / sizeof(*sound_counters) };

struct corruption {
    int which;
    int64_t value;
};

enum { NO_AGE = -2 }; /* as a version saved it whose momentum did not rise */

/* What askotch2 saves of one column after 17 steps, but for the counters and the momentum's age. */
static struct state *altered(struct fixture *f, const struct block_variant *v,
                             const int64_t *counters, int64_t age)
{
    const struct solver_ops *ops = solver_find(v->solver);
    struct solver *s = block_advance(f, v, NULL, 17);
    struct state *from = state_new(), *to = state_new();
    assert_non_null(from);
    assert_non_null(to);
    must(ops->save(s, from, &err));
    static const char *const reals[] = {"relative", "mean", "bias", "best", "value", "slope"};
    static const char *const mats[] = {"E", "V", "best_W"};
    double numbers[1], alpha[1];
    int64_t draws[4], frozen[1];
    for (int i = 0; i < 6; i++) {
        must(state_get_reals(from, reals[i], numbers, 1, &err));
        must(state_put_reals(to, reals[i], numbers, 1, &err));
    }
    for (int i = 0; i < 3; i++) {
        must(state_get_mat(from, mats[i], f->be, &f->A, &err));
        must(state_put_mat(to, mats[i], f->be, &f->A, &err));
    }
    must(state_get_reals(from, "alpha", alpha, 1, &err));
    must(state_put_reals(to, "alpha", alpha, 1, &err));
    must(state_get_ints(from, "draws", draws, 4, &err));
    must(state_put_ints(to, "draws", draws, 4, &err));
    must(state_get_ints(from, "frozen", frozen, 1, &err));
    must(state_put_ints(to, "frozen", frozen, 1, &err));
    must(state_put_ints(to, "counters", counters, COUNTERS, &err));
    if (age != NO_AGE) {
        must(state_put_ints(to, "ages", &age, 1, &err));
    }
    state_free(from);
    ops->teardown(s);
    return to;
}

/* What load says of a state with these counters and this age. */
static int load_counters(struct fixture *f, const struct block_variant *v, const int64_t *counters,
                         int64_t age)
{
    const struct solver_ops *ops = solver_find(v->solver);
    const struct solver_options options = block_options(v, 1e-14);
    struct state *kept = altered(f, v, counters, age);
    struct solver *s = NULL;
    must(ops->setup(&f->problem, &options, &s, &err));
    struct err refusal;
    const int r = ops->load(s, kept, &refusal);
    ops->teardown(s);
    state_free(kept);
    return r;
}

static void test_impossible_counters_are_refused(void **state)
{
    static const struct block_variant v = {"askotch2",
                                           "{\"block_size\": 40}"}; /* 5 blocks a pass */
    static const struct corruption wrong[] = {{0, -1}, {1, -1}, {1, 18}, {2, -1}, {2, 10},
                                              {3, -1}, {3, 6},  {4, -1}, {4, 4},  {5, 2},
                                              {5, -1}, {0, 2},  {6, -1}, {6, 13}};
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 170,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-3};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    int64_t counters[COUNTERS];
    assert_int_equal(load_counters(&f, &v, sound_counters, 17), 0);
    assert_int_equal(load_counters(&f, &v, sound_counters, -1), -ERR_CORRUPT);
    assert_int_equal(load_counters(&f, &v, sound_counters, 18), -ERR_CORRUPT);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        memcpy(counters, sound_counters, sizeof(counters));
        counters[wrong[i].which] = wrong[i].value;
        assert_int_equal(load_counters(&f, &v, counters, 17), -ERR_CORRUPT);
    }
    fixture_deinit(&f);
}

/* What a version saved whose momentum did not rise: the coefficients are as they were, and momentum
 * begins anew. */
static void test_states_of_a_constant_momentum(void **state)
{
    static const struct block_variant constant = {"askotch2", "{\"block_size\": 40, \"mu\": 0.01}"};
    static const struct block_variant rising = {"askotch2", "{\"block_size\": 40}"};
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 170,
                                      .d = 2,
                                      .t = 1,
                                      .lambda = 1e-3};
    struct fixture f;
    fixture_init(&f, *state, &spec);
    const struct solver_ops *ops = solver_find("askotch2");
    struct state *kept = altered(&f, &constant, sound_counters, NO_AGE), *now = state_new();
    struct solver *before = block_advance(&f, &constant, kept, 0),
                  *after = block_advance(&f, &rising, kept, 0);
    double *A = block_coefficients(&f, &constant, before),
           *B = block_coefficients(&f, &rising, after);
    for (int64_t i = 0; i < f.n; i++) {
        assert_true(fabs(A[i] - B[i]) <= 1e-11 * (1.0 + fabs(A[i])));
    }
    int64_t age = -1;
    must(ops->save(after, now, &err));
    must(state_get_ints(now, "ages", &age, 1, &err));
    assert_int_equal(age, 0);
    mem_free(A);
    mem_free(B);
    ops->teardown(block_advance(&f, &rising, kept, 40));
    ops->teardown(before);
    ops->teardown(after);
    state_free(kept);
    state_free(now);
    fixture_deinit(&f);
}

/* Of fixed blocks, whose smoothness was taken for less than it is: back and forth to the same bits.
 */
static void test_halvings_are_saved(void **state)
{
    static const struct block_variant hasty[] = {
        {"skotch", "{\"block_size\": 40, \"block_preconditioner\": \"nystrom\", \"rank\": 10, "
                   "\"power_iterations\": 1}"},
        {"askotch", "{\"block_size\": 40, \"block_preconditioner\": \"nystrom\", \"rank\": 10, "
                    "\"power_iterations\": 1}"},
    };
    const struct fixture_spec spec = {.kernel = KERNEL_GAUSSIAN,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = 170,
                                      .d = 3,
                                      .t = 2,
                                      .lambda = 1e-3,
                                      .seed = 3};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_init(&f, *state, &spec);
        const struct solver_ops *ops = solver_find(hasty[i].solver);
        struct solver *whole = block_advance(&f, &hasty[i], NULL, 600);
        struct solver *first = block_advance(&f, &hasty[i], NULL, 500);
        struct step_report at;
        must(ops->step(whole, &at, &err));
        assert_non_null(at.note);
        struct state *kept = state_new();
        assert_non_null(kept);
        must(ops->save(first, kept, &err));
        struct solver *second = block_advance(&f, &hasty[i], kept, 601);
        double *a = block_coefficients(&f, &hasty[i], whole),
               *b = block_coefficients(&f, &hasty[i], second);
        assert_memory_equal(a, b, (size_t)(f.n * f.t) * sizeof(double));
        mem_free(a);
        mem_free(b);
        ops->teardown(whole);
        ops->teardown(first);
        ops->teardown(second);
        state_free(kept);
        fixture_deinit(&f);
    }
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_saved_states_go_on_to_the_same_bits),
          on_device(test_impossible_counters_are_refused), on_device(test_halvings_are_saved),
          on_device(test_states_of_a_constant_momentum))
