#include "server/pool/placement.h"

#include "support/assert.h"

static void test_good_lists(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
        struct placement is;
    } cases[] = {
        {"cpu:1", "cpu:1", {.cpu = 1}},
        {"0", "cpu:0", {.cpu = 0}},
        {"64", "cpu:64", {.cpu = 64}},
        {"cuda:all", "cuda:all", {.cuda_all = true}},
        {"cuda:all,cpu:2", "cpu:2,cuda:all", {.cpu = 2, .cuda_all = true}},
        {"cuda:63,cuda:0,cpu:0", "cuda:0,cuda:63", {.cuda = UINT64_C(1) << 63 | 1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct placement p;
        char text[PLACEMENT_TEXT_SIZE];
        assert_true(placement_parse(cases[i].text, &p));
        assert_int_equal(p.cpu, cases[i].is.cpu);
        assert_int_equal(p.cuda_all, cases[i].is.cuda_all);
        assert_true(p.cuda == cases[i].is.cuda);
        placement_print(&p, text, sizeof(text));
        assert_string_equal(text, cases[i].printed);
    }
}

static void test_bad_lists(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        ",",
        "cpu:1,",
        "cpu:",
        "cpu:65",
        "cpu:-1",
        "cpu:01",
        "cpu:1,2",
        "cuda:",
        "cuda:64",
        "cuda:1,cuda:1",
        "cuda:all,cuda:0",
        "cuda:0,cuda:all",
        "cuda:all,cuda:all",
        "gpu:1",
        " cpu:1",
        "cpu:1 ",
        "cuda:alle",
        "cpu:99999999999999999999",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct placement p = {.cpu = 7};
        assert_false(placement_parse(cases[i], &p));
        assert_int_equal(p.cpu, 7);
    }
}

/* The longest there can be has room. */
static void test_every_gpu(void **state)
{
    (void)state;
    const struct placement all = {.cpu = PLACEMENT_CPU_MAX, .cuda = UINT64_MAX};
    struct placement again;
    char text[PLACEMENT_TEXT_SIZE];
    placement_print(&all, text, sizeof(text));
    assert_true(placement_parse(text, &again));
    assert_true(again.cuda == all.cuda && again.cpu == all.cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_lists),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_every_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
