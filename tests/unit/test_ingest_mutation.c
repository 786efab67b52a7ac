/*
 * Valid files of every format, damaged at random, and every allocation failing in turn: nothing
 * crashes (the sanitizers watch), limits hold, errors have a sentence, and no file is left behind
 * (the fixture looks after every run).
 */
#include "base/rng.h"
#include "ingest_fixture.h"
#include "support/mutate.h"

enum { ITERATIONS = 2000, SEEDS = 13, MAX_ROWS = 40, MAX_COLUMNS = 12, MAX_BYTES = 20000 };

struct seed {
    enum ingest_format format;
    bool gzip, one_hot, decimal_comma;
    enum ingest_missing missing;
    struct buf bytes;
};

static void make_npz(struct fixture *f, struct buf *to)
{
    float values[24];
    for (int i = 0; i < 24; i++) {
        values[i] = (float)i / 4;
    }
    cleanup_buf struct buf x = BUF_INIT;
    cleanup_buf struct buf y = BUF_INIT;
    add_npy(&x, "{'descr': '<f4', 'fortran_order': True, 'shape': (8, 2), }", values, 64);
    add_npy(&y, "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }", values + 16, 32);
    add_zip(f, to, (const struct member[]){{"X.npy", &x}, {"y.npy", &y}, {"z.npy", &y}}, 3,
            ZIP_CM_DEFLATE);
}

static void make_text_npz(struct fixture *f, struct buf *to)
{
    static const uint32_t texts[4][2] = {{'a', 0}, {0xFC, 'b'}, {'a', 0}, {0x1F642, 0}};
    cleanup_buf struct buf x = BUF_INIT;
    cleanup_buf struct buf y = BUF_INIT;
    add_npy(&x, "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 1), }", "abcd", 4);
    add_npy(&y, "{'descr': '<U2', 'fortran_order': False, 'shape': (4,), }", texts, sizeof(texts));
    add_zip(f, to, (const struct member[]){{"X.npy", &x}, {"y.npy", &y}}, 2, ZIP_CM_STORE);
}

static void make_seeds(struct fixture *f, struct seed *seeds)
{
    const double six[] = {1, 2.5, 3, 4, 5, 6.25};
    for (int i = 0; i < SEEDS; i++) {
        seeds[i] = (struct seed){.format = INGEST_CSV, .bytes = BUF_INIT};
    }
    buf_str(&seeds[0].bytes, "age,\"weight, kg\",y\r\n1,2.5,3e1\r\n\"4\",5,-6\r\n7,8,9\r\n");
    seeds[1].one_hot = true;
    buf_str(&seeds[1].bytes, "size;color;kind\n1;red;a\n2;blue;b\n3;\"r\"\"d\";a\n4;red;b\n");
    seeds[2].format = INGEST_LIBSVM;
    buf_str(&seeds[2].bytes, "1 1:0.5 3:2 # first\n-1 2:7e-1\n+1 1:1 2:2 4:3\n-1\n");
    seeds[3].format = INGEST_NPY;
    add_npy(&seeds[3].bytes, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }", six,
            48);
    seeds[4].format = INGEST_NPY;
    add_npy(&seeds[4].bytes, "{'descr': '>f4', 'fortran_order': True, 'shape': (4, 3), }", six, 48);
    seeds[5].format = INGEST_NPZ;
    make_npz(f, &seeds[5].bytes);
    seeds[6].gzip = true;
    add_gzip(&seeds[6].bytes, seeds[0].bytes.data, seeds[0].bytes.len);
    seeds[7].gzip = true;
    seeds[7].format = INGEST_NPZ;
    add_gzip(&seeds[7].bytes, seeds[5].bytes.data, seeds[5].bytes.len);
    seeds[9].format = INGEST_NPZ;
    make_text_npz(f, &seeds[9].bytes);
    seeds[8].one_hot = true; /* is read twice */
    buf_str(&seeds[8].bytes, "size,color,y\n1,2,1.5\nnan,red,2.5\nx,3,3.5\n");
    seeds[10].one_hot = true;
    seeds[10].missing = INGEST_MISSING_FILL;
    buf_str(&seeds[10].bytes, "size,color,y\n1,NA,a\nnan,red,b\n,3,\n4,?,a\n5,red,b\n");
    seeds[11].one_hot = true;
    seeds[11].missing = INGEST_MISSING_DROP;
    buf_str(&seeds[11].bytes, "size,color,y\n1,red,a\n,blue,b\n3,blue,NA\n4,?,a\n5,red,b\n");
    seeds[12].one_hot = seeds[12].decimal_comma = true;
    seeds[12].missing = INGEST_MISSING_INDICATE;
    buf_str(&seeds[12].bytes, "size;color;y\n1,5;NA;a\n-2;red;b\n;3;\n4,25;?;a\n,5e1;1.000,5;b\n");
}

