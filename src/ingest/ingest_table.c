#include "ingest/ingest_table.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ingest/ingest_text.h"
#include "wire/names.h"

/* Names listed when a column is unknown. */
#define NAMES_LISTED 10

int64_t ingest_max_columns(const struct ingest_options *options)
{
    return options->max_columns < DATASET_COLUMNS_MAX ? options->max_columns : DATASET_COLUMNS_MAX;
}

int ingest_names_unique(char *const *names, int64_t count, int64_t *ret_first, int64_t *ret_second,
                        struct err *err)
{
    cleanup_name_index struct name_index index = {0};
    int r = name_index_init(&index, names, count, err);
    for (int64_t i = 1; r == 0 && i < count; i++) {
        const struct name_entry *e = &index.entries[i];
        if (strcmp(e[-1].name, e->name) == 0) {
            *ret_first = e[-1].position;
            *ret_second = e->position;
            r = 1;
        }
    }
    return r;
}

int ingest_names_number(char **names, const char *prefix, int64_t first, int64_t count,
                        struct err *err)
{
    for (int64_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s%lld", prefix, (long long)(first + i));
        names[i] = mem_strdup(name);
        if (names[i] == NULL) {
            return err_no_memory(err);
        }
    }
    return 0;
}

void ingest_table_init(struct ingest_table *t, const struct ingest_options *options,
                       const char *output_path)
{
    *t = (struct ingest_table){
        .options = options,
        .output_path = output_path,
        .writer = INGEST_WRITER_INIT,
    };
}

void ingest_table_deinit(struct ingest_table *t)
{
    for (int64_t j = 0; t->labels != NULL && j < t->columns; j++) {
        if (t->labels[j] != NULL) {
            ingest_labels_deinit(t->labels[j]);
            mem_free(t->labels[j]);
        }
    }
    mem_free(t->labels);
    mem_free(t->column);
    ingest_gaps_deinit(t);
    for (int64_t k = 0; t->values != NULL && k < t->targets; k++) {
        ingest_values_deinit(&t->values[k]);
    }
    mem_free(t->values);
    mem_free(t->target);
    mem_free(t->is_target);
    mem_free(t->is_ignored);
    ingest_writer_close(&t->writer);
    t->names = names_free(t->names, t->columns);
    t->warning_texts = names_free(t->warning_texts, t->warnings);
}

void ingest_table_reset(struct ingest_table *t)
{
    const struct ingest_options *options = t->options;
    const char *output_path = t->output_path;
    ingest_table_deinit(t);
    ingest_table_init(t, options, output_path);
}

/* Column for an option's text: a name, or a 0-based index where no column has that name; or -1. */
static int64_t find_column(const struct ingest_table *t, const char *text)
{
    for (int64_t j = 0; j < t->columns; j++) {
        if (strcmp(t->names[j], text) == 0) {
            return j;
        }
    }
    size_t len = strlen(text);
    if (len == 0 || len > 18 || strspn(text, "0123456789") != len) {
        return -1;
    }
    long long index = strtoll(text, NULL, 10);
    return index < t->columns ? index : -1;
}

static int unknown_column(const struct ingest_table *t, const char *pointer, const char *text,
                          struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    char list[256] = "";
    size_t used = 0;
    int64_t j = 0;
    for (; j < t->columns && j < NAMES_LISTED && used + INGEST_SHOW_SIZE + 2 < sizeof(list); j++) {
        ingest_show(t->names[j], strlen(t->names[j]), show);
        snprintf(list + used, sizeof(list) - used, "%s%s", j == 0 ? "" : ", ", show);
        used += strlen(list + used);
    }
    return err_at(err, ERR_INVALID, pointer, "There is no column %s. The columns are %s%s.",
                  ingest_show(text, strlen(text), show), list, j < t->columns ? ", …" : "");
}

/* A table of one column may be one whose cells are parted by something else. */
static int no_feature(const struct ingest_table *t, int64_t targets, struct err *err)
{
    char show[INGEST_SHOW_SIZE], hint[INGEST_SHOW_SIZE + 96] = "";
    const char *name = t->columns == 1 ? t->names[0] : "";
    const bool comma = t->options->decimal_comma;
    if (strpbrk(name, comma ? " |:," : " |:") != NULL) {
        snprintf(hint, sizeof(hint),
                 " The one column is %s: the cells of a line are parted by %s or tabs.",
                 ingest_show(name, strlen(name), show),
                 comma ? "semicolons (with decimal=comma)" : "commas, semicolons");
    }
    return err_at(err, ERR_INVALID, "#/target",
                  "%lld column(s) and %lld target(s) leave no column to predict from.%s",
                  (long long)(t->columns - t->ignored), (long long)targets, hint);
}

