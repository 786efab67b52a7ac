/* What plans count for products, against what the products ask for. */
#include "plan/scratch.h"

#include "cpu/oracle.h"
#include "engine_fixture.h"
#include "plan/plan.h"
#include "support/assert.h"

struct shape {
    int64_t rows, ld, columns;
};
static const struct shape shapes[] = {
    {65, 2, 1},      {500, 4, 3},    {600, 19, 64},   {2400, 5, 64},    {2400, 436, 64},
    {5000, 11, 10},  {20000, 4, 1},  {20000, 4, 64},  {20000, 436, 8},  {20000, 3000, 64},
    {100000, 19, 1}, {70000, 19, 2}, {30000, 91, 40}, {16000, 20000, 1}};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static struct product product_of(const struct tile_loops *loops, const struct points *points,
                                 const struct shape *s, enum dtype dtype, bool turned)
{
    return (struct product){
        .o = {.loops = loops,
              .kernel = {.by_powers = turned},
              .P = {.points = points, .count = s->rows},
              .Q = {.points = points, .count = s->rows},
              .dtype = dtype,
              .ld = s->ld},
        .V = {.cols = s->columns},
        .weights = dtype,
    };
}

/* Whether rows of float64 may be turned a run at a time (tile_loops.powers_to). */
static bool has_powers(const struct shape *s)
{
    return s->ld - 1 <= tile_isa_list(0)->f64.powers_to;
}

typedef double (*planned_fn)(const struct scratch_shape *);
typedef size_t (*asked_fn)(const struct product *);

/* Never less than the loops ask for, nor much more than the widest do. */
static void check(planned_fn planned, asked_fn asked, const struct shape *s, enum dtype dtype,
                  bool turned, double slack)
{
    const struct points points = {.ld = s->ld};
    const double size = (double)dtype_size(dtype);
    const struct scratch_shape shape = {.rows = (double)s->rows,
                                        .ld = (double)s->ld,
                                        .columns = (double)s->columns,
                                        .point = size,
                                        .weight = size,
                                        .threads = 1};
    double most = 0;
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        const struct tile_isa *isa = tile_isa_list(i);
        const struct tile_loops *loops = dtype == DTYPE_F32 ? &isa->f32 : &isa->f64;
        const struct product p = product_of(loops, &points, s, dtype, turned);
        const double bytes = (double)asked(&p);
        most = bytes > most ? bytes : most;
    }
    const double bytes = planned(&shape);
    if (bytes < most || bytes > 1.3 * most + slack) {
        fail_msg("%lld rows, ld %lld, %lld columns: planned %.0f, asked for %.0f",
                 (long long)s->rows, (long long)s->ld, (long long)s->columns, bytes, most);
    }
}

static void test_symmetric(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        check(scratch_symmetric, oracle__symmetric_scratch, &shapes[i], DTYPE_F64, false, 65536);
        check(scratch_symmetric, oracle__symmetric_scratch, &shapes[i], DTYPE_F64,
              has_powers(&shapes[i]), 65536);
        check(scratch_symmetric, oracle__symmetric_scratch, &shapes[i], DTYPE_F32, false, 65536);
        check(scratch_symmetric, oracle__symmetric_scratch, &shapes[i], DTYPE_F32, true, 65536);
    }
}

/* The columns that fit, as cpu__kmtkv takes them; the sums of the whole come to it. */
static void test_normal(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct shape s = shapes[i];
        const int64_t fit = (32L << 20) / (16 * s.rows);
        s.columns = s.columns > fit ? fit : s.columns;
        /* Rows that are turned; values of more centers are kept by narrow loops alone. */
        const double slack =
            (double)(8 * s.rows * s.columns) + 1.6e6 + (s.rows > 65000 ? 16 * 1048576 : 0);
        check(scratch_normal, oracle__normal_scratch, &s, DTYPE_F64, false, slack);
        check(scratch_normal, oracle__normal_scratch, &s, DTYPE_F64, has_powers(&s), slack);
        check(scratch_normal, oracle__normal_scratch, &s, DTYPE_F32, false, slack);
        check(scratch_normal, oracle__normal_scratch, &s, DTYPE_F32, true, slack);
    }
}

/* 48 MiB, or all the columns that oracle__symmetric_cols takes together. */
static void test_totals(void **state)
{
    (void)state;
    static const int64_t rows[] = {1000, 98304, 98305, 1000000, 6291456};
    for (int i = 0; i < 5; i++) {
        for (int64_t columns = 1; columns < 100; columns++) {
            const struct scratch_shape s = {.rows = (double)rows[i], .columns = (double)columns};
            const int64_t cols = oracle__symmetric_cols(rows[i], 64, DTYPE_F32, columns);
            assert_true(scratch_totals(&s) >= (double)(8 * rows[i] * cols));
        }
    }
}

/* Of a plan for so many classes, hence vectors, what the second thread adds. */
static double second_thread(const char *fields, int64_t classes)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(20000, 6, classes);
    const struct plan_data data = {.train = &info};
    double library[2];
    for (int i = 0; i < 2; i++) {
        struct plan_machine machine = plan_machine_unknown();
        struct plan plan;
        machine.threads = 1 + i;
        plan_make(spec, &data, &machine, &plan);
        library[i] = plan.parts[PLAN_LIBRARY];
    }
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return library[1] - library[0];
}

static void test_plans_count_it(void **state)
{
    (void)state;
    static const char *const full = "'solver':{'name':'pcg','preconditioner':'none'},"
                                    "'precision':'float64','regularization':1e-3,"
                                    "'kernel':{'name':'gaussian','bandwidth':1}";
    static const char *const restricted = "'solver':'falkon','precision':'float64',"
                                          "'centers':{'method':'uniform','count':1000},"
                                          "'regularization':1e-3,"
                                          "'kernel':{'name':'gaussian','bandwidth':1}";
    struct scratch_shape s = {.ld = 6, .columns = 64, .point = 8, .weight = 8, .threads = 1};
    const double bare = 262144;
    assert_close(second_thread(full, 0), 1048576.0, 1e-9);
    assert_close(second_thread(restricted, 0), 1048576.0, 1e-9);
    s.rows = 16000; /* a fifth is for tests */
    assert_close(second_thread(full, 64), scratch_symmetric(&s) + bare, 1e-9);
    s.rows = 1000;
    const double one = scratch_normal(&s);
    s.threads = 2;
    assert_close(second_thread(restricted, 64), scratch_normal(&s) - one + bare, 1e-9);
}

TEST_MAIN(cmocka_unit_test(test_symmetric), cmocka_unit_test(test_normal),
          cmocka_unit_test(test_totals), cmocka_unit_test(test_plans_count_it))
