#include "wire/catalog.h"

#include <string.h>

#include "base/json.h"
#include "support/assert.h"

static const enum catalog all[] = {CATALOG_KERNELS, CATALOG_SOLVERS, CATALOG_PRECONDITIONERS,
                                   CATALOG_CENTERS};

/* Every default is a value that the table itself allows, and every entry says what it is. */
static void test_tables_are_sound(void **state)
{
    (void)state;
    for (size_t c = 0; c < 4; c++) {
        for (const struct method_def *m = catalog_list(all[c]); m->name != NULL; m++) {
            struct param_set set;
            assert_int_equal(param_read(m->params, NULL, NULL, &set, NULL), 0);
            assert_int_equal(param_check_clashes(&set, m->clashes, NULL), 0);
            assert_ptr_equal(catalog_find(all[c], m->name), m);
            assert_non_null(m->paper);
            assert_true(strlen(m->title) > 5 && strlen(m->help) > 10);
            assert_int_equal(m->help[strlen(m->help) - 1], '.');
            int n = 0;
            for (; m->params != NULL && m->params[n].key != NULL; n++) {
                assert_int_equal(m->params[n].help[strlen(m->params[n].help) - 1], '.');
            }
            assert_true(n <= PARAM_MAX);
        }
        assert_null(catalog_find(all[c], "no such method"));
    }
}

/* What a help text tells to ask for is what a job may ask for (spec_methods.c). */
static void test_count_left_open_is_called_auto(void **state)
{
    (void)state;
    int told = 0;
    for (const struct method_def *m = catalog_list(CATALOG_CENTERS); m->name != NULL; m++) {
        assert_null(strstr(m->help, "`count` 0"));
        told += strstr(m->help, "`count` \"auto\"") != NULL;
    }
    assert_int_equal(told, 5);
}

static void test_known_facts(void **state)
{
    (void)state;
    assert_string_equal(catalog_list(CATALOG_SOLVERS)[0].name, "auto");
    assert_null(catalog_find(CATALOG_KERNELS, "auto"));
    static const char *const distance[] = {"gaussian", "laplacian", "laplacian_l1",
                                           "matern12", "matern32",  "matern52"};
    for (size_t i = 0; i < 6; i++) {
        assert_true(catalog_find(CATALOG_KERNELS, distance[i])->has_bandwidth);
    }
    static const char *const product[] = {"linear", "polynomial", "sigmoid"};
    for (size_t i = 0; i < 3; i++) {
        assert_false(catalog_find(CATALOG_KERNELS, product[i])->has_bandwidth);
    }
    struct param_set set;
    const struct method_def *polynomial = catalog_find(CATALOG_KERNELS, "polynomial");
    assert_int_equal(param_read(polynomial->params, NULL, NULL, &set, NULL), 0);
    assert_true(param_get(&set, "gamma")->is_auto);
    assert_int_equal(param_int(&set, "degree"), 3);
    assert_true(catalog_find(CATALOG_SOLVERS, "pcg")->has_preconditioner);
    assert_false(catalog_find(CATALOG_SOLVERS, "cholesky")->has_preconditioner);
}

static void test_describe(void **state)
{
    (void)state;
    for (size_t c = 0; c < 4; c++) {
        struct json *j cleanup_json = catalog_describe(all[c]);
        assert_true(json_ok(j));
        assert_string_equal(json_string(json_get(j, "object")), "list");
        const struct method_def *m = catalog_list(all[c]);
        const struct json *entry = json_first(json_get(j, "data"));
        for (; m->name != NULL; m++, entry = json_next(entry)) {
            assert_string_equal(json_string(json_get(entry, "name")), m->name);
            assert_int_equal(json_type(json_get(entry, "parameters")), JSON_ARRAY);
            const struct json *bandwidth = json_get(entry, "bandwidth");
            assert_int_equal(bandwidth != NULL, all[c] == CATALOG_KERNELS);
            assert_int_equal(json_bool(bandwidth), m->has_bandwidth);
            const struct json *centers = json_get(entry, "centers");
            assert_int_equal(centers != NULL, all[c] == CATALOG_SOLVERS);
            assert_int_equal(json_bool(centers), m->restricted);
        }
        assert_null(entry);
    }
}

TEST_MAIN(cmocka_unit_test(test_tables_are_sound), cmocka_unit_test(test_known_facts),
          cmocka_unit_test(test_describe), cmocka_unit_test(test_count_left_open_is_called_auto))