static int choose_ignored(struct ingest_table *t, struct err *err)
{
    t->is_ignored = mem_zarray((size_t)t->columns, sizeof(*t->is_ignored));
    if (t->is_ignored == NULL) {
        return err_no_memory(err);
    }
    for (int64_t k = 0; k < t->options->ignored_count; k++) {
        int64_t j = find_column(t, t->options->ignored[k]);
        if (j < 0) {
            return unknown_column(t, "#/ignore", t->options->ignored[k], err);
        }
        t->ignored += !t->is_ignored[j];
        t->is_ignored[j] = true;
    }
    return 0;
}

static int add_target(struct ingest_table *t, int64_t column, struct err *err)
{
    if (t->is_target[column] || t->is_ignored[column]) {
        const char *name = t->names[column];
        char show[INGEST_SHOW_SIZE];
        return err_at(err, ERR_INVALID, "#/target", "The column %s is %s.",
                      ingest_show(name, strlen(name), show),
                      t->is_target[column] ? "given twice" : "to be ignored and is a target");
    }
    t->is_target[column] = true;
    t->target[t->targets++] = column;
    return 0;
}

static int name_targets(struct ingest_table *t, struct err *err)
{
    int r = 0;
    for (int64_t k = 0; r == 0 && k < t->options->target_count; k++) {
        const char *text = t->options->targets[k];
        int64_t j = find_column(t, text);
        r = j < 0 ? unknown_column(t, "#/target", text, err) : add_target(t, j, err);
    }
    return r;
}

/* How many of the last `usual` columns are not ignored; at least 1. */
static int64_t count_default(const struct ingest_table *t, int64_t usual)
{
    int64_t count = 0;
    for (int64_t j = t->columns > usual ? t->columns - usual : 0; j < t->columns; j++) {
        count += !t->is_ignored[j];
    }
    return count > 0 ? count : 1;
}

/* The last `usual` columns, without those that are ignored, or the last that is not. */
static int default_targets(struct ingest_table *t, int64_t usual, struct err *err)
{
    int r = 0;
    for (int64_t j = t->columns > usual ? t->columns - usual : 0; r == 0 && j < t->columns; j++) {
        r = t->is_ignored[j] ? 0 : add_target(t, j, err);
    }
    for (int64_t j = t->columns; r == 0 && t->targets == 0 && j-- > 0;) {
        r = t->is_ignored[j] ? 0 : add_target(t, j, err);
    }
    return r;
}

static int choose_targets(struct ingest_table *t, int64_t usual, struct err *err)
{
    bool named = t->options->targets != NULL && t->options->target_count > 0;
    int r = choose_ignored(t, err);
    if (r < 0) {
        return r;
    }
    int64_t count = named ? t->options->target_count : count_default(t, usual);
    if (count >= t->columns - t->ignored) {
        return no_feature(t, count, err);
    }
    t->target = mem_array((size_t)count, sizeof(*t->target));
    t->is_target = mem_zarray((size_t)t->columns, sizeof(*t->is_target));
    if (t->target == NULL || t->is_target == NULL) {
        return err_no_memory(err);
    }
    return named ? name_targets(t, err) : default_targets(t, usual, err);
}

#define ROWS_AS_LONG_AS_ANY INT64_C(999999999999)

/* Means and counts as long as any, so that the header has room for those that are found. */
static int foresee_fill(const struct ingest_table *t, struct dataset_missing *ret, struct err *err)
{
    if (!ingest_fills(t->options->missing)) {
        return 0;
    }
    const bool indicate = t->options->missing == INGEST_MISSING_INDICATE;
    ret->allowed = true;
    ret->fill = mem_array((size_t)t->columns, sizeof(*ret->fill));
    ret->made_up = mem_array((size_t)t->columns, sizeof(*ret->made_up));
    ret->indicates = indicate ? mem_array((size_t)t->columns, sizeof(*ret->indicates)) : NULL;
    if (ret->fill == NULL || ret->made_up == NULL || (indicate && ret->indicates == NULL)) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < t->columns; j++) {
        ret->fill[j] = -DBL_MIN;
        ret->made_up[j] = ROWS_AS_LONG_AS_ANY;
        if (indicate) {
            ret->indicates[j] = -1; /* where there are indicators, the rows are copied anyway */
        }
    }
    return 0;
}

