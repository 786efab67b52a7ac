#include "store/aliases.h"

#include "unit/store_fixture.h"

static int set(struct fixture *f, const char *alias, int64_t version, int64_t expected)
{
    const struct alias_change c = {
        .name = "m", .alias = alias, .expected = expected, .request = "who"};
    struct alias_row row;
    const int rc = aliases_set(f->store, &c, version, 7000, &row, &f->err);
    if (rc == 0 || rc == ALIAS_STANDS) {
        assert_string_equal(row.name, "m");
        assert_string_equal(row.alias, alias);
        assert_int_equal(row.version, version);
        alias_row_deinit(&row);
    }
    return rc;
}

/* The version that it goes back to. */
static int64_t back(struct fixture *f, const char *alias)
{
    const struct alias_change c = {.name = "m", .alias = alias, .expected = ALIAS_SOME};
    struct alias_row row;
    int64_t previous = 0;
    OK(aliases_previous(f->store, "m", alias, &previous, &f->err));
    OK(aliases_rollback(f->store, &c, 8000, &row, &f->err));
    assert_int_equal(row.version, previous);
    alias_row_deinit(&row);
    return previous;
}

static int64_t version_of(struct fixture *f, const char *alias)
{
    struct model_row row;
    OK(aliases_model(f->store, "m", alias, &row, &f->err));
    const int64_t version = row.version;
    model_row_deinit(&row);
    return version;
}

static int64_t moves_of(struct fixture *f, const char *alias)
{
    struct alias_row row;
    OK(aliases_get(f->store, "m", alias, &row, &f->err));
    const int64_t moves = row.moves;
    alias_row_deinit(&row);
    return moves;
}

static int drop(struct fixture *f, const char *alias, int64_t expected)
{
    const struct alias_change c = {.name = "m", .alias = alias, .expected = expected};
    return aliases_delete(f->store, &c, 9000, &f->err);
}

/* Versions 1 to `count` of the model "m". */
static void make_versions(struct fixture *f, int count)
{
    add_dataset(f, "ds_1");
    for (int i = 1; i <= count; i++) {
        char id[ID_SIZE];
        snprintf(id, sizeof(id), "job_%d", i);
        assert_int_equal(train(f, id, "m"), i);
    }
}

static void test_set_and_look(void **state)
{
    struct fixture *f = *state;
    make_versions(f, 3);
    struct alias_row *rows = NULL, row;
    struct model_row model;
    int64_t count = -1;
    OK(aliases_list(f->store, "m", &rows, &count, &f->err));
    assert_int_equal(count, 0);
    aliases_list_free(rows, count);
    FAILS(aliases_get(f->store, "m", "prod", &row, &f->err), ERR_NOT_FOUND, "no such alias");
    FAILS(aliases_model(f->store, "m", "prod", &model, &f->err), ERR_NOT_FOUND, "no such alias");
    FAILS(set(f, "prod", 4, ALIAS_ANY), ERR_NOT_FOUND, "no version 4");
    OK(set(f, "prod", 2, ALIAS_ANY));
    OK(set(f, "new", 3, ALIAS_ANY));
    OK(set(f, "best", 2, ALIAS_ABSENT));
    assert_int_equal(version_of(f, "prod"), 2);
    OK(aliases_list(f->store, "m", &rows, &count, &f->err));
    assert_int_equal(count, 3);
    assert_string_equal(rows[0].alias, "best");
    assert_string_equal(rows[1].alias, "new");
    assert_int_equal(rows[1].version, 3);
    assert_int_equal(rows[2].moved_ms, 7000);
    aliases_list_free(rows, count);
    struct model_row *models = NULL;
    OK(aliases_models(f->store, &models, &count, &f->err));
    assert_int_equal(count, 2);
    assert_int_equal(models[0].version, 2);
    assert_int_equal(models[1].version, 3);
    OK(aliases_of_version(f->store, models[0].key, &rows, &count, &f->err));
    models_list_free(models, 2);
    assert_int_equal(count, 2);
    assert_string_equal(rows[1].alias, "prod");
    aliases_list_free(rows, count);
}

