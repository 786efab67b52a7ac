#include "conformance/precond_fixture.h"

struct param_set precond_params_make(const char *name, int64_t rank, int64_t block)
{
    const struct method_def *def = catalog_find(CATALOG_PRECONDITIONERS, name);
    cleanup_json struct json *j = json_new_object();
    if (rank > 0) {
        json_set_int(j, "rank", rank);
    }
    if (block > 0) {
        json_set_int(j, "block_size", block);
    }
    struct param_set set;
    must(param_read(def->params, j, NULL, &set, &err));
    return set;
}

struct precond *precond_make(const struct fixture *f, const char *name, int64_t rank, int64_t block)
{
    const struct precond_ops *ops = precond_find(name);
    const struct param_set params = precond_params_make(name, rank, block);
    struct precond *m = NULL;
    must(ops->setup(&f->problem, &params, &m, &err));
    int r = 0;
    double fraction = 0;
    for (int i = 0; r == 0 && i < 10000; i++) {
        const double before = fraction;
        r = ops->build(m, &fraction, NULL);
        assert_true(fraction >= before && fraction <= 1);
    }
    assert_int_equal(r, 1);
    assert_close(fraction, 1.0, 0);
    assert_int_equal(ops->build(m, &fraction, NULL), 1);
    return m;
}

struct fixture_spec precond_spec(enum kernel_id kernel, int64_t n, double lambda)
{
    return (struct fixture_spec){.kernel = kernel,
                                 .points = DTYPE_F64,
                                 .vectors = DTYPE_F64,
                                 .n = n,
                                 .d = 3,
                                 .t = 2,
                                 .lambda = lambda,
                                 .seed = 1};
}

void precondition(struct fixture *f, const char *name, int64_t rank, int64_t expected)
{
    const struct precond_ops *ops = precond_find(name);
    struct precond *m = precond_make(f, name, rank, 0);
    assert_int_equal(ops->rank(m), expected);
    must(ops->apply(m, &f->problem.Y, &f->A, &err));
    ops->teardown(m);
}