/* The writer, with room for the header as far as it is known. */
static int open_writer(struct ingest_table *t, struct err *err)
{
    struct dataset_info info = {
        .rows = 1,
        .columns = t->columns,
        .dtype = t->dtype,
        .column_names = t->names,
        .targets = t->targets,
        .target_columns = t->target,
        .task = TASK_CLASSIFICATION,
        .warnings = t->warnings,
        .warning_texts = t->warning_texts,
    };
    size_t room = 0;
    int r = foresee_fill(t, &info.missing, err);
    r = r < 0 ? r : ingest_header_size(&info, &room, err);
    mem_free(info.missing.fill);
    mem_free(info.missing.made_up);
    mem_free(info.missing.indicates);
    if (r < 0) {
        return r;
    }
    return ingest_writer_open(&t->writer, t->output_path, t->options, t->dtype, t->columns,
                              room + INGEST_HEADER_RESERVE, err);
}

int ingest_table_begin(struct ingest_table *t, char **names, int64_t columns, int64_t usual_targets,
                       enum dtype dtype, struct err *err)
{
    t->names = names;
    t->columns = columns;
    t->dtype = dtype;
    int64_t limit = ingest_max_columns(t->options);
    if (columns > limit) {
        return err_set(err, ERR_TOO_LARGE,
                       "The file has %lld columns, more than the limit of %lld (--max-columns).",
                       (long long)columns, (long long)limit);
    }
    int r = choose_targets(t, usual_targets, err);
    if (r < 0) {
        return r;
    }
    t->labels = mem_zarray((size_t)columns, sizeof(struct ingest_labels *));
    t->column = mem_zarray((size_t)columns, sizeof(*t->column));
    t->values = mem_zarray((size_t)t->targets, sizeof(*t->values));
    if (t->labels == NULL || t->column == NULL || t->values == NULL) {
        return err_no_memory(err);
    }
    for (int64_t k = 0; k < t->targets; k++) {
        /* Several targets are no classes: two values tell whether one of them is constant. */
        r = ingest_values_init(&t->values[k], t->targets == 1 ? INGEST_MAX_CLASSES : 2, err);
        if (r < 0) {
            return r;
        }
    }
    r = ingest_gaps_init(t, err);
    return r < 0 ? r : open_writer(t, err);
}

int ingest_table_expect(const struct ingest_table *t, int64_t rows, struct err *err)
{
    return ingest_room(&t->writer.temp, ingest_writer_bytes(&t->writer, rows), err);
}

int ingest_table_make_text(struct ingest_table *t, int64_t column, struct err *err)
{
    t->labels[column] = mem_zalloc(sizeof(struct ingest_labels));
    return t->labels[column] == NULL ? err_no_memory(err) : ingest_gap_make_text(t, column, err);
}

/* Rows that stay, the first of them number `place` of those read. */
static int take_rows(struct ingest_table *t, const double *rows, int64_t count, int64_t place,
                     struct err *err)
{
    if (count > t->options->max_rows - t->writer.rows) {
        return err_set(err, ERR_TOO_LARGE,
                       "The file has more than the limit of %lld rows (--max-rows).",
                       (long long)t->options->max_rows);
    }
    for (int64_t k = 0; k < t->targets; k++) {
        const double *value = rows + t->target[k];
        for (int64_t i = 0; i < count; i++) {
            ingest_values_add(&t->values[k], value[i * t->columns]);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        ingest_columns_add(t->column, t->columns, place + i, rows + i * t->columns);
    }
    return ingest_writer_rows(&t->writer, rows, count, err);
}

int ingest_table_rows(struct ingest_table *t, const double *rows, int64_t count, struct err *err)
{
    const int64_t place = t->writer.rows + t->dropped;
    int64_t first = 0;
    int r = 0;
    if (t->gap == NULL) {
        return take_rows(t, rows, count, place, err);
    }
    for (int64_t i = 0; r == 0 && i <= count; i++) { /* a run of rows that stay after another */
        if (i == count || !ingest_gaps_add(t, rows + i * t->columns)) {
            r = i > first ? take_rows(t, rows + first * t->columns, i - first, place + first, err)
                          : 0;
            first = i + 1;
        }
    }
    return r;
}

int ingest_table_warn(struct ingest_table *t, struct err *err, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    utf8_mend(text);
    char **texts = mem_regrow(t->warning_texts, (size_t)t->warnings + 1, sizeof(*texts));
    if (texts == NULL) {
        return err_no_memory(err);
    }
    t->warning_texts = texts;
    texts[t->warnings] = mem_strdup(text);
    if (texts[t->warnings] == NULL) {
        return err_no_memory(err);
    }
    t->warnings++;
    return 0;
}
