/*
 * The end of reading: the task, the description, and the file as others will see it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ingest/ingest_plan.h"
#include "ingest/ingest_table.h"
#include "ingest/ingest_text.h"

/* Doubles copied at once. */
#define BLOCK_DOUBLES ((int64_t)1 << 17)

static void plan_deinit(struct plan *p)
{
    for (int64_t j = 0; p->column != NULL && j < p->raw_columns; j++) {
        mem_free(p->column[j].rank);
    }
    p->column = mem_free(p->column);
    p->indicated = mem_free(p->indicated);
}

#define cleanup_plan __attribute__((cleanup(plan_deinit)))
#define cleanup_info __attribute__((cleanup(dataset_info_deinit)))

/* Columns that tell where others lack a value, which changes the rows, as what is filled in does.
 */
static int plan_indicators(struct plan *p, const struct ingest_table *t, struct err *err)
{
    p->indicated = mem_array((size_t)t->columns, sizeof(*p->indicated));
    for (int64_t j = 0; p->indicated != NULL && j < t->columns; j++) {
        if (ingest_gap_indicated(t, j)) {
            p->indicated[p->indicators++] = j;
        }
    }
    return p->indicated != NULL ? 0 : err_no_memory(err);
}

static int plan_init(struct plan *p, const struct ingest_table *t, enum task task, struct err *err)
{
    p->raw_columns = t->columns;
    p->column = mem_zarray((size_t)t->columns, sizeof(*p->column));
    if (p->column == NULL) {
        return err_no_memory(err);
    }
    int64_t place = 0;
    p->changes = t->filled > 0;
    for (int64_t j = 0; j < t->columns; j++) {
        struct plan_column *c = &p->column[j];
        c->width = t->is_ignored[j] ? 0 : 1;
        c->classes = t->is_target[j] && task == TASK_CLASSIFICATION;
        if (t->labels[j] != NULL) {
            int r = ingest_labels_rank(t->labels[j], &c->rank, err);
            if (r < 0) {
                return r;
            }
            c->width = t->is_target[j] ? 1 : t->labels[j]->count;
        }
        c->fill = t->gap != NULL && c->rank == NULL && !c->classes ? ingest_gap_mean(t, j) : NAN;
        c->place = place;
        p->spread = p->spread || ingest_plan_spreads(c);
        place += c->width;
        p->changes = p->changes || c->classes || c->rank != NULL || c->width == 0;
    }
    return plan_indicators(p, t, err);
}

static int64_t plan_width(const struct plan *p)
{
    int64_t width = p->indicators;
    for (int64_t j = 0; j < p->raw_columns; j++) {
        width += p->column[j].width;
    }
    return width;
}

/* One raw row into one output row. */
static void plan_row(const struct plan *p, const struct ingest_table *t, const double *raw,
                     double *out)
{
    for (int64_t j = 0; j < p->raw_columns; j++) {
        const struct plan_column *c = &p->column[j];
        if (c->width == 0) {
            continue;
        }
        if (c->rank != NULL && c->classes) {
            *out = (double)c->rank[ingest_gap_label(t, j, raw[j])];
        } else if (c->rank != NULL) {
            memset(out, 0, (size_t)c->width * sizeof(*out));
            if (!isnan(raw[j])) {
                out[c->rank[ingest_gap_label(t, j, raw[j])]] = 1;
            }
        } else if (c->classes) {
            *out = (double)ingest_values_find(&t->values[0], raw[j]);
        } else {
            *out = isnan(raw[j]) ? c->fill : raw[j];
        }
        out += c->width;
    }
    for (int64_t k = 0; k < p->indicators; k++) {
        *out++ = isnan(raw[p->indicated[k]]);
    }
}

/* "color=red", … in the order of the sorted categories. */
static int one_hot_names(const struct ingest_table *t, int64_t column, const int64_t *rank,
                         char **ret, struct err *err)
{
    const struct ingest_labels *labels = t->labels[column];
    for (int64_t k = 0; k < labels->count; k++) {
        cleanup_buf struct buf name = BUF_INIT;
        buf_printf(&name, "%s=%s", t->names[column], labels->text[k]);
        ret[rank[k]] = buf_take(&name);
        if (ret[rank[k]] == NULL) {
            return err_no_memory(err);
        }
    }
    return 0;
}

/* "size_missing", … behind the others. */
static int indicator_names(const struct ingest_table *t, const struct plan *p, char **ret,
                           struct err *err)
{
    for (int64_t k = 0; k < p->indicators; k++) {
        cleanup_buf struct buf name = BUF_INIT;
        buf_printf(&name, "%s" INGEST_INDICATOR, t->names[p->indicated[k]]);
        ret[k] = buf_take(&name);
        if (ret[k] == NULL) {
            return err_no_memory(err);
        }
    }
    return 0;
}

