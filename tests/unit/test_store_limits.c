#include "store/limits.h"

#include "store_fixture.h"

static int64_t publish(struct fixture *f, const char *name)
{
    int64_t key, version;
    OK(models_stage_import(f->store, name, &key, &f->err));
    OK(models_stage_chunk(f->store, key, "model", 5, &f->err));
    OK(models_stage_seal(f->store, key, "{}", SHA, 5, &f->err));
    OK(models_publish_import(f->store, key, 1, NULL, &version, &f->err));
    return version;
}

static void check(struct fixture *f, const char *name, struct limits_row expected)
{
    struct limits_row row;
    OK(limits_get(f->store, name, &row, &f->err));
    assert_memory_equal(&row, &expected, sizeof row);
}

static const struct limits_row unset = {LIMITS_UNSET, LIMITS_UNSET, LIMITS_UNSET, LIMITS_UNSET};
static const struct limits_row some = {7, 0, LIMITS_UNSET, 250000};

static void test_limits(void **state)
{
    struct fixture *f = *state;
    check(f, "m", unset);
    FAILS(limits_set(f->store, "m", &some, &f->err), ERR_NOT_FOUND, "no such model");
    publish(f, "m");
    publish(f, "other");
    OK(limits_set(f->store, "m", &some, &f->err));
    check(f, "m", some);
    check(f, "other", unset);
    struct model_row model;
    struct limits_row row;
    OK(models_get(f->store, "m", 0, &model, &f->err));
    OK(limits_of_version(f->store, model.key, &row, &f->err));
    assert_memory_equal(&row, &some, sizeof row);
    OK(limits_of_version(f->store, model.key + 100, &row, &f->err));
    assert_memory_equal(&row, &unset, sizeof row);
    model_row_deinit(&model);
    fixture_close(f);
    fixture_open(f);
    check(f, "m", some);
    OK(limits_set(f->store, "m", &unset, &f->err));
    check(f, "m", unset);
}

/* They are those of every version, and go with the last one. */
static void test_end(void **state)
{
    struct fixture *f = *state;
    const int64_t first = publish(f, "m"), second = publish(f, "m");
    OK(limits_set(f->store, "m", &some, &f->err));
    OK(models_delete(f->store, "m", first, &f->err));
    check(f, "m", some);
    OK(models_delete(f->store, "m", second, &f->err));
    check(f, "m", unset);
    publish(f, "m");
    check(f, "m", unset);
}

TEST_MAIN(STORE_TEST(test_limits), STORE_TEST(test_end))
