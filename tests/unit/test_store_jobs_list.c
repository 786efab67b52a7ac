#include "store_fixture.h"

/* n finished jobs: of five models, one of a hundred failed and one of a thousand cancelled; all
 * have the pair all=same, and each its own run=<number>. */
static void fill(struct fixture *f, int n)
{
    char text[1600];
    snprintf(text, sizeof(text),
             "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
             "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, "
             "created_ms, queued_ms, started_ms, finished_ms) SELECT printf('job_%%08d', i), "
             "iif(i %% 1000 = 7, 'cancelled', iif(i %% 100 = 3, 'failed', 'succeeded')), "
             "'m' || i %% 5, 'ds_1', '{}', 0, 3, i, i, i, i FROM n;"
             "INSERT INTO job_metadata (job, name, value) SELECT id, 'all', 'same' FROM jobs;"
             "INSERT INTO job_metadata (job, name, value) SELECT id, 'run', key FROM jobs;",
             n);
    OK(sql_script(f->store->db, text, &f->err));
}

static void queue(struct fixture *f, int n)
{
    char text[700];
    snprintf(text, sizeof(text),
             "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
             "INSERT INTO jobs (id, status, model, dataset, spec, priority, max_attempts, "
             "created_ms, queued_ms) SELECT printf('job_q%%08d', i), 'queued', 'm', 'ds_1', '{}', "
             "i %% 3, 3, i, i FROM n;",
             n);
    OK(sql_script(f->store->db, text, &f->err));
}

static struct jobs_page list(struct fixture *f, const struct jobs_filter *filter, const char *after,
                             int64_t limit)
{
    struct jobs_page page;
    OK(jobs_list(f->store, filter, (struct store_page){after, limit}, &page, &f->err));
    return page;
}

/* The steps of the first page. */
static int64_t work(struct fixture *f, const struct jobs_filter *filter)
{
    const int64_t before = sql_work(f->store->db);
    struct jobs_page page = list(f, filter, "", 100);
    jobs_page_deinit(&page);
    return sql_work(f->store->db) - before;
}

#define FAILED (1u << JOB_FAILED)
#define CANCELLED (1u << JOB_CANCELLED)
#define QUEUED (1u << JOB_QUEUED)

static const struct jobs_filter filters[] = {
    {.model = NULL},
    {.model = "m3"},
    {.model = "nobody"},
    {.statuses = FAILED},
    {.statuses = CANCELLED | QUEUED},
    {.model = "m3", .statuses = FAILED},
    {.model = "m2", .statuses = CANCELLED},
    {.model = "m1", .statuses = QUEUED},
    {.in_queue = true},
    {.metadata = 1, .names = {"all"}, .values = {"same"}},
    {.metadata = 1, .names = {"all"}, .values = {"same"}, .statuses = CANCELLED},
    {.metadata = 1, .names = {"all"}, .values = {"same"}, .statuses = QUEUED},
    {.metadata = 2, .names = {"all", "run"}, .values = {"same", "5"}, .model = "m0"},
    {.metadata = 2, .names = {"run", "all"}, .values = {"5", "same"}},
};
enum { FILTERS = sizeof(filters) / sizeof(filters[0]) };

/* Reading the rows of a page that is full, where the other one was not. */
#define A_PAGE 5000

/* Ten times the jobs, the same work, whatever is asked for. */
static void test_work_is_bounded(void **state)
{
    struct fixture *f = *state;
    int64_t few[FILTERS];
    fill(f, 2 * JOBS_VISITED_MAX);
    for (int i = 0; i < FILTERS; i++) {
        work(f, &filters[i]); /* prepares the statements */
        few[i] = work(f, &filters[i]);
    }
    OK(sql_script(f->store->db, "DELETE FROM jobs", &f->err));
    fill(f, 20 * JOBS_VISITED_MAX);
    for (int i = 0; i < FILTERS; i++) {
        const int64_t many = work(f, &filters[i]);
        if (many > few[i] + A_PAGE || many > 100 * (int64_t)JOBS_VISITED_MAX) {
            print_error("filter %d: %lld steps, %lld before\n", i, (long long)many,
                        (long long)few[i]);
            fail();
        }
    }
}

