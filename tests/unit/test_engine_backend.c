/* Devices by name. */
#include <math.h>
#include <string.h>

#include "engine/backend.h"
#include "support/assert.h"

static int open_broken(int ordinal, int threads, struct backend **ret, struct err *err)
{
    (void)threads;
    (void)ret;
    return err_at(err, ERR_UNSUPPORTED, "#/device", "Card %d is not there.", ordinal);
}

static const struct backend_provider broken = {.name = "cuda", .open = open_broken};
static const struct backend_provider *const cpu_only[] = {&backend_cpu_provider, NULL};
static const struct backend_provider *const both[] = {&broken, &backend_cpu_provider, NULL};
static const struct backend_provider *const none[] = {NULL};

static void test_cpu(void **state)
{
    (void)state;
    struct backend *be = NULL;
    assert_int_equal(backend_open(both, "cpu", 3, &be, NULL), 0);
    assert_string_equal(be->ops->name, "cpu");
    assert_int_equal(be->threads, 3);
    assert_null(backend_close(be));
    assert_int_equal(backend_open(cpu_only, "cpu:0", 0, &be, NULL), 0);
    assert_true(be->threads >= 1);
    assert_null(backend_close(be));
    assert_null(backend_close(NULL));
}

/* Phi's column j, dense. */
static void phi_column(const struct sign_sketch *phi, int64_t j, double *ret)
{
    memset(ret, 0, (size_t)phi->rows * sizeof *ret);
    for (int k = 0; k < sign_sketch_numbers(phi); k++) {
        const struct sign_entry e = sign_sketch_entry(phi, j, k);
        ret[e.row] += e.negative ? -phi->scale : phi->scale;
    }
}

/* Columns of a block are orthonormal where its rows differ; a part has the same columns. */
static void check_blocks(int block, int copies)
{
    enum { NUMBERS = 8, ROWS = 24, COLUMNS = 20, MOST = COLUMNS + NUMBERS };
    int64_t index[MOST * NUMBERS];
    signed char sign[MOST * NUMBERS], flip[MOST];
    for (int i = 0; i < MOST * NUMBERS; i++) {
        index[i] = i % NUMBERS * 3 + i % 3;
        sign[i] = i % 5 < 2 ? 1 : -1;
        flip[i / NUMBERS] = i % 7 < 3 ? 1 : -1;
    }
    const struct sign_sketch phi = {.rows = ROWS,
                                    .block = block,
                                    .copies = copies,
                                    .lead = block / 3,
                                    .index = index,
                                    .sign = sign,
                                    .flip = flip,
                                    .scale = 1 / sqrt(NUMBERS)};
    assert_true(sign_sketch_valid(&phi, COLUMNS));
    for (int64_t i = 0; i < COLUMNS; i++) {
        double a[ROWS], b[ROWS];
        phi_column(&phi, i, a);
        for (int64_t j = 0; j < COLUMNS; j++) {
            const struct sign_sketch part = sign_sketch_part(&phi, j);
            phi_column(&part, 0, b);
            double dot = 0;
            for (int r = 0; r < ROWS; r++) {
                dot += a[r] * b[r];
            }
            if ((i + phi.lead) / block == (j + phi.lead) / block) {
                assert_near(dot, i == j ? 1.0 : 0.0, 1e-15);
            }
        }
    }
}

static void test_sign_sketch(void **state)
{
    (void)state;
    for (int block = 1; block <= 8; block *= 2) {
        check_blocks(block, 8 / block);
    }
}

static void test_auto_takes_the_first_that_opens(void **state)
{
    (void)state;
    struct backend *be = NULL;
    assert_int_equal(backend_open(both, "auto", 1, &be, NULL), 0);
    assert_string_equal(be->ops->name, "cpu");
    backend_close(be);
    assert_int_equal(backend_open(none, "auto", 1, &be, NULL), -ERR_UNSUPPORTED);
}

static void check_refused(const struct backend_provider *const *providers, const char *device,
                          int threads, enum err_code code, const char *part)
{
    struct backend *be = NULL;
    struct err err = {0};
    assert_int_equal(backend_open(providers, device, threads, &be, &err), -(int)code);
    assert_null(be);
    assert_contains(err.detail, part);
    assert_true(strncmp(err.pointer, "#/", 2) == 0);
}

static void test_refusals(void **state)
{
    (void)state;
    check_refused(cpu_only, "cuda", 1, ERR_UNSUPPORTED,
                  "without a backend for the device \"cuda\"");
    check_refused(cpu_only, "cuda:1", 1, ERR_UNSUPPORTED, "cuda:1");
    check_refused(both, "cuda:1", 1, ERR_UNSUPPORTED, "Card 1 is not there");
    check_refused(cpu_only, "cp", 1, ERR_UNSUPPORTED, "\"cp\"");
    check_refused(cpu_only, "cpu:1", 1, ERR_UNSUPPORTED, "one device");
    check_refused(cpu_only, "", 1, ERR_INVALID, "no device");
    check_refused(cpu_only, ":0", 1, ERR_INVALID, "no device");
    check_refused(cpu_only, "cpu:", 1, ERR_INVALID, "number");
    check_refused(cpu_only, "cpu:-1", 1, ERR_INVALID, "number");
    check_refused(cpu_only, "cpu:0x", 1, ERR_INVALID, "number");
    check_refused(cpu_only, "cpu:99999999999999999999", 1, ERR_INVALID, "number");
    check_refused(cpu_only, "cuda:9999", 1, ERR_INVALID, "no device");
    check_refused(cpu_only, "cpu", -1, ERR_INVALID, "threads");
    check_refused(cpu_only, "cpu", 1 << 20, ERR_INVALID, "threads");
}

/* Members that were opened before one fails are closed again. */
static void test_groups(void **state)
{
    (void)state;
    check_refused(both, "cuda:0,1", 1, ERR_UNSUPPORTED, "Card 0 is not there");
    check_refused(cpu_only, "cpu:0,1", 1, ERR_UNSUPPORTED, "one device");
    check_refused(cpu_only, "cpu:0,0", 1, ERR_INVALID, "ascending");
    check_refused(cpu_only, "cpu:1,0", 1, ERR_INVALID, "ascending");
    check_refused(cpu_only, "cpu:0,", 1, ERR_INVALID, "number");
    check_refused(cpu_only, "cpu:0,1,2,3,4,5,6,7,8", 1, ERR_INVALID, "up to 8");
}

TEST_MAIN(cmocka_unit_test(test_cpu), cmocka_unit_test(test_sign_sketch),
          cmocka_unit_test(test_auto_takes_the_first_that_opens), cmocka_unit_test(test_refusals),
          cmocka_unit_test(test_groups))
