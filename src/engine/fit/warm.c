#include "engine/fit/warm.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "engine/data/standardize.h"

static const char pointer[] = "#/warm_start";

/* ---- does it fit ---- */

static int check_features(const struct model *m, const struct fit_data *data, struct err *err)
{
    if (m->d != data->d) {
        return err_at(err, ERR_INVALID, pointer,
                      "The earlier model has %" PRId64 " features, this job has %" PRId64 ".", m->d,
                      data->d);
    }
    for (int64_t j = 0; j < m->d; j++) {
        const char *name = data->train->info.column_names[data->columns.features[j]];
        if (strcmp(m->feature_names[j], name) != 0) {
            return err_at(err, ERR_INVALID, pointer,
                          "Feature %" PRId64 " of the earlier model is \"%.64s\", of this job "
                          "\"%.64s\".",
                          j + 1, m->feature_names[j], name);
        }
    }
    return 0;
}

static int check_targets(const struct model *m, const struct fit_data *data, struct err *err)
{
    const bool classes = data->columns.task == TASK_CLASSIFICATION;
    if (m->task != data->columns.task) {
        return err_at(err, ERR_INVALID, pointer, "The earlier model is of another task: %s.",
                      task_name(m->task));
    }
    if (m->t != data->t) {
        return err_at(err, ERR_INVALID, pointer,
                      "The earlier model has %" PRId64 " %s, this job has %" PRId64 ".", m->t,
                      classes ? "classes" : "targets", data->t);
    }
    for (int64_t j = 0; classes && j < m->t; j++) {
        if (strcmp(m->class_labels[j], data->columns.labels[j]) != 0) {
            return err_at(err, ERR_INVALID, pointer,
                          "Class %" PRId64 " of the earlier model is \"%.64s\", of this job "
                          "\"%.64s\".",
                          j + 1, m->class_labels[j], data->columns.labels[j]);
        }
    }
    return 0;
}

/* ---- centers by their bits ---- */

/* Chains of centers with the same hash, each in ascending order; -1 ends one. */
struct index {
    const struct model *m;
    size_t row_bytes;
    int64_t buckets; /* a power of two */
    int64_t *first;  /* [buckets] */
    int64_t *next;   /* [m] */
};

static void index_deinit(struct index *x)
{
    mem_free(x->first);
    mem_free(x->next);
}

/* FNV-1a over words of 4 bytes, then mixed once more: rows are whole words. */
static uint64_t hash_row(const void *row, size_t bytes)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word;
        memcpy(&word, (const char *)row + i, 4);
        h = (h ^ word) * UINT64_C(1099511628211);
    }
    h ^= h >> 29;
    return h * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

static const void *center(const struct index *x, int64_t i)
{
    return (const char *)x->m->centers + (size_t)i * x->row_bytes;
}

static int index_init(struct index *x, const struct model *m, struct err *err)
{
    *x = (struct index){.m = m, .row_bytes = (size_t)m->d * dtype_size(m->dtype), .buckets = 64};
    while (x->buckets < m->m) {
        x->buckets *= 2;
    }
    x->first = mem_array((size_t)x->buckets, sizeof(*x->first));
    x->next = mem_array((size_t)m->m, sizeof(*x->next));
    if (x->first == NULL || x->next == NULL) {
        index_deinit(x);
        return err_no_memory(err);
    }
    for (int64_t b = 0; b < x->buckets; b++) {
        x->first[b] = -1;
    }
    for (int64_t i = m->m - 1; i >= 0; i--) {
        const uint64_t b = hash_row(center(x, i), x->row_bytes) & (uint64_t)(x->buckets - 1);
        x->next[i] = x->first[b];
        x->first[b] = i;
    }
    return 0;
}

/* The first center equal to the row that nobody has taken yet, or -1. */
static int64_t index_take(struct index *x, const void *row)
{
    int64_t *link = &x->first[hash_row(row, x->row_bytes) & (uint64_t)(x->buckets - 1)];
    while (*link >= 0 && memcmp(center(x, *link), row, x->row_bytes) != 0) {
        link = &x->next[*link];
    }
    const int64_t i = *link;
    if (i >= 0) {
        *link = x->next[i];
    }
    return i;
}

/* ---- */

/* Row i of the training data as the model's centers are. */
static void standardise(const struct fit_data *data, const struct model *m, int64_t i, double *raw,
                        void *row)
{
    for (int64_t j = 0; j < data->d; j++) {
        raw[j] = dataset_at(data->train, data->split.train[i], data->columns.features[j]);
    }
    standardize_row(raw, m->d, m->feature_mean, m->feature_scale, m->dtype, row, 0);
}

struct wanted {
    const int64_t *which; /* training rows, or NULL: all */
    int64_t count;
};

static void fill(struct index *x, const struct fit_data *data, const struct wanted *w, double *raw,
                 void *row, double *ret, int64_t *ret_found)
{
    const struct model *m = x->m;
    *ret_found = 0;
    for (int64_t i = 0; i < w->count; i++) {
        standardise(data, m, w->which != NULL ? w->which[i] : i, raw, row);
        const int64_t c = index_take(x, row);
        *ret_found += c >= 0;
        for (int64_t j = 0; j < data->t; j++) {
            const double ratio = m->target_scale[j] / data->target_scale[j];
            ret[i + j * w->count] = c >= 0 ? ratio * m->coef[c * m->t + j] : 0.0;
        }
    }
}

static int match(const struct model *m, const struct fit_data *data, const struct wanted *w,
                 double *ret, int64_t *ret_found, struct err *err)
{
    struct index x;
    int r = index_init(&x, m, err);
    if (r < 0) {
        return r;
    }
    cleanup_mem double *raw = mem_array((size_t)m->d, sizeof(*raw));
    cleanup_mem double *row = mem_array((size_t)m->d, sizeof(*row));
    r = raw != NULL && row != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        fill(&x, data, w, raw, row, ret, ret_found);
    }
    index_deinit(&x);
    return r;
}

int warm_start(const struct model *m, const struct fit_data *data, const int64_t *which,
               int64_t count, double *ret, int64_t *ret_found, struct err *err)
{
    const struct wanted w = {.which = which, .count = count};
    int r = check_features(m, data, err);
    if (r == 0) {
        r = check_targets(m, data, err);
    }
    return r < 0 ? r : match(m, data, &w, ret, ret_found, err);
}