/* info->column_names and target_columns. */
static int describe_columns(const struct ingest_table *t, const struct plan *p,
                            struct dataset_info *info, struct err *err)
{
    info->columns = plan_width(p);
    info->targets = t->targets;
    info->column_names = mem_zarray((size_t)info->columns, sizeof(char *));
    info->target_columns = mem_zarray((size_t)info->targets, sizeof(*info->target_columns));
    if (info->column_names == NULL || info->target_columns == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < t->columns; j++) {
        const struct plan_column *c = &p->column[j];
        char **names = info->column_names + c->place;
        if (ingest_plan_spreads(c)) {
            int r = one_hot_names(t, j, c->rank, names, err);
            if (r < 0) {
                return r;
            }
        } else if (c->width > 0 && (*names = mem_strdup(t->names[j])) == NULL) {
            return err_no_memory(err);
        }
    }
    for (int64_t k = 0; k < t->targets; k++) {
        info->target_columns[k] = p->column[t->target[k]].place;
    }
    return indicator_names(t, p, info->column_names + info->columns - p->indicators, err);
}

static int describe_classes(const struct ingest_table *t, const struct plan *p,
                            struct dataset_info *info, struct err *err)
{
    const struct ingest_labels *labels = t->labels[t->target[0]];
    const int64_t *rank = p->column[t->target[0]].rank;
    info->classes = t->values[0].count;
    info->class_labels = mem_zarray((size_t)info->classes, sizeof(char *));
    if (info->class_labels == NULL) {
        return err_no_memory(err);
    }
    for (int64_t k = 0; k < info->classes; k++) {
        cleanup_buf struct buf text = BUF_INIT;
        if (labels != NULL) {
            buf_str(&text, labels->text[k]);
        } else {
            buf_json_number(&text, t->values[0].value[k]);
        }
        char **place = &info->class_labels[labels != NULL ? rank[k] : k];
        *place = buf_take(&text);
        if (*place == NULL) {
            return err_no_memory(err);
        }
    }
    return 0;
}

/* Which columns were one, for those who match data sets or look for what tells a target. */
static int describe_words(const struct ingest_table *t, const struct plan *p,
                          struct dataset_info *info, struct err *err)
{
    int64_t count = 0, k = 0;
    for (int64_t j = 0; j < t->columns; j++) {
        count += ingest_plan_spreads(&p->column[j]);
    }
    int r = count > 0 ? dataset_words_init(&info->words, count, err) : 0;
    for (int64_t j = 0; r == 0 && k < count; j++) {
        if (!ingest_plan_spreads(&p->column[j])) {
            continue;
        }
        info->words.first[k] = p->column[j].place;
        info->words.width[k] = p->column[j].width;
        info->words.names[k] = mem_strdup(t->names[j]);
        r = info->words.names[k++] != NULL ? 0 : err_no_memory(err);
    }
    return r;
}

/* Of a text the first of its columns stands for all, which lack a value together. */
static int describe_indicators(const struct plan *p, struct dataset_info *info, struct err *err)
{
    const int64_t first = info->columns - p->indicators;
    int64_t *of = info->missing.indicates = mem_array((size_t)info->columns, sizeof(*of));
    if (of == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < info->columns; i++) {
        of[i] = i < first ? -1 : p->column[p->indicated[i - first]].place;
    }
    return 0;
}

/* What stands for a value that is missing: in 0/1 columns nothing, so that none of them is set. */
static int describe_missing(const struct ingest_table *t, const struct plan *p,
                            struct dataset_info *info, struct err *err)
{
    struct dataset_missing *m = &info->missing;
    m->allowed = t->gap != NULL;
    m->dropped_rows = t->dropped;
    m->filled = t->filled;
    if (!ingest_fills(t->options->missing)) {
        return 0;
    }
    m->fill = mem_zarray((size_t)info->columns, sizeof(*m->fill));
    m->made_up = mem_zarray((size_t)info->columns, sizeof(*m->made_up));
    if (m->fill == NULL || m->made_up == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < t->columns; j++) {
        const struct plan_column *c = &p->column[j];
        if (c->width > 0 && !ingest_plan_spreads(c)) {
            m->fill[c->place] = c->fill;
        }
        for (int64_t k = 0; k < c->width; k++) {
            m->made_up[c->place + k] = t->writer.rows - t->gap[j].kept;
        }
    }
    return t->options->missing == INGEST_MISSING_INDICATE ? describe_indicators(p, info, err) : 0;
}

static int describe(const struct ingest_table *t, const struct plan *p, enum task task,
                    struct dataset_info *info, struct err *err)
{
    info->rows = t->writer.rows;
    info->dtype = t->dtype;
    info->task = task;
    int r = describe_columns(t, p, info, err);
    r = r < 0 ? r : describe_words(t, p, info, err);
    r = r < 0 ? r : describe_missing(t, p, info, err);
    if (r == 0 && task == TASK_CLASSIFICATION) {
        r = describe_classes(t, p, info, err);
    }
    if (r < 0 || t->warnings == 0) {
        return r;
    }
    info->warning_texts = mem_zarray((size_t)t->warnings, sizeof(char *));
    if (info->warning_texts == NULL) {
        return err_no_memory(err);
    }
    for (; info->warnings < t->warnings; info->warnings++) {
        char *text = mem_strdup(t->warning_texts[info->warnings]);
        if (text == NULL) {
            return err_no_memory(err);
        }
        info->warning_texts[info->warnings] = text;
    }
    return 0;
}

