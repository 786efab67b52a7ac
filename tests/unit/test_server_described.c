#include "server/described.h"

#include "base/mem.h"
#include "store/datasets.h"
#include "unit/store_fixture.h"

/* A data set of one row with these columns; the last is the target. */
static void add(struct fixture *f, const char *id, const char *names, int64_t columns)
{
    char info[512];
    snprintf(info, sizeof(info),
             "{\"rows\":1,\"columns\":%d,\"dtype\":\"float64\",\"column_names\":%s,"
             "\"target_columns\":[%d],\"task\":\"regression\",\"classes\":0,\"class_labels\":[],"
             "\"warnings\":[]}",
             (int)columns, names, (int)columns - 1);
    struct dataset_row row = {
        .name = (char[]){"d"}, .info = info, .rows = 1, .columns = columns, .sha256 = SHA};
    snprintf(row.id, sizeof(row.id), "%s", id);
    OK(datasets_insert(f->store, &row, NULL, &f->err));
}

static const struct dataset_info *find(struct fixture *f, struct described *d, const char *id)
{
    const struct dataset_info *info = NULL;
    OK(described_find(d, id, &info, &f->err));
    return info;
}

/* Read once; what is no more is not found. */
static void test_kept(void **state)
{
    struct fixture *f = *state;
    struct described *d;
    const struct dataset_info *none = NULL;
    add(f, "ds_1", "[\"a\",\"b\"]", 2);
    OK(described_new(f->store, &d, &f->err));
    const struct dataset_info *first = find(f, d, "ds_1");
    assert_int_equal(first->columns, 2);
    assert_string_equal(first->column_names[1], "b");
    assert_ptr_equal(find(f, d, "ds_1"), first);
    OK(datasets_delete(f->store, "ds_1", &f->err));
    assert_ptr_equal(find(f, d, "ds_1"), first);
    described_forget(d, "ds_1");
    FAILS(described_find(d, "ds_1", &none, &f->err), ERR_NOT_FOUND, "no such data set");
    add_dataset(f, "ds_2"); /* whose description lacks nearly everything */
    FAILS(described_find(d, "ds_2", &none, &f->err), ERR_CORRUPT, "damaged");
    assert_null(none);
    described_free(d);
    assert_null(described_free(NULL));
}

/* What is known already is kept without a look, and takes the place of what was. */
static void test_given(void **state)
{
    struct fixture *f = *state;
    struct described *d;
    OK(described_new(f->store, &d, &f->err));
    for (int64_t rows = 1; rows <= 2; rows++) {
        struct dataset_info info = {.rows = rows, .columns = 0};
        described_keep(d, "ds_1", &info);
        assert_int_equal(info.rows, 0);
        assert_int_equal(find(f, d, "ds_1")->rows, rows);
    }
    described_free(d);
}

/* The one that was not used for the longest goes. */
static void test_most(void **state)
{
    struct fixture *f = *state;
    struct described *d;
    const struct dataset_info *none = NULL;
    char id[ID_SIZE];
    OK(described_new(f->store, &d, &f->err));
    for (int i = 0; i <= DESCRIBED_MOST; i++) {
        struct dataset_info info = {.rows = 1 + i};
        snprintf(id, sizeof(id), "ds_%d", i);
        described_keep(d, id, &info);
        find(f, d, "ds_0");
    }
    assert_int_equal(find(f, d, "ds_0")->rows, 1);
    assert_int_equal(find(f, d, id)->rows, 1 + DESCRIBED_MOST);
    FAILS(described_find(d, "ds_1", &none, &f->err), ERR_NOT_FOUND, "no such data set");
    described_free(d);
}

/* Large ones go sooner, but for the newest few. */
static void test_large_ones(void **state)
{
    struct fixture *f = *state;
    struct described *d;
    const struct dataset_info *none = NULL;
    char id[ID_SIZE];
    OK(described_new(f->store, &d, &f->err));
    for (int i = 0; i < 2 * DESCRIBED_LEAST; i++) {
        struct dataset_info info = {.rows = 1 + i, .targets = 1};
        info.column_names = mem_zarray(1, sizeof(char *));
        info.column_names[0] = mem_zalloc(DESCRIBED_BYTES);
        memset(info.column_names[0], 'a', DESCRIBED_BYTES - 1);
        info.columns = 1;
        info.target_columns = mem_zarray(1, sizeof(int64_t));
        snprintf(id, sizeof(id), "ds_%d", i);
        described_keep(d, id, &info);
    }
    for (int i = 0; i < 2 * DESCRIBED_LEAST; i++) {
        snprintf(id, sizeof(id), "ds_%d", i);
        if (i < DESCRIBED_LEAST) {
            FAILS(described_find(d, id, &none, &f->err), ERR_NOT_FOUND, "no such data set");
        } else {
            assert_int_equal(find(f, d, id)->rows, 1 + i);
        }
    }
    described_free(d);
}

/* Every allocation fails once: nothing is leaked, and the next call works. */
static void test_no_memory(void **state)
{
    struct fixture *f = *state;
    struct described *d;
    const struct dataset_info *info = NULL;
    add(f, "ds_1", "[\"a\",\"b\"]", 2);
    OK(described_new(f->store, &d, &f->err));
    int rc = -1;
    for (int n = 1; rc < 0; n++) {
        assert_true(n < 1000);
        mem_fail_nth(n);
        rc = described_find(d, "ds_1", &info, &f->err);
        mem_fail_nth(0);
    }
    assert_int_equal(info->columns, 2);
    described_free(d);
}

TEST_MAIN(STORE_TEST(test_kept), STORE_TEST(test_given), STORE_TEST(test_most),
          STORE_TEST(test_large_ones), STORE_TEST(test_no_memory))
