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
        {"cuda:2+0,cuda:1", "cuda:1,cuda:0+2", {.cuda = 2, .groups = {5}, .group_count = 1}},
        {"cuda:1+2,cpu:1,cuda:3+4+5+6+7+8+9+10",
         "cpu:1,cuda:1+2,cuda:3+4+5+6+7+8+9+10",
         {.cpu = 1, .groups = {6, 0x7f8}, .group_count = 2}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct placement p;
        char text[PLACEMENT_TEXT_SIZE];
        assert_true(placement_parse(cases[i].text, &p));
        assert_int_equal(p.cpu, cases[i].is.cpu);
        assert_int_equal(p.cuda_all, cases[i].is.cuda_all);
        assert_true(p.cuda == cases[i].is.cuda);
        assert_int_equal(p.group_count, cases[i].is.group_count);
        assert_memory_equal(p.groups, cases[i].is.groups, sizeof(p.groups));
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
        "cuda:0+",
        "cuda:+0",
        "cuda:0+0",
        "cuda:0+1,cuda:1",
        "cuda:2,cuda:1+2",
        "cuda:0+1,cuda:all",
        "cuda:all,cuda:0+1",
        "cuda:all+1",
        "cuda:0+1+2+3+4+5+6+7+8",
        "cpu:1+1",
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

static void test_devices(void **state)
{
    (void)state;
    char device[PLACEMENT_DEVICE_SIZE];
    placement_device(UINT64_C(1) << 63, device);
    assert_string_equal(device, "cuda:63");
    placement_device(UINT64_C(0xff) << 56, device);
    assert_string_equal(device, "cuda:56,57,58,59,60,61,62,63");
    const struct placement most = {.groups = {3, 12}, .group_count = 2, .cuda = 16};
    assert_true(placement_gpus(&most) == 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_good_lists),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_every_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
