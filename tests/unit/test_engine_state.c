/* States: what goes in comes out, through a file too, and nothing that does not fit is taken. */
#include "base/buf.h"
#include "base/mem.h"
#include "engine/state.h"
#include "unit/engine_fixture.h"

static int into_buf(void *context, const void *data, size_t size, struct err *err)
{
    (void)err;
    buf_add(context, data, size);
    return 0;
}

static const double numbers[6] = {0.1, -2.5, 1e30, 1.0 / 3, 0.0, -1e-30};

static struct state *example(struct backend *be)
{
    struct state *s = state_new();
    struct mat narrow = {0}, wide = {0};
    assert_int_equal(be->ops->mat_new(be, DTYPE_F32, 3, 2, &narrow, NULL), 0);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, 2, 3, &wide, NULL), 0);
    assert_int_equal(be->ops->mat_put(be, numbers, 3, &narrow, NULL), 0);
    assert_int_equal(be->ops->mat_put(be, numbers, 2, &wide, NULL), 0);
    assert_int_equal(state_put_mat(s, "narrow", be, &narrow, NULL), 0);
    assert_int_equal(state_put_mat(s, "wide", be, &wide, NULL), 0);
    assert_int_equal(state_put_reals(s, "reals", numbers, 6, NULL), 0);
    assert_int_equal(state_put_ints(s, "ints", (int64_t[]){-3, INT64_C(1) << 53}, 2, NULL), 0);
    assert_int_equal(state_put_reals(s, "nothing", NULL, 0, NULL), 0);
    assert_int_equal(state_put_text(s, "solver", "pcg", NULL), 0);
    be->ops->mat_free(be, &narrow);
    be->ops->mat_free(be, &wide);
    return s;
}

static void check_mat(const struct state *s, const char *name, struct backend *be, enum dtype dtype,
                      int64_t rows, int64_t cols)
{
    struct mat m = {0};
    double back[6];
    assert_int_equal(be->ops->mat_new(be, dtype, rows, cols, &m, NULL), 0);
    assert_int_equal(state_get_mat(s, name, be, &m, NULL), 0);
    assert_int_equal(be->ops->mat_get(be, &m, back, rows, NULL), 0);
    for (int i = 0; i < 6; i++) {
        assert_same_bits(back[i], dtype == DTYPE_F32 ? (double)(float)numbers[i] : numbers[i]);
    }
    be->ops->mat_free(be, &m);
}

static void check_example(const struct state *s, struct backend *be)
{
    check_mat(s, "narrow", be, DTYPE_F32, 3, 2);
    check_mat(s, "wide", be, DTYPE_F64, 2, 3);
    double reals[6];
    int64_t ints[2];
    assert_int_equal(state_get_reals(s, "reals", reals, 6, NULL), 0);
    assert_memory_equal(reals, numbers, sizeof reals);
    assert_int_equal(state_get_ints(s, "ints", ints, 2, NULL), 0);
    assert_int_equal(ints[0], -3);
    assert_true(ints[1] == INT64_C(1) << 53);
    assert_int_equal(state_get_reals(s, "nothing", NULL, 0, NULL), 0);
    assert_true(state_has(s, "nothing") && !state_has(s, "noth"));
    assert_string_equal(state_text(s, "solver"), "pcg");
    assert_null(state_text(s, "other"));
    assert_int_equal(state_bytes(s), 6 * 4 + 6 * 8 + 6 * 8 + 2 * 8);
}

static void test_through_memory_and_file(void **context)
{
    struct backend *be = *context;
    struct state *s = example(be);
    check_example(s, be);
    struct buf file = BUF_INIT;
    assert_int_equal(state_write(s, into_buf, &file, NULL), 0);
    struct state *back = NULL;
    assert_int_equal(state_read(file.data, file.len, &back, NULL), 0);
    check_example(back, be);
    state_free(back);
    state_free(s);
    buf_deinit(&file);
}

