#include "store/datasets.h"

#include "unit/store_fixture.h"

static void test_insert_and_get(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    struct dataset_row row;
    OK(datasets_get(f->store, "ds_1", &row, &f->err));
    assert_string_equal(row.id, "ds_1");
    assert_string_equal(row.name, "iris");
    assert_string_equal(row.info, "{\"rows\":150}");
    assert_int_equal(row.rows, 150);
    assert_int_equal(row.columns, 5);
    assert_int_equal(row.bytes, 6000);
    assert_string_equal(row.sha256, SHA);
    assert_int_equal(row.created_ms, 1000);

    FAILS(datasets_insert(f->store, &row, NULL, &f->err), ERR_CONFLICT, "already");
    row.id[3] = '2';
    row.rows = 0;
    FAILS(datasets_insert(f->store, &row, NULL, &f->err), ERR_INVALID, "accepts");
    row.rows = 1;
    row.sha256[5] = '\0';
    FAILS(datasets_insert(f->store, &row, NULL, &f->err), ERR_INVALID, "accepts");
    dataset_row_deinit(&row);
    assert_null(row.name);
    dataset_row_deinit(&row);
    FAILS(datasets_get(f->store, "ds_2", &row, &f->err), ERR_NOT_FOUND, "no such data set");
    FAILS(datasets_get(f->store, "", &row, &f->err), ERR_NOT_FOUND, "no such data set");
    FAILS(datasets_get(f->store, "' OR 1 --", &row, &f->err), ERR_NOT_FOUND, "no such data set");
}

/* By what was sent and how it was read, the newest of several; rows of an earlier schema by
 * nothing. */
static void test_find(void **state)
{
    struct fixture *f = *state;
    struct dataset_row row;
    add_dataset(f, "ds_1");
    OK(datasets_get(f->store, "ds_1", &row, &f->err));
    assert_string_equal(row.recipe, "");
    for (char n = '2'; n <= '4'; n++) {
        row.id[3] = n;
        snprintf(row.recipe, sizeof(row.recipe), "%s", n < '4' ? "a" : "b");
        OK(datasets_insert(f->store, &row, NULL, &f->err));
    }
    dataset_row_deinit(&row);
    OK(datasets_find(f->store, SHA, "a", &row, &f->err));
    assert_string_equal(row.id, "ds_3");
    assert_string_equal(row.recipe, "a");
    dataset_row_deinit(&row);
    FAILS(datasets_find(f->store, SHA, "c", &row, &f->err), ERR_NOT_FOUND, "no such data set");
    FAILS(datasets_find(f->store, "a", "a", &row, &f->err), ERR_NOT_FOUND, "no such data set");
}

/* Walks all pages of `limit` and checks that the ids are those of `expected`, newest first. */
static void check_pages(struct fixture *f, int64_t limit, const char *const *expected,
                        int64_t total)
{
    char after[ID_SIZE] = "";
    int64_t seen = 0;
    for (bool more = true; more;) {
        struct dataset_row *rows = NULL;
        int64_t count = -1;
        OK(datasets_list(f->store, (struct store_page){after, limit}, &rows, &count, &more,
                         &f->err));
        assert_true(count <= limit && seen + count <= total);
        for (int64_t i = 0; i < count; i++) {
            assert_string_equal(rows[i].id, expected[seen + i]);
        }
        seen += count;
        assert_int_equal(more, seen < total);
        if (count > 0) {
            snprintf(after, sizeof(after), "%s", rows[count - 1].id);
        }
        datasets_list_free(rows, count);
    }
    assert_int_equal(seen, total);
}

static void test_paging(void **state)
{
    struct fixture *f = *state;
    const char *const ids[] = {"ds_5", "ds_4", "ds_3", "ds_2", "ds_1"};
    check_pages(f, 10, ids, 0);
    for (int i = 5; i-- > 0;) {
        add_dataset(f, ids[i]);
    }
    for (int64_t limit = 1; limit <= 6; limit++) {
        check_pages(f, limit, ids, 5);
    }
    check_pages(f, STORE_PAGE_MAX, ids, 5);

    struct dataset_row *rows;
    int64_t count;
    bool more;
    OK(datasets_delete(f->store, "ds_3", &f->err)); /* a cursor outlives its row */
    OK(datasets_list(f->store, (struct store_page){"ds_3", 1}, &rows, &count, &more, &f->err));
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].id, "ds_2");
    assert_true(more);
    datasets_list_free(rows, count);

    const int64_t bad[] = {0, -1, STORE_PAGE_MAX + 1, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        FAILS(datasets_list(f->store, (struct store_page){NULL, bad[i]}, &rows, &count, &more,
                            &f->err),
              ERR_INVALID, "1 to 100");
        assert_string_equal(f->err.pointer, "#/query/limit");
    }
}

