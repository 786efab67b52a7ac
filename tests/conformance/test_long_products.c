/* In the midst of a long product the CPU asks whether it is still wanted, a device before each
 * launch, and a group of devices before each round. It is left with the answer; what comes after is
 * as if nothing had been. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conformance/device.h"
#include "engine/products.h"

enum { ROWS = 9000, FEATURES = 3, KINDS = 3 };

struct asked {
    int count, last; /* the last answer to go on */
};

static int answer(void *context, struct err *ret)
{
    struct asked *a = context;
    return a->count++ < a->last ? 0 : err_set(ret, ERR_CANCELLED, "Enough.");
}

static struct points *normal_points(struct backend *be, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *x = host_normal(&rng, ROWS * FEATURES);
    const struct kernel kernel = {
        .id = KERNEL_GAUSSIAN, .d = FEATURES, .bandwidth = 2.0, .gamma = 1.0, .degree = 1};
    const struct rows X = {.dtype = DTYPE_F64, .n = ROWS, .d = FEATURES, .data = x};
    struct points *points = NULL;
    must(be->ops->points_new(be, &kernel, DTYPE_F32, &X, &points, &err));
    mem_free(x);
    return points;
}

/* K V with itself, with other points, and K' (K V). */
static int product(struct backend *be, int kind, struct points *const points[2],
                   const struct mat *V, const struct mat *Y)
{
    struct err err;
    const struct view P = view_all(points[0], ROWS), Q = view_all(points[1], ROWS);
    return kind == 2 ? product_normal(be, P, Q, NULL, V, NULL, false, Y, &err)
                     : be->ops->kmv(be, P, kind == 1 ? Q : P, 1.0, V, 0.0, Y, &err);
}

/* How often every product here asks. Of several threads others may take all the tasks, and a device
 * may take one launch; the rounds of a group are known. */
static int sure_questions(const struct backend *be)
{
    const char *device = getenv("KRR_DEVICE");
    const bool one_thread = device == NULL && be->threads == 1;
    return one_thread || (device != NULL && strcmp(device, "group") == 0) ? 3 : 1;
}

static void check_kind(struct backend *be, int kind, struct points *const points[2],
                       const struct mat *V, const struct mat *Y)
{
    const int last = sure_questions(be) - 1;
    assert_int_equal(product(be, kind, points, V, Y), 0);
    double *expected = device_get(be, Y);
    struct asked a = {.last = last};
    be->stop = answer;
    be->stop_context = &a;
    assert_int_equal(product(be, kind, points, V, Y), -ERR_CANCELLED);
    assert_int_equal(a.count, last + 1);
    a = (struct asked){.last = INT32_MAX};
    assert_int_equal(product(be, kind, points, V, Y), 0);
    be->stop = NULL;
    double *found = device_get(be, Y);
    assert_memory_equal(found, expected, ROWS * sizeof(double));
    mem_free(found);
    mem_free(expected);
}

static void test_long_products_are_left(void **state)
{
    (void)state;
    const char *device = getenv("KRR_DEVICE");
    for (int threads = 1; threads <= (device == NULL ? 3 : 1); threads++) {
        struct backend *be = device_open(threads);
        struct points *const points[] = {normal_points(be, 1), normal_points(be, 2)};
        struct rng rng = rng_new(3, RNG_TEST);
        double *v = host_normal(&rng, ROWS);
        struct mat V = device_mat(be, DTYPE_F32, ROWS, 1, v),
                   Y = device_mat(be, DTYPE_F32, ROWS, 1, NULL);
        for (int kind = 0; kind < KINDS; kind++) {
            check_kind(be, kind, points, &V, &Y);
        }
        be->ops->mat_free(be, &V);
        be->ops->mat_free(be, &Y);
        be->ops->points_free(be, points[0]);
        be->ops->points_free(be, points[1]);
        mem_free(v);
        device_close(be);
    }
}

TEST_MAIN(cmocka_unit_test(test_long_products_are_left))