/* Pages that find little still go on to the end, and find what there is. */
static void test_rare_ones_are_found(void **state)
{
    struct fixture *f = *state;
    const struct jobs_filter rare = {
        .metadata = 1, .names = {"all"}, .values = {"same"}, .statuses = CANCELLED};
    fill(f, 3 * JOBS_VISITED_MAX);
    char after[ID_SIZE] = "";
    int pages = 0, found = 0;
    for (bool more = true; more; pages++) {
        struct jobs_page page = list(f, &rare, after, 1);
        for (int64_t i = 0; i < page.count; i++) {
            assert_int_equal(page.rows[i].status, JOB_CANCELLED);
            found++;
        }
        assert_true(!page.more || strcmp(page.last, after) != 0); /* it goes on */
        more = page.more;
        snprintf(after, sizeof(after), "%s", page.last);
        jobs_page_deinit(&page);
    }
    assert_int_equal(found, 3 * JOBS_VISITED_MAX / 1000);
    assert_true(pages <= found + 4);
}

/* A page that looked at all it may without a hit says that there may be more, and where. */
static void test_page_without_a_hit(void **state)
{
    struct fixture *f = *state;
    const struct jobs_filter nothing = {
        .metadata = 1, .names = {"all"}, .values = {"same"}, .statuses = QUEUED};
    fill(f, JOBS_VISITED_MAX + 1);
    struct jobs_page page = list(f, &nothing, "", 20);
    assert_int_equal(page.count, 0);
    assert_true(page.more);
    assert_string_equal(page.last, "job_00000002");
    char after[ID_SIZE];
    memcpy(after, page.last, sizeof(after));
    jobs_page_deinit(&page);
    page = list(f, &nothing, after, 20);
    assert_int_equal(page.count, 0);
    assert_false(page.more);
    assert_string_equal(page.last, "job_00000001");
    jobs_page_deinit(&page);
}

/* Positions come from a walk along the queue, which is no longer where the queue is. */
static void test_positions(void **state)
{
    struct fixture *f = *state;
    const struct jobs_filter queued = {.statuses = QUEUED};
    queue(f, 300);
    const int64_t before = sql_work(f->store->db);
    struct jobs_page page = list(f, &queued, "", 100);
    const int64_t steps = sql_work(f->store->db) - before;
    assert_int_equal(page.count, 100);
    for (int64_t i = 0; i < page.count; i++) {
        int64_t position = -2;
        OK(jobs_queue_position(f->store, page.rows[i].id, &position, &f->err));
        assert_int_equal(page.positions[i], position);
    }
    jobs_page_deinit(&page);
    OK(sql_script(f->store->db, "DELETE FROM jobs", &f->err));
    queue(f, 30000);
    const int64_t then = sql_work(f->store->db);
    page = list(f, &queued, "", 100);
    assert_true(sql_work(f->store->db) - then < 2 * steps + 20 * 3 * (30000 / 256) + 20 * 3 * 256);
    for (int64_t i = 0; i < page.count; i += 33) {
        int64_t position = -2;
        OK(jobs_queue_position(f->store, page.rows[i].id, &position, &f->err));
        assert_int_equal(page.positions[i], position);
    }
    jobs_page_deinit(&page);
}

/* From the one that starts next to the last, page by page, while the queue moves on. */
static void test_in_queue(void **state)
{
    struct fixture *f = *state;
    const struct jobs_filter queued = {.in_queue = true};
    char after[ID_SIZE] = "";
    int64_t place = 0;
    fill(f, 10);
    queue(f, 300);
    for (bool more = true; more;) {
        struct jobs_page page = list(f, &queued, after, 70);
        for (int64_t i = 0; i < page.count; i++, place++) {
            assert_int_equal(page.positions[i], place);
        }
        more = page.more;
        snprintf(after, sizeof(after), "%s", page.last);
        jobs_page_deinit(&page);
    }
    assert_int_equal(place, 300);
    struct jobs_page page = list(f, &queued, "job_00000003", 100); /* no longer queued */
    assert_string_equal(page.rows[0].id, "job_q00000003");         /* the same priority, younger */
    jobs_page_deinit(&page);
    assert_int_equal(
        jobs_list(f->store, &queued, (struct store_page){"job_none", 5}, &page, &f->err),
        -ERR_NOT_FOUND);
    OK(sql_script(f->store->db, "DELETE FROM jobs", &f->err));
    assert_int_equal(list(f, &queued, "", 5).count, 0);
}