static void test_expectations(void **state)
{
    struct fixture *f = *state;
    make_versions(f, 3);
    assert_int_equal(set(f, "prod", 1, ALIAS_SOME), ALIAS_OTHER);
    assert_int_equal(set(f, "prod", 1, 1), ALIAS_OTHER);
    OK(set(f, "prod", 1, ALIAS_ABSENT));
    assert_int_equal(moves_of(f, "prod"), 1);
    assert_int_equal(set(f, "prod", 2, ALIAS_ABSENT), ALIAS_OTHER);
    assert_int_equal(set(f, "prod", 2, 2), ALIAS_OTHER);
    assert_int_equal(version_of(f, "prod"), 1);
    OK(set(f, "prod", 2, 1));
    assert_int_equal(set(f, "prod", 2, ALIAS_SOME), ALIAS_STANDS);
    assert_int_equal(set(f, "prod", 2, 1), ALIAS_OTHER);
    assert_int_equal(moves_of(f, "prod"), 2);
    assert_int_equal(drop(f, "prod", 1), ALIAS_OTHER);
    OK(drop(f, "prod", 2));
    FAILS(drop(f, "prod", ALIAS_ANY), ERR_NOT_FOUND, "no such alias");
    /* Numbers go on: who saw the first life of the alias does not take the second one for it. */
    OK(set(f, "prod", 1, ALIAS_ABSENT));
    assert_int_equal(moves_of(f, "prod"), 4);
}

static void test_rollback_goes_further_back(void **state)
{
    struct fixture *f = *state;
    make_versions(f, 4);
    for (int64_t v = 1; v <= 4; v++) {
        OK(set(f, "prod", v, ALIAS_ANY));
    }
    assert_int_equal(back(f, "prod"), 3);
    assert_int_equal(back(f, "prod"), 2);
    OK(set(f, "prod", 4, ALIAS_ANY));
    assert_int_equal(back(f, "prod"), 2);
    assert_int_equal(back(f, "prod"), 1);
    int64_t version;
    FAILS(aliases_previous(f->store, "m", "prod", &version, &f->err), ERR_CONFLICT, "no earlier");
    assert_int_equal(moves_of(f, "prod"), 9);
    assert_int_equal(version_of(f, "prod"), 1);
    fixture_close(f);
    fixture_open(f);
    struct alias_move *moves = NULL;
    int64_t count = 0;
    OK(aliases_history(f->store, "m", "prod", 3, &moves, &count, &f->err));
    assert_int_equal(count, 3);
    assert_int_equal(moves[0].number, 9);
    assert_string_equal(moves[0].kind, "rollback");
    assert_int_equal(moves[0].from, 2);
    assert_int_equal(moves[0].to, 1);
    assert_int_equal(moves[0].moved_ms, 8000);
    assert_string_equal(moves[2].kind, "set");
    assert_string_equal(moves[2].request, "who");
    assert_int_equal(moves[2].from, 2);
    assert_int_equal(moves[2].to, 4);
    aliases_history_free(moves, count);
    FAILS(aliases_history(f->store, "m", "prod", 101, &moves, &count, &f->err), ERR_INVALID, "");
}

static void test_versions_with_an_alias_stay(void **state)
{
    struct fixture *f = *state;
    make_versions(f, 3);
    for (int64_t v = 1; v <= 3; v++) {
        OK(set(f, "prod", v, ALIAS_ANY));
    }
    FAILS(models_delete(f->store, "m", 3, &f->err), ERR_CONFLICT, "alias \"prod\" stands for");
    OK(models_delete(f->store, "m", 2, &f->err));
    assert_int_equal(back(f, "prod"), 1); /* past the one that is gone */
    OK(models_delete(f->store, "m", 3, &f->err));
    FAILS(models_delete(f->store, "m", 1, &f->err), ERR_CONFLICT, "prod");
    OK(drop(f, "prod", ALIAS_ANY));
    OK(models_delete(f->store, "m", 1, &f->err));
    FAILS(set(f, "prod", 1, ALIAS_ANY), ERR_NOT_FOUND, "no version 1");
}