static void test_delete(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_dataset(f, "ds_2");
    add_dataset(f, "ds_3");
    FAILS(datasets_delete(f->store, "ds_4", &f->err), ERR_NOT_FOUND, "no such data set");

    /* Held from the insertion of a job to its end, for training, the test or the centers. */
    struct job_row job = {.id = "job_1",
                          .model = (char[]){"m"},
                          .dataset = "ds_1",
                          .test_dataset = "ds_2",
                          .centers_dataset = "ds_3",
                          .spec = (char[]){"{}"},
                          .max_attempts = 3};
    OK(jobs_insert(f->store, &job, NULL, 1, &f->err));
    FAILS(datasets_delete(f->store, "ds_1", &f->err), ERR_CONFLICT, "job_1");
    FAILS(datasets_delete(f->store, "ds_2", &f->err), ERR_CONFLICT, "job_1");
    FAILS(datasets_delete(f->store, "ds_3", &f->err), ERR_CONFLICT, "job_1");
    claim(f, "job_1");
    FAILS(datasets_delete(f->store, "ds_1", &f->err), ERR_CONFLICT, "job_1");
    enum job_status status;
    const struct job_loss loss = {.message = "Lost."};
    OK(jobs_worker_lost(f->store, "job_1", &loss, 1, &status, &f->err));
    FAILS(datasets_delete(f->store, "ds_1", &f->err), ERR_CONFLICT, "job_1");
    claim(f, "job_1");
    OK(finish(f, "job_1", JOB_SUCCEEDED, stage(f, "job_1", 1)));
    OK(datasets_delete(f->store, "ds_1", &f->err));
    OK(datasets_delete(f->store, "ds_2", &f->err));
    OK(datasets_delete(f->store, "ds_3", &f->err));
    FAILS(datasets_delete(f->store, "ds_1", &f->err), ERR_NOT_FOUND, "no such data set");

    /* The job and the model still know its name. */
    struct job_row row;
    OK(jobs_get(f->store, "job_1", &row, &f->err));
    assert_string_equal(row.dataset, "ds_1");
    assert_string_equal(row.test_dataset, "ds_2");
    assert_string_equal(row.centers_dataset, "ds_3");
    job_row_deinit(&row);
    struct model_row model;
    OK(models_get(f->store, "m", 1, &model, &f->err));
    assert_string_equal(model.dataset, "ds_1");
    model_row_deinit(&model);
}

static void join(void *context, const char *id)
{
    char *text = context;
    const size_t len = strlen(text);
    snprintf(text + len, 64 - len, "%s,", id);
}

static void test_each(void **state)
{
    struct fixture *f = *state;
    char text[64] = "";
    OK(datasets_each(f->store, join, text, &f->err));
    assert_string_equal(text, "");
    add_dataset(f, "ds_2");
    add_dataset(f, "ds_1");
    OK(datasets_each(f->store, join, text, &f->err));
    assert_string_equal(text, "ds_1,ds_2,");
}

static void test_lack_of_memory(void **state)
{
    struct fixture *f = *state;
    add_dataset(f, "ds_1");
    add_dataset(f, "ds_2");
    struct dataset_row row, *rows = NULL;
    int64_t count = -1;
    bool more;
    const struct store_page page = {NULL, 10};
    OK(datasets_get(f->store, "ds_1", &row, &f->err)); /* prepares the statements */
    dataset_row_deinit(&row);
    OK(datasets_list(f->store, page, &rows, &count, &more, &f->err));
    datasets_list_free(rows, count);
    count = -1;
    for (int n = 1; n <= 2; n++) { /* two texts */
        mem_fail_nth(n);
        FAILS(datasets_get(f->store, "ds_1", &row, &f->err), ERR_NO_MEMORY, "memory");
    }
    for (int n = 1; n <= 5; n++) { /* the array and four texts */
        mem_fail_nth(n);
        FAILS(datasets_list(f->store, page, &rows, &count, &more, &f->err), ERR_NO_MEMORY,
              "memory");
        assert_int_equal(count, -1);
    }
    mem_fail_nth(0);
}

/* A list has what may be long only of rows that have nothing shorter. */
static void test_list_is_brief(void **state)
{
    struct fixture *f = *state;
    struct dataset_row row = {.name = (char[]){"iris"},
                              .info = (char[]){"{\"rows\":1}"},
                              .summary = (char[]){"{\"target\":\"y\"}"},
                              .rows = 1,
                              .columns = 2,
                              .sha256 = SHA};
    add_dataset(f, "ds_1");
    snprintf(row.id, sizeof(row.id), "ds_2");
    OK(datasets_insert(f->store, &row, NULL, &f->err));
    struct dataset_row *rows = NULL;
    int64_t count = 0;
    bool more = false;
    OK(datasets_list(f->store, (struct store_page){"", 5}, &rows, &count, &more, &f->err));
    assert_int_equal(count, 2);
    assert_null(rows[0].info);
    assert_string_equal(rows[0].summary, "{\"target\":\"y\"}");
    assert_string_equal(rows[1].info, "{\"rows\":150}");
    assert_null(rows[1].summary);
    datasets_list_free(rows, count);
    OK(datasets_get(f->store, "ds_2", &row, &f->err));
    assert_string_equal(row.info, "{\"rows\":1}");
    assert_string_equal(row.summary, "{\"target\":\"y\"}");
    dataset_row_deinit(&row);
}

/* Of a body that is there already, read in the same way, no second row is made. */
static void test_put(void **state)
{
    struct fixture *f = *state;
    char id[ID_SIZE] = "";
    struct dataset_row row = {.name = (char[]){"iris"},
                              .info = (char[]){"{}"},
                              .rows = 1,
                              .columns = 2,
                              .sha256 = SHA,
                              .recipe = SHA};
    snprintf(row.id, sizeof(row.id), "ds_1");
    assert_int_equal(datasets_put(f->store, &row, id, &f->err), 0);
    assert_string_equal(id, "");
    snprintf(row.id, sizeof(row.id), "ds_2");
    assert_int_equal(datasets_put(f->store, &row, id, &f->err), 1);
    assert_string_equal(id, "ds_1");
    row.recipe[0] = 'f';
    assert_int_equal(datasets_put(f->store, &row, id, &f->err), 0);
    assert_int_equal(number_of(f, "SELECT count(*) FROM datasets"), 2);
}

TEST_MAIN(STORE_TEST(test_put), STORE_TEST(test_list_is_brief), STORE_TEST(test_insert_and_get),
          STORE_TEST(test_find), STORE_TEST(test_paging), STORE_TEST(test_delete),
          STORE_TEST(test_each), STORE_TEST(test_lack_of_memory))
