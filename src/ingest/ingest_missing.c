#include "ingest/ingest_missing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_table.h"
#include "ingest/ingest_text.h"

static const char *const rules[] = {
    [INGEST_MISSING_REFUSE] = "refuse",
    [INGEST_MISSING_DROP] = "drop",
    [INGEST_MISSING_FILL] = "fill",
    [INGEST_MISSING_INDICATE] = "indicate",
};

int ingest_missing_parse(const char *name, enum ingest_missing *ret, struct err *err)
{
    for (int i = 0; i < (int)(sizeof(rules) / sizeof(*rules)); i++) {
        if (strcmp(rules[i], name) == 0) {
            *ret = (enum ingest_missing)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, INGEST_MISSING_RULES);
}

const char *ingest_missing_name(enum ingest_missing m)
{
    return rules[m];
}

/* ---- rows ---- */

int ingest_gaps_init(struct ingest_table *t, struct err *err)
{
    if (t->options->missing == INGEST_MISSING_REFUSE) {
        return 0;
    }
    t->gap = mem_zarray((size_t)t->columns, sizeof(*t->gap));
    return t->gap == NULL ? err_no_memory(err) : 0;
}

int ingest_gap_make_text(struct ingest_table *t, int64_t column, struct err *err)
{
    if (t->gap == NULL) {
        return 0;
    }
    t->gap[column].used = mem_zarray(INGEST_MAX_CLASSES, sizeof(bool));
    return t->gap[column].used == NULL ? err_no_memory(err) : 0;
}

void ingest_gaps_deinit(struct ingest_table *t)
{
    for (int64_t j = 0; t->gap != NULL && j < t->columns; j++) {
        mem_free(t->gap[j].used);
        mem_free(t->gap[j].number);
    }
    t->gap = mem_free(t->gap);
}

/* Whether the row stays; counts what it holds. */
static bool stays(struct ingest_table *t, const double *row)
{
    const bool drop = t->options->missing == INGEST_MISSING_DROP;
    bool stay = true;
    for (int64_t j = 0; j < t->columns; j++) {
        const bool missing = !t->is_ignored[j] && isnan(row[j]);
        t->gap[j].present += !missing;
        stay = stay && !(missing && (drop || t->is_target[j]));
    }
    return stay;
}

/* Neumaier's sum, in a type whose range a sum of doubles does not leave. */
static void add_value(struct ingest_gap *g, double value)
{
    const long double v = value, sum = g->sum + v;
    g->rest += fabsl(g->sum) >= fabsl(v) ? g->sum - sum + v : v - sum + g->sum;
    g->sum = sum;
}

bool ingest_gaps_add(struct ingest_table *t, const double *row)
{
    if (!stays(t, row)) {
        t->dropped++;
        return false;
    }
    for (int64_t j = 0; j < t->columns; j++) {
        struct ingest_gap *g = &t->gap[j];
        if (t->is_ignored[j]) {
            continue;
        }
        if (isnan(row[j])) {
            t->filled++;
            continue;
        }
        g->kept++;
        if (g->used != NULL) {
            g->used[(int64_t)row[j]] = true;
        } else {
            add_value(g, row[j]);
        }
    }
    return true;
}

/* ---- the end ---- */

static int no_value(const struct ingest_table *t, int64_t column, struct err *err)
{
    char show[INGEST_SHOW_SIZE], pointer[48];
    const char *name = t->names[column];
    const int64_t rows = t->writer.rows + t->dropped;
    snprintf(pointer, sizeof(pointer), "#/column/%lld", (long long)column + 1);
    return err_at(err, ERR_INVALID, pointer,
                  "The column %s holds no value in any of the %lld rows%s.%s",
                  ingest_show(name, strlen(name), show),
                  (long long)(t->gap[column].present == 0 ? rows : t->writer.rows),
                  t->gap[column].present == 0 ? "" : " that have a target",
                  t->is_target[column] ? "" : " " INGEST_LEAVE_OUT ".");
}

static int check_columns(const struct ingest_table *t, struct err *err)
{
    for (int64_t j = 0; t->writer.rows + t->dropped > 0 && j < t->columns; j++) {
        const struct ingest_gap *g = &t->gap[j];
        if (!t->is_ignored[j] && (g->present == 0 || (t->writer.rows > 0 && g->kept == 0))) {
            return no_value(t, j, err);
        }
    }
    return 0;
}

/* The labels of a column without those that are in no row. */
static int keep_used(struct ingest_table *t, int64_t column, struct err *err)
{
    struct ingest_labels *l = t->labels[column], left = INGEST_LABELS_INIT;
    struct ingest_gap *g = &t->gap[column];
    int64_t *number = mem_array((size_t)l->count + 1, sizeof(*number));
    int r = number == NULL ? err_no_memory(err) : 0;
    for (int64_t i = 0; r == 0 && i < l->count; i++) {
        number[i] = -1;
        if (g->used[i]) {
            r = ingest_labels_add(&left, l->text[i], strlen(l->text[i]), l->count, &number[i], err);
        }
    }
    if (r < 0) {
        ingest_labels_deinit(&left);
        mem_free(number);
        return r;
    }
    ingest_labels_deinit(l);
    *l = left;
    g->number = number;
    return 0;
}

static int keep_all_used(struct ingest_table *t, struct err *err)
{
    int r = 0;
    for (int64_t j = 0; r == 0 && t->dropped > 0 && j < t->columns; j++) {
        r = t->labels[j] != NULL ? keep_used(t, j, err) : 0;
    }
    return r;
}

/* The column that lacks most; a target, where only those count. */
static int64_t find_worst(const struct ingest_table *t, bool targets)
{
    int64_t worst = -1;
    for (int64_t j = 0; j < t->columns; j++) {
        if (t->is_ignored[j] || (targets && !t->is_target[j])) {
            continue;
        }
        worst = worst < 0 || t->gap[j].present < t->gap[worst].present ? j : worst;
    }
    return worst;
}

static int warn_dropped(struct ingest_table *t, struct err *err)
{
    const bool fill = ingest_fills(t->options->missing);
    const int64_t rows = t->writer.rows + t->dropped, worst = find_worst(t, fill);
    char show[INGEST_SHOW_SIZE];
    ingest_show(t->names[worst], strlen(t->names[worst]), show);
    if (fill) {
        return ingest_table_warn(t, err,
                                 "%lld of %lld rows were left out, for they lack a target: %lld "
                                 "that of the column %s, which lacks most.",
                                 (long long)t->dropped, (long long)rows,
                                 (long long)(rows - t->gap[worst].present), show);
    }
    return ingest_table_warn(t, err,
                             "%lld of %lld rows were left out, for they lack a value: %lld that of "
                             "the column %s, which lacks most.",
                             (long long)t->dropped, (long long)rows,
                             (long long)(rows - t->gap[worst].present), show);
}

static int64_t find_most_filled(const struct ingest_table *t)
{
    int64_t most = -1;
    for (int64_t j = 0; j < t->columns; j++) {
        const bool counts = !t->is_ignored[j] && !t->is_target[j];
        most = counts && (most < 0 || t->gap[j].kept < t->gap[most].kept) ? j : most;
    }
    return most;
}

static int warn_filled(struct ingest_table *t, struct err *err)
{
    const int64_t most = find_most_filled(t);
    char show[INGEST_SHOW_SIZE];
    return ingest_table_warn(
        t, err,
        "%lld missing values were filled in: numbers with the mean of their "
        "column, words as none of its words%s. The column %s lacks most, %lld of "
        "%lld.",
        (long long)t->filled,
        t->options->missing == INGEST_MISSING_INDICATE ? "; columns \"…" INGEST_INDICATOR
                                                         "\" tell where that was"
                                                       : "",
        ingest_show(t->names[most], strlen(t->names[most]), show),
        (long long)(t->writer.rows - t->gap[most].kept), (long long)t->writer.rows);
}

int ingest_gaps_finish(struct ingest_table *t, struct err *err)
{
    if (t->gap == NULL) {
        return 0;
    }
    int r = check_columns(t, err);
    r = r < 0 ? r : keep_all_used(t, err);
    r = r < 0 || t->dropped == 0 ? r : warn_dropped(t, err);
    return r < 0 || t->filled == 0 ? r : warn_filled(t, err);
}

bool ingest_gap_indicated(const struct ingest_table *t, int64_t column)
{
    return t->options->missing == INGEST_MISSING_INDICATE && !t->is_ignored[column] &&
           !t->is_target[column] && t->gap[column].kept < t->writer.rows;
}

int64_t ingest_gap_label(const struct ingest_table *t, int64_t column, double raw)
{
    const int64_t *number = t->gap != NULL ? t->gap[column].number : NULL;
    return number != NULL ? number[(int64_t)raw] : (int64_t)raw;
}

double ingest_gap_mean(const struct ingest_table *t, int64_t column)
{
    const struct ingest_gap *g = &t->gap[column];
    const double mean = (double)((g->sum + g->rest) / (long double)g->kept);
    return t->dtype == DTYPE_F32 ? (double)(float)mean : mean;
}
