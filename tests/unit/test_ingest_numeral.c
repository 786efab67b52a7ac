#include "ingest/ingest_numeral.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "support/assert.h"

static enum ingest_number read_text(const char *text, bool comma, double *ret)
{
    const size_t len = strlen(text);
    char *exact = mem_array(len, 1); /* for the sanitizers */
    memcpy(exact, text, len);
    *ret = NAN;
    const enum ingest_number kind = ingest_numeral_read(exact, len, comma, ret);
    ingest_numeral_of(exact, len, comma);
    mem_free(exact);
    return kind;
}

static void test_commas(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"1,5", 1.5}, {"-0,25", -0.25}, {"+1,5e3", 1500}, {",5", 0.5},        {"5,", 5},
                {"7", 7},     {"1e-3", 0.001},  {"007,50", 7.5},  {"-1,25E+2", -125}, {"0,1", 0.1}};
    static const char *const bad[] = {"1.5", "1,5,5", "1.234,5", "1,234.5", ",",
                                      ",e3", "1,5x",  "1 5",     ""};
    double v;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(read_text(good[i].text, true, &v), INGEST_NUMBER_OK);
        assert_same_bits(v, good[i].value);
        assert_int_equal(read_text(good[i].text, false, &v) == INGEST_NUMBER_OK,
                         strchr(good[i].text, ',') == NULL);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(read_text(bad[i], true, &v), INGEST_NUMBER_TEXT);
        assert_true(isnan(v));
    }
    assert_int_equal(read_text("nan", true, &v), INGEST_NUMBER_NOT_FINITE);
    assert_int_equal(read_text("9,9e999", true, &v), INGEST_NUMBER_NOT_FINITE);
    assert_int_equal(read_text("0x1f", true, &v), INGEST_NUMBER_HEX);
    assert_int_equal(read_text("1.5", false, &v), INGEST_NUMBER_OK);
}

/* A number as long as any, and one that is not rewritten any more. */
static void test_long(void **state)
{
    (void)state;
    char text[1002];
    double v;
    memset(text, '0', sizeof(text));
    text[0] = '1';
    text[1] = ',';
    assert_int_equal(ingest_numeral_read(text, 1000, true, &v), INGEST_NUMBER_OK);
    assert_same_bits(v, 1);
    assert_int_equal(ingest_numeral_read(text, 1001, true, &v), INGEST_NUMBER_TEXT);
}

static void check_kind(const char *const *texts, enum ingest_numeral kind, bool comma)
{
    for (; *texts != NULL; texts++) {
        if (ingest_numeral_of(*texts, strlen(*texts), comma) != kind) {
            fail_msg("\"%s\" is not %d", *texts, (int)kind);
        }
    }
}

static void test_kinds(void **state)
{
    (void)state;
    static const char *const grouped[] = {"1,234.5", "1.234,5",   "-1,234,567",  "1.234.567",
                                          "12,345.", "+1,234.56", "999,999,999", NULL};
    static const char *const spaced[] = {"1 234",
                                         "1 234,5",
                                         "12'345.6",
                                         "1\xc2\xa0"
                                         "234",
                                         "1\xe2\x80\xaf"
                                         "234,5",
                                         "1\xe2\x80\x99"
                                         "234",
                                         NULL};
    static const char *const dates[] = {
        "2024-01-31", "2024/1/31",        "2024.01.31",       "31.12.2024",      "1/31/24",
        "31-12-2024", "2024-01-31T10:00", "2024-01-31 10:00", "31.1.2024 10:00", NULL};
    static const char *const none[] = {"",          "red",    "1,23,456", "1234,567.8", "1,234,56",
                                       "1'23",      "1 2345", "2024-01",  "1-2-3-4",    "10.0.0.1",
                                       "12-1234-1", "-",      "1,234.5x", "1,2345.6",   "1.234.5",
                                       "1,234 567", "+",      NULL};
    for (int comma = 0; comma < 2; comma++) {
        check_kind(grouped, INGEST_NUMERAL_GROUPED, comma == 1);
        check_kind(spaced, INGEST_NUMERAL_SPACED, comma == 1);
        check_kind(dates, INGEST_NUMERAL_DATE, comma == 1);
        check_kind(none, INGEST_NUMERAL_NONE, comma == 1);
    }
    check_kind((const char *const[]){"1,5", "1,234", ",5", "-1,5e3", NULL}, INGEST_NUMERAL_OTHER,
               false);
    check_kind((const char *const[]){"1.5", "1.234", ".5", "-1.5e3", NULL}, INGEST_NUMERAL_OTHER,
               true);
}

static void test_faults(void **state)
{
    (void)state;
    assert_null(ingest_numeral_fault(INGEST_NUMERAL_NONE, false));
    assert_contains(ingest_numeral_fault(INGEST_NUMERAL_OTHER, false),
                    "decimal=comma (krr: --decimal comma)");
    assert_contains(ingest_numeral_fault(INGEST_NUMERAL_OTHER, true), "has a decimal point");
    assert_true(ingest_numeral_meant(INGEST_NUMERAL_GROUPED) &&
                !ingest_numeral_meant(INGEST_NUMERAL_DATE));
    bool comma = false;
    struct err err;
    assert_int_equal(ingest_decimal_parse("comma", &comma, &err), 0);
    assert_true(comma);
    assert_int_equal(ingest_decimal_parse("point", &comma, &err), 0);
    assert_false(comma);
    assert_int_equal(ingest_decimal_parse(",", &comma, &err), -ERR_INVALID);
}

TEST_MAIN(cmocka_unit_test(test_commas), cmocka_unit_test(test_long), cmocka_unit_test(test_kinds),
          cmocka_unit_test(test_faults))
