#include "ingest/ingest_labels.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static int64_t add(struct ingest_labels *l, const char *text, int64_t limit)
{
    int64_t number = -1;
    const int r = ingest_labels_add(l, text, strlen(text), limit, &number, NULL);
    return r == 0 ? number : -r - 100;
}

static void test_numbers_in_order(void **state)
{
    (void)state;
    struct ingest_labels l = INGEST_LABELS_INIT;
    assert_int_equal(add(&l, "pear", 3), 0);
    assert_int_equal(add(&l, "apple", 3), 1);
    assert_int_equal(add(&l, "pear", 3), 0);
    assert_int_equal(add(&l, "pea", 3), 2);
    assert_int_equal(add(&l, "fig", 3), -101);
    assert_int_equal(add(&l, "apple", 3), 1);
    assert_int_equal(l.count, 3);
    int64_t *rank = NULL;
    assert_int_equal(ingest_labels_rank(&l, &rank, NULL), 0);
    assert_int_equal(rank[0], 2);
    assert_int_equal(rank[1], 0);
    assert_int_equal(rank[2], 1);
    mem_free(rank);
    ingest_labels_deinit(&l);
}

/* Many labels, each found again; the text given need not end with NUL. */
static void test_many(void **state)
{
    (void)state;
    struct ingest_labels l = INGEST_LABELS_INIT;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3000; i++) {
            char text[32];
            const int len = snprintf(text, sizeof(text), "%dxyz", i) - 3;
            int64_t number = -1;
            assert_int_equal(ingest_labels_add(&l, text, (size_t)len, 3000, &number, NULL), 0);
            assert_int_equal(number, i);
        }
    }
    assert_string_equal(l.text[2999], "2999");
    ingest_labels_deinit(&l);
}

TEST_MAIN(cmocka_unit_test(test_numbers_in_order), cmocka_unit_test(test_many))