static int copy_rows(const struct ingest_table *t, const struct plan *p, struct ingest_writer *to,
                     struct err *err)
{
    int64_t wide = to->columns > t->columns ? to->columns : t->columns;
    int64_t block = BLOCK_DOUBLES / wide > 0 ? BLOCK_DOUBLES / wide : 1;
    cleanup_mem double *raw = mem_array((size_t)(block * t->columns), sizeof(*raw));
    cleanup_mem double *out = mem_array((size_t)(block * to->columns), sizeof(*out));
    if (raw == NULL || out == NULL) {
        return err_no_memory(err);
    }
    for (int64_t first = 0; first < t->writer.rows; first += block) {
        int64_t left = t->writer.rows - first;
        int64_t count = left < block ? left : block;
        int r = ingest_writer_read(&t->writer, first, count, raw, err);
        if (r < 0) {
            return r;
        }
        for (int64_t i = 0; i < count; i++) {
            plan_row(p, t, raw + i * t->columns, out + i * to->columns);
        }
        r = ingest_writer_rows(to, out, count, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Publishes the raw file where it can stay as it is, and a copy where it cannot. */
static int write_final(struct ingest_table *t, const struct plan *p,
                       const struct dataset_info *info, struct err *err)
{
    size_t room = 0;
    int r = ingest_header_size(info, &room, err);
    if (r < 0) {
        return r;
    }
    if (!p->changes && room <= t->writer.room) {
        return ingest_writer_publish(&t->writer, info, t->output_path, err);
    }
    cleanup_writer struct ingest_writer copy = INGEST_WRITER_INIT;
    r = ingest_writer_flush(&t->writer, err);
    if (r == 0) {
        r = ingest_writer_open(&copy, t->output_path, t->options, info->dtype, info->columns, room,
                               err);
    }
    if (r == 0) {
        r = ingest_room(&copy.temp, ingest_writer_bytes(&copy, info->rows), err);
    }
    if (r == 0) {
        r = copy_rows(t, p, &copy, err);
    }
    return r < 0 ? r : ingest_writer_publish(&copy, info, t->output_path, err);
}

/* What the whole numbers of a target were taken for, and how to have it otherwise. */
static int warn_guess(struct ingest_table *t, enum task task, struct err *err)
{
    const struct ingest_values *v = &t->values[0];
    const char *name = t->names[t->target[0]];
    const bool classes = task == TASK_CLASSIFICATION;
    char show[INGEST_SHOW_SIZE], count[48];
    snprintf(count, sizeof(count), "%lld classes", (long long)v->count);
    return ingest_table_warn(
        t, err,
        "The target %s holds the whole numbers %.0f to %.0f and was taken for "
        "%s; task=%s (krr: --task %s) makes it %s.",
        ingest_show(name, strlen(name), show), v->value[0], v->value[v->count - 1],
        classes ? count : "numbers", classes ? "regression" : "classification",
        classes ? "regression" : "classification", classes ? "numbers" : count);
}

static int decide_task(struct ingest_table *t, enum task *ret, struct err *err)
{
    const struct ingest_values *v = &t->values[0];
    const char *name = t->names[t->target[0]];
    struct ingest_target target = {
        .text = t->labels[t->target[0]] != NULL,
        .name = name,
        .values = v,
    };
    bool guessed = false;
    int r = ingest_decide_task(t->options->task, &target, t->targets, ret, &guessed, err);
    return r == 0 && guessed ? warn_guess(t, *ret, err) : r;
}

static int check_rows(const struct ingest_table *t, struct err *err)
{
    if (t->dropped > 0 && t->writer.rows < 2) {
        return err_at(err, ERR_INVALID, "#/rows",
                      "%lld of %lld data rows lack a value and were left out; a data set needs at "
                      "least two rows.",
                      (long long)t->dropped, (long long)(t->dropped + t->writer.rows));
    }
    if (t->writer.rows == 0) {
        return err_at(err, ERR_INVALID, "#/rows", "The file has no data rows.");
    }
    if (t->writer.rows == 1) {
        return err_at(err, ERR_INVALID, "#/rows",
                      "The file has one data row; a data set needs at least two rows.");
    }
    return 0;
}

int ingest_table_finish(struct ingest_table *t, struct dataset_info *ret, struct err *err)
{
    cleanup_plan struct plan plan = {.column = NULL};
    cleanup_info struct dataset_info info = {.rows = 0};
    enum task task = TASK_REGRESSION;
    int r = ingest_gaps_finish(t, err);
    r = r < 0 ? r : check_rows(t, err);
    r = r < 0 ? r : decide_task(t, &task, err);
    r = r < 0 ? r : ingest_table_warn_columns(t, err);
    r = r < 0 ? r : plan_init(&plan, t, task, err);
    r = r < 0 ? r : describe(t, &plan, task, &info, err);
    r = r < 0 ? r : ingest_plan_check(&plan, t, &info, err);
    r = r < 0 ? r : write_final(t, &plan, &info, err);
    if (r < 0) {
        return r;
    }
    *ret = info;
    info = (struct dataset_info){.rows = 0};
    return 0;
}
