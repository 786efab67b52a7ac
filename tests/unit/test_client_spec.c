#include "client/spec.h"

#include <string.h>

#include "base/mem.h"
#include "client/args.h"
#include "client/model_name.h"
#include "support/assert.h"

static const struct command *train(void)
{
    const struct command *c = commands;
    while (strcmp(c->name, "train") != 0) {
        c++;
    }
    return c;
}

/* The specification that these words make; "" where they are refused. */
static void expect(char **words, const char *json)
{
    struct args args;
    int count = 0;
    cleanup_json struct json *spec = NULL;
    while (words[count]) {
        count++;
    }
    assert_true(args_parse(train(), count, words, &args));
    const enum exit_code code = spec_build(&args, &spec);
    cleanup_mem char *text = code == EXIT_DONE ? json_print(spec) : mem_strdup("");
    assert_string_equal(text, json);
}

#define WORDS(...) ((char *[]){(char[]){"train"}, __VA_ARGS__, NULL})

static void options_are_fields(void **state)
{
    (void)state;
    expect(WORDS("x.csv", "--kernel", "gaussian", "-b", "median", "--rank", "50", "-s", "pcg"),
           "{\"kernel\":{\"name\":\"gaussian\",\"bandwidth\":\"median\"},"
           "\"solver\":{\"name\":\"pcg\",\"preconditioner\":{\"rank\":50}}}");
    expect(WORDS("--features", "a,b", "--centers=10", "x.csv"),
           "{\"features\":[\"a\",\"b\"],\"centers\":{\"count\":10}}");
}

/* Of a file that is sent, the upload takes it; of a data set that is there, the job. */
static void targets_are_the_files_or_the_jobs(void **state)
{
    (void)state;
    expect(WORDS("x.csv", "--target", "price"), "{}");
    expect(WORDS("--dataset", "ds_1", "-t", "price", "--target=rent"),
           "{\"target\":[\"price\",\"rent\"]}");
}

static void set_reaches_any_field(void **state)
{
    (void)state;
    expect(WORDS("--set", "metadata.team=chem", "--set", "standardize={\"target\":false}"),
           "{\"metadata\":{\"team\":\"chem\"},\"standardize\":{\"target\":false}}");
}

static void what_is_no_field_is_refused(void **state)
{
    (void)state;
    expect(WORDS("--set", "tolerance"), "");
    expect(WORDS("--set", "=1"), "");
    expect(WORDS("--set", "seed=1", "--set", "seed.x=1"), "");
    expect(WORDS("--spec", "/there/is/no/such/file"), "");
}

static void paths_lead_through_objects(void **state)
{
    (void)state;
    cleanup_json struct json *spec = json_new_object();
    assert_true(spec_set(spec, "a.b.c", "1"));
    assert_true(spec_set(spec, "a.b.d", "x"));
    assert_false(spec_set(spec, "a.b.c.e", "1"));
    assert_false(spec_set(spec, "", "1"));
    assert_false(spec_set(spec, ".a", "1"));
    assert_false(spec_set(spec, "a.", "1"));
    cleanup_mem char *text = json_print(spec);
    assert_string_equal(text, "{\"a\":{\"b\":{\"c\":1,\"d\":\"x\"}}}");
}

static void expect_name(const char *text, const char *path)
{
    struct buf b = BUF_INIT;
    const bool ok = model_name_path(text, &b);
    assert_string_equal(ok ? b.data : "", path);
    buf_deinit(&b);
}

static void models_are_named_in_three_ways(void **state)
{
    (void)state;
    expect_name("m", "/v1/models/m");
    expect_name("m@3", "/v1/models/m/versions/3");
    expect_name("m:prod", "/v1/models/m/aliases/prod");
    expect_name("a b/c", "/v1/models/a%20b%2Fc");
    expect_name("", "");
    expect_name("@3", "");
    expect_name("m@", "");
    expect_name("m:", "");
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    struct args args;
    assert_false(args_parse(train(), 2, (char *[]){"train", "--bogus", NULL}, &args));
    assert_false(args_parse(train(), 2, (char *[]){"train", "--kernel", NULL}, &args));
    assert_false(args_parse(train(), 3, (char *[]){"train", "a", "b", NULL}, &args));
    assert_true(args_parse(train(), 4, (char *[]){"train", "--help", "a", "b", NULL}, &args));
    assert_true(args.help);
}

static void the_last_value_counts(void **state)
{
    (void)state;
    struct args args;
    char *words[] = {"train", "-k", "linear", "x", "-k", "gaussian", "-j", NULL};
    assert_true(args_parse(train(), 7, words, &args));
    assert_string_equal(args_get(&args, "kernel"), "gaussian");
    assert_true(args_has(&args, "json"));
    assert_string_equal(args_operand(&args, 0), "x");
    assert_null(args_operand(&args, 1));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_fields),
        cmocka_unit_test(targets_are_the_files_or_the_jobs),
        cmocka_unit_test(set_reaches_any_field),
        cmocka_unit_test(what_is_no_field_is_refused),
        cmocka_unit_test(paths_lead_through_objects),
        cmocka_unit_test(models_are_named_in_three_ways),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(the_last_value_counts),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