static void test_limits(void **state)
{
    struct fixture *f = *state;
    make_versions(f, 2);
    for (int i = 0; i < ALIASES_MAX; i++) {
        char alias[16];
        snprintf(alias, sizeof(alias), "a%d", i);
        OK(set(f, alias, 1, ALIAS_ANY));
    }
    FAILS(set(f, "more", 1, ALIAS_ANY), ERR_CONFLICT, "at most 100 aliases");
    OK(set(f, "a0", 2, ALIAS_ANY));
    OK(sql_script(f->store->db, "PRAGMA synchronous = OFF", &f->err));
    for (int i = 0; i < ALIASES_HISTORY_MAX + 5; i++) {
        OK(set(f, "a0", i % 2 + 1, ALIAS_ANY));
    }
    assert_int_equal(number_of(f, "SELECT count(*) FROM alias_moves WHERE alias = 'a0'"),
                     ALIASES_HISTORY_MAX);
    assert_int_equal(moves_of(f, "a0"), ALIASES_HISTORY_MAX + 7);
    assert_int_equal(back(f, "a0"), 2);
}

static int64_t moves_kept(struct fixture *f, const char *alias)
{
    struct alias_move *moves;
    int64_t count;
    OK(aliases_history(f->store, "m", alias, 100, &moves, &count, &f->err));
    aliases_history_free(moves, count);
    return count;
}

static int64_t sweep(struct fixture *f, struct alias_place *place, int steps, int64_t before_ms)
{
    int64_t count = -1;
    OK(aliases_sweep(f->store, place, steps, before_ms, &count, &f->err));
    return count;
}

/* Of aliases that are no more, and were deleted (at 9000) before a moment. */
static void test_histories_are_forgotten(void **state)
{
    struct fixture *f = *state;
    struct alias_place place = {.name = ""};
    make_versions(f, 2);
    assert_int_equal(sweep(f, &place, 10, INT64_MAX), 0);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(set(f, names[i], 1, ALIAS_ANY), 0);
        assert_int_equal(set(f, names[i], 2, ALIAS_ANY), 0);
    }
    assert_int_equal(drop(f, "a", ALIAS_ANY), 0);
    assert_int_equal(drop(f, "c", ALIAS_ANY), 0);
    assert_int_equal(drop(f, "d", ALIAS_ANY), 0);
    assert_int_equal(set(f, "d", 1, ALIAS_ANY), 0);
    assert_int_equal(sweep(f, &place, 10, 9000), 0);
    assert_int_equal(moves_kept(f, "a"), 3);
    assert_int_equal(sweep(f, &place, 2, 9001), 1); /* a and b */
    assert_string_equal(place.alias, "b");
    assert_int_equal(moves_kept(f, "a"), 0);
    assert_int_equal(moves_kept(f, "c"), 3);
    assert_int_equal(sweep(f, &place, 10, 9001), 1); /* c and d */
    assert_string_equal(place.name, "");             /* round */
    assert_int_equal(moves_kept(f, "c"), 0);
    assert_int_equal(moves_kept(f, "b"), 2);
    assert_int_equal(moves_kept(f, "d"), 4);
    assert_int_equal(moves_of(f, "b"), 2);
    assert_int_equal(set(f, "a", 1, ALIAS_ABSENT), 0);
    assert_int_equal(moves_of(f, "a"), 1);
}

TEST_MAIN(STORE_TEST(test_set_and_look), STORE_TEST(test_expectations),
          STORE_TEST(test_rollback_goes_further_back), STORE_TEST(test_versions_with_an_alias_stay),
          STORE_TEST(test_limits), STORE_TEST(test_histories_are_forgotten))
