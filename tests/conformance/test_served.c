/* What a loaded model is planned to take against what its predictor says that it takes. */
#include "base/mem.h"
#include "conformance/device.h"
#include "engine/model/model.h"
#include "plan/plan_served.h"

static const double tolerance = 0.2;

struct size {
    enum kernel_id kernel;
    enum dtype dtype;
    int64_t m, d, t, p;
    /* Whether a machine may hold much less than planned: its lanes, those of a group that are not
     * needed, or none, because its groups would be half empty; or no centers that are turned. */
    bool upper;
};

static const struct size sizes[] = {
    {KERNEL_GAUSSIAN, DTYPE_F64, 100, 5, 1, 0, false}, /* too little work for lanes */
    {KERNEL_GAUSSIAN, DTYPE_F32, 1000, 80, 1, 0, false},
    {KERNEL_GAUSSIAN, DTYPE_F64, 1000, 80, 3, 0, false},
    {KERNEL_GAUSSIAN, DTYPE_F32, 500, 400, 1, 0, true},  /* five runs */
    {KERNEL_MATERN32, DTYPE_F64, 1920, 50, 1, 0, false}, /* groups of 16 runs, or 8, or 4 */
    {KERNEL_MATERN32, DTYPE_F32, 1920, 50, 2, 0, false},
    {KERNEL_GAUSSIAN, DTYPE_F64, 7680, 18, 1, 0, false},
    {KERNEL_LAPLACIAN_L1, DTYPE_F32, 7680, 18, 10, 0, true},
    {KERNEL_LAPLACIAN_L1, DTYPE_F32, 12000, 300, 1, 0, true}, /* too large for them */
    {KERNEL_LAPLACIAN_L1, DTYPE_F64, 20000, 30, 1, 0, true},
    {KERNEL_LINEAR, DTYPE_F64, 3000, 300, 1, 0, false},
    {KERNEL_POLYNOMIAL, DTYPE_F32, 12000, 120, 4, 0, false},
    {KERNEL_GAUSSIAN, DTYPE_F64, 100, 5, 1, 1, false},
    {KERNEL_GAUSSIAN, DTYPE_F64, 1000, 80, 3, 40, false},
    {KERNEL_MATERN32, DTYPE_F32, 1920, 50, 2, 1920, false}, /* the factor is nearly all of it */
    {KERNEL_POLYNOMIAL, DTYPE_F32, 3000, 20, 1, 300, false},
};

/* As a worker has it that has read the file: numbers that are its own. */
static struct model *model_of(const struct size *s)
{
    struct rng rng = rng_new(1, RNG_TEST);
    struct model *m = mem_zalloc(sizeof(*m));
    *m = (struct model){.kernel = usual_kernel(s->kernel, s->d),
                        .m = s->m,
                        .d = s->d,
                        .t = s->t,
                        .p = s->p,
                        .dtype = s->dtype,
                        .centers = host_zeros(s->m * s->d), /* float64 holds float32 as well */
                        .coef = host_normal(&rng, s->m * s->t),
                        .feature_mean = host_zeros(s->d),
                        .feature_scale = host_zeros(s->d),
                        .target_mean = host_zeros(s->t),
                        .target_scale = host_zeros(s->t)};
    if (s->p > 0) {
        m->variance_factor = host_zeros(s->m * s->p);
        m->prior_variance = host_zeros(s->t);
        m->noise_variance = host_zeros(s->t);
    }
    for (int64_t j = 0; j < s->d; j++) {
        m->feature_scale[j] = 1.0;
    }
    return m;
}

/* Loaded as worker/loaded.c does it, with its first row. */
static int64_t taken(struct backend *be, const struct size *s)
{
    struct model *m = model_of(s);
    struct predictor *p = NULL;
    double *y = host_zeros(2 * s->t);
    must(predictor_new(m, be, &p, &err));
    model_keep_scales(m);
    must(predictor_run(p, m->feature_mean, 0, 1, y, s->p > 0 ? y + s->t : NULL, &err));
    const int64_t bytes = predictor_bytes(p);
    predictor_free(p);
    model_free(m);
    mem_free(y);
    return bytes;
}

static void test_plan(void **state)
{
    (void)state;
    struct backend *be = device_open(2);
    if (be->ops->points_lanes == NULL) { /* the plan is of a processor's memory */
        device_close(be);
        skip();
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const struct size *s = &sizes[i];
        const struct plan_served planned = {.centers = s->m,
                                            .d = s->d,
                                            .outputs = s->t,
                                            .directions = s->p,
                                            .point_bytes = (int64_t)dtype_size(s->dtype),
                                            .l1 = kernel_uses_l1(s->kernel)};
        const double plan = (double)plan_served_bytes(&planned), fact = (double)taken(be, s);
        if (fact > (1.0 + tolerance) * plan || (!s->upper && plan > (1.0 + tolerance) * fact)) {
            fail_msg("case %zu: planned %.0f bytes, taken %.0f", i, plan, fact);
        }
    }
    device_close(be);
}

TEST_MAIN(cmocka_unit_test(test_plan))