/* Matrices larger than what is converted at a time, one of them part of another. */
static void check_lent(struct backend *be, enum dtype dtype)
{
    struct mat large = {0}, back = {0};
    assert_int_equal(be->ops->mat_new(be, dtype, 700001, 3, &large, NULL), 0);
    assert_int_equal(be->ops->mat_new(be, dtype, 700001, 3, &back, NULL), 0);
    cleanup_mem double *values = mem_array(700001 * 3, sizeof(double));
    cleanup_mem double *found = mem_array(700001 * 3, sizeof(double));
    for (int64_t i = 0; i < 700001 * 3; i++) {
        values[i] = (double)(i % 1000003);
    }
    assert_int_equal(be->ops->mat_put(be, values, 700001, &large, NULL), 0);
    const struct mat parts[2] = {large, mat_rows(mat_cols(large, 1, 2), 11, 13)};
    const struct mat backs[2] = {back, mat_rows(mat_cols(back, 1, 2), 11, 13)};
    struct state *s = state_new(), *read = NULL;
    assert_int_equal(state_lend_mats(s, "parts", be, parts, 2, NULL), 0);
    assert_int_equal(state_bytes(s), (700001 * 3 + 26) * (int64_t)dtype_size(dtype));
    assert_int_equal(state_get_mats(s, "parts", be, backs, 2, NULL), -ERR_INTERNAL);
    struct buf file = BUF_INIT;
    assert_int_equal(state_write(s, into_buf, &file, NULL), 0);
    assert_int_equal(state_read(file.data, file.len, &read, NULL), 0);
    assert_int_equal(state_get_mats(read, "parts", be, backs, 1, NULL), -ERR_CORRUPT);
    assert_int_equal(state_get_mats(read, "parts", be, backs, 2, NULL), 0);
    assert_int_equal(be->ops->mat_get(be, &back, found, 700001, NULL), 0);
    assert_memory_equal(found, values, 700001 * 3 * sizeof(double));
    state_free(read);
    state_free(s);
    buf_deinit(&file);
    be->ops->mat_free(be, &large);
    be->ops->mat_free(be, &back);
}

static void test_lent_matrices(void **context)
{
    check_lent(*context, DTYPE_F32);
    check_lent(*context, DTYPE_F64);
    struct state *s = state_new();
    mem_fail_nth(1);
    assert_int_equal(state_lend_mats(s, "parts", *context, NULL, 0, NULL), -ERR_NO_MEMORY);
    mem_fail_nth(0);
    assert_int_equal(state_lend_mats(s, "parts", *context, NULL, 0, NULL), 0);
    assert_int_equal(state_bytes(s), 0);
    state_free(s);
}

static void test_what_does_not_fit_is_refused(void **context)
{
    struct backend *be = *context;
    struct state *s = example(be);
    struct err err = {0};
    double reals[6];
    int64_t ints[6];
    struct mat m = {0};
    assert_int_equal(state_put_reals(s, "reals", numbers, 6, NULL), -ERR_INTERNAL);
    assert_int_equal(state_get_reals(s, "absent", reals, 6, &err), -ERR_CORRUPT);
    assert_string_equal(err.detail, "The checkpoint has no array \"absent\".");
    assert_int_equal(state_get_reals(s, "reals", reals, 5, &err), -ERR_CORRUPT);
    assert_string_equal(err.detail,
                        "The checkpoint's array \"reals\" is 6 x 1 of float64, not 5 x 1 "
                        "of float64.");
    assert_int_equal(state_get_ints(s, "reals", ints, 6, &err), -ERR_CORRUPT);
    assert_int_equal(be->ops->mat_new(be, DTYPE_F64, 3, 2, &m, NULL), 0);
    assert_int_equal(state_get_mat(s, "narrow", be, &m, &err), -ERR_CORRUPT);
    be->ops->mat_free(be, &m);
    state_free(s);
}

static void test_damaged_files_are_refused(void **context)
{
    struct state *s = example(*context);
    struct buf file = BUF_INIT;
    assert_int_equal(state_write(s, into_buf, &file, NULL), 0);
    struct state *back = NULL;
    for (size_t size = 0; size < file.len; size++) {
        assert_true(state_read(file.data, size, &back, NULL) < 0);
    }
    state_free(s);
    buf_deinit(&file);
}

static int open_backend(void **context)
{
    return backend_cpu_provider.open(0, 1, (struct backend **)context, NULL);
}

static int close_backend(void **context)
{
    assert_int_equal(((struct backend *)*context)->bytes, 0);
    backend_close(*context);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_backend, close_backend)
TEST_MAIN(TEST(test_through_memory_and_file), TEST(test_lent_matrices),
          TEST(test_what_does_not_fit_is_refused), TEST(test_damaged_files_are_refused))