/* What the place is by the list of all that are queued. */
static int64_t place_of(struct fixture *f, const char *id)
{
    static const char count[] =
        "SELECT count(*) FROM jobs AS a, jobs AS b WHERE b.id = ?1 AND a.status = 'queued' "
        "AND (a.priority > b.priority OR (a.priority = b.priority AND a.key < b.key))";
    int64_t place = -1;
    assert_int_equal(sql_number(f->store->db, count, SQL_ARGS(sql_text(id)), &place, &f->err), 1);
    return place;
}

/* Steps of the place of the last one in the queue, and of the length of the queue. */
static int64_t work_of_last(struct fixture *f, const char *id)
{
    int64_t place = -1, length = -1;
    OK(jobs_queue_position(f->store, id, &place, &f->err)); /* prepares the statements */
    OK(jobs_count(f->store, JOB_QUEUED, &length, &f->err));
    const int64_t before = sql_work(f->store->db);
    OK(jobs_queue_position(f->store, id, &place, &f->err));
    OK(jobs_count(f->store, JOB_QUEUED, &length, &f->err));
    const int64_t work = sql_work(f->store->db) - before;
    assert_int_equal(place, place_of(f, id));
    return work;
}

/* Ten times the jobs, little more work; and the counts follow what becomes of them. */
static void test_places_in_a_long_queue(void **state)
{
    struct fixture *f = *state;
    queue(f, 2000);
    const int64_t few = work_of_last(f, "job_q00001998"); /* of the least priority */
    OK(sql_script(f->store->db, "DELETE FROM jobs", &f->err));
    queue(f, 20000);
    const int64_t many = work_of_last(f, "job_q00019998");
    assert_true(many < few + 20 * (20000 / 256) * 3);
    OK(sql_script(f->store->db,
                  "UPDATE jobs SET status = 'paused' WHERE key % 5 = 0;"
                  "UPDATE jobs SET status = 'queued' WHERE key % 25 = 0;"
                  "UPDATE jobs SET wanted_device = 'cpu', priority = 7 WHERE key % 26 = 0;"
                  "DELETE FROM jobs WHERE key % 7 = 0;",
                  &f->err));
    int64_t length = -1, place = -1;
    OK(jobs_count(f->store, JOB_QUEUED, &length, &f->err));
    static const char count[] = "SELECT count(*) FROM jobs WHERE status = 'queued'";
    assert_int_equal(sql_number(f->store->db, count, SQL_NO_ARGS, &place, &f->err), 1);
    assert_int_equal(length, place);
    static const char *const ids[] = {"job_q00000026", "job_q00000257", "job_q00000256",
                                      "job_q00010001", "job_q00019998"};
    for (int i = 0; i < 5; i++) {
        OK(jobs_queue_position(f->store, ids[i], &place, &f->err));
        assert_int_equal(place, place_of(f, ids[i]));
    }
}

/* A failing allocation anywhere gives no page, and leaves nothing behind. */
static void test_no_memory(void **state)
{
    struct fixture *f = *state;
    queue(f, 3);
    fill(f, 10);
    for (int i = 0; i < FILTERS; i++) {
        struct jobs_page page = list(f, &filters[i], "", 100);
        const int64_t expected = page.count;
        jobs_page_deinit(&page);
        for (int n = 1;; n++) {
            mem_fail_nth(n);
            const int rc =
                jobs_list(f->store, &filters[i], (struct store_page){"", 100}, &page, &f->err);
            mem_fail_nth(0);
            if (rc == 0) {
                assert_int_equal(page.count, expected);
                jobs_page_deinit(&page);
                break;
            }
            assert_int_equal(rc, -ERR_NO_MEMORY);
        }
    }
}

TEST_MAIN(STORE_TEST(test_work_is_bounded), STORE_TEST(test_rare_ones_are_found),
          STORE_TEST(test_page_without_a_hit), STORE_TEST(test_positions),
          STORE_TEST(test_in_queue), STORE_TEST(test_places_in_a_long_queue),
          STORE_TEST(test_no_memory))