static void use_seed(struct fixture *f, const struct seed *seed)
{
    f->options.format = seed->format;
    f->options.gzip = seed->gzip;
    f->options.one_hot = seed->one_hot;
    f->options.missing = seed->missing;
    f->options.decimal_comma = seed->decimal_comma;
    f->options.max_rows = MAX_ROWS;
    f->options.max_columns = MAX_COLUMNS;
    f->options.max_unpacked_bytes = MAX_BYTES;
}

static void check_outcome(const struct fixture *f, int r)
{
    if (r < 0) {
        assert_int_equal(r, -(int)f->err.code);
        assert_true(f->err.code == ERR_PARSE || f->err.code == ERR_INVALID ||
                    f->err.code == ERR_TOO_LARGE || f->err.code == ERR_UNSUPPORTED);
        assert_true(strlen(f->err.detail) > 10);
        assert_null(strstr(f->err.detail, f->dir));
        return;
    }
    assert_true(f->info.rows >= 2 && f->info.rows <= MAX_ROWS);
    assert_true(f->info.columns >= 2 && f->info.columns <= MAX_COLUMNS);
    for (int64_t i = 0; i < f->info.rows; i++) {
        for (int64_t j = 0; j < f->info.columns; j++) {
            assert_true(isfinite(dataset_at(f->data, i, j)));
        }
        const double y = dataset_at(f->data, i, f->info.target_columns[0]);
        assert_true(f->info.task == TASK_REGRESSION ||
                    (y >= 0 && y < (double)f->info.classes && y == floor(y)));
    }
}

static void test_damage(void **state)
{
    struct fixture *f = *state;
    struct seed seeds[SEEDS];
    make_seeds(f, seeds);
    struct rng r = rng_new(11, RNG_TEST);
    for (int s = 0; s < SEEDS; s++) {
        use_seed(f, &seeds[s]);
        accept_bytes(f, seeds[s].bytes.data, seeds[s].bytes.len);
        for (int i = 0; i < ITERATIONS; i++) {
            size_t len = 0;
            char *damaged = mutate(&r, seeds[s].bytes.data, seeds[s].bytes.len, &len);
            const int rc = ingest(f, damaged, len);
            mem_free(damaged);
            check_outcome(f, rc);
        }
    }
    for (int s = 0; s < SEEDS; s++) {
        buf_deinit(&seeds[s].bytes);
    }
}

static void test_truncation(void **state)
{
    struct fixture *f = *state;
    struct seed seeds[SEEDS];
    make_seeds(f, seeds);
    for (int s = 0; s < SEEDS; s++) {
        use_seed(f, &seeds[s]);
        for (size_t len = 0; len < seeds[s].bytes.len; len++) {
            check_outcome(f, ingest(f, seeds[s].bytes.data, len));
        }
        buf_deinit(&seeds[s].bytes);
    }
}

/* Returns false when the run succeeds all the same: the n-th allocation was never reached, or it
 * was one that libcsv tries again with less. */
static bool fail_at(struct fixture *f, int64_t n)
{
    forget(f);
    f->err = (struct err){.code = ERR_OK};
    mem_fail_nth(n);
    const int r = ingest_file(f->in, f->out, &f->options, &f->info, &f->err);
    mem_fail_nth(0);
    assert_true(r == 0 || r == -ERR_NO_MEMORY);
    assert_int_equal(files_in(f->out_dir), r == 0 ? 1 : 0);
    return r != 0;
}

static void test_allocation_failures(void **state)
{
    struct fixture *f = *state;
    struct seed seeds[SEEDS];
    make_seeds(f, seeds);
    for (int s = 0; s < SEEDS; s++) {
        use_seed(f, &seeds[s]);
        write_file(f->in, seeds[s].bytes.data, seeds[s].bytes.len);
        int failures = 0;
        int successes = 0; /* in a row: libcsv does not try more than a few times */
        for (int64_t n = 1; successes < 10; n++) {
            const bool failed = fail_at(f, n);
            failures += failed;
            successes = failed ? 0 : successes + 1;
        }
        assert_true(failures > 10);
        buf_deinit(&seeds[s].bytes);
    }
}

TEST_MAIN(INGEST_TEST(test_damage), INGEST_TEST(test_truncation),
          INGEST_TEST(test_allocation_failures))
