#include "worker/loaded.h"

#include <string.h>

#include "base/mem.h"
#include "engine/model/model.h"
#include "wire/frame.h"

/* Largest model file taken into memory: a guard against a corrupt size, not a policy. */
#define LOADED_MAX_BYTES ((int64_t)1 << 40)

struct entry {
    struct entry *next;
    char *key;
    char *image; /* the file while it arrives, then NULL */
    int64_t bytes, have;
    struct model *model;
    struct predictor *predictor;
};

struct loaded {
    struct backend *be;
    struct entry *first;
};

static struct entry *entry_free(struct entry *e)
{
    if (e) {
        predictor_free(e->predictor);
        model_free(e->model);
        mem_free(e->image);
        mem_free(e->key);
        mem_free(e);
    }
    return NULL;
}

struct loaded *loaded_new(struct backend *be)
{
    struct loaded *set = mem_zalloc(sizeof *set);
    if (set) {
        set->be = be;
    }
    return set;
}

struct loaded *loaded_free(struct loaded *set)
{
    while (set && set->first) {
        struct entry *next = set->first->next;
        entry_free(set->first);
        set->first = next;
    }
    mem_free(set);
    return NULL;
}

/* The link that points at the entry, so that it can be unlinked; NULL when there is none. */
static struct entry **find(struct loaded *set, const char *key)
{
    for (struct entry **link = &set->first; *link; link = &(*link)->next) {
        if (strcmp((*link)->key, key) == 0) {
            return link;
        }
    }
    return NULL;
}

static int not_loaded(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "The model is not loaded in this worker.");
}

int loaded_begin(struct loaded *set, const char *key, int64_t bytes, struct err *err)
{
    if (bytes <= 0 || bytes > LOADED_MAX_BYTES) {
        return err_set(err, ERR_INVALID, "A model of %lld bytes cannot be loaded.",
                       (long long)bytes);
    }
    if (find(set, key)) {
        return err_set(err, ERR_CONFLICT, "The model is loaded already.");
    }
    struct entry *e = mem_zalloc(sizeof *e);
    if (!e) {
        return err_no_memory(err);
    }
    e->key = mem_strdup(key);
    e->image = mem_alloc((size_t)bytes);
    e->bytes = bytes;
    if (!e->key || !e->image) {
        entry_free(e);
        return err_no_memory(err);
    }
    e->next = set->first;
    set->first = e;
    return 0;
}

static int warm_up(struct entry *e, struct err *err)
{
    const size_t t = (size_t)e->model->t;
    cleanup_mem double *y = mem_array(2 * t, sizeof *y);
    return y ? predictor_run(e->predictor, e->model->feature_mean, 0, 1, y,
                             e->model->p > 0 ? y + t : NULL, err)
             : err_no_memory(err);
}

static int make_ready(struct loaded *set, struct entry *e, struct err *err)
{
    int r = model_read(e->image, (size_t)e->bytes, &e->model, err);
    e->image = mem_free(e->image);
    if (r == 0) {
        r = predictor_new(e->model, set->be, &e->predictor, err);
    }
    if (r == 0) {
        model_keep_scales(e->model);
        r = warm_up(e, err);
        mem_trim();
    }
    return r;
}

int64_t loaded_bytes(struct loaded *set, const char *key)
{
    struct entry **link = find(set, key);
    return link && (*link)->predictor ? predictor_bytes((*link)->predictor) : 0;
}

int loaded_append(struct loaded *set, const char *key, const void *data, size_t size,
                  struct err *err)
{
    struct entry **link = find(set, key);
    if (!link || !(*link)->image) {
        return not_loaded(err);
    }
    struct entry *e = *link;
    int r = 0;
    if ((int64_t)size > e->bytes - e->have) {
        r = err_set(err, ERR_CORRUPT, "More bytes arrived than the model's size announced.");
    } else if (size > 0) {
        memcpy(e->image + e->have, data, size);
        e->have += (int64_t)size;
    }
    if (r == 0 && e->have < e->bytes) {
        return 0;
    }
    if (r == 0) {
        r = make_ready(set, e, err);
    }
    if (r < 0) {
        *link = e->next;
        entry_free(e);
        return r;
    }
    return 1;
}

int loaded_drop(struct loaded *set, const char *key, struct err *err)
{
    struct entry **link = find(set, key);
    if (!link) {
        return not_loaded(err);
    }
    struct entry *e = *link;
    *link = e->next;
#ifdef KRRD_PLANT_LEAK /* Only in the worker that tests/chaos must catch. */
    e->next = NULL;
#else
    entry_free(e);
#endif
    mem_trim();
    return 0;
}

/* Class indices in front of the scores. */
static void fill_classes(const double *scores, int64_t rows, int64_t t, double *ret)
{
    for (int64_t i = 0; i < rows; i++) {
        ret[i] = (double)model_argmax(scores + i * t, t);
    }
}

/* The answer's columns and size, and whether there can be one. */
static int shape(const struct model *m, const struct loaded_ask *ask, struct loaded_answer *ret,
                 struct err *err)
{
    const bool classes = m->task == TASK_CLASSIFICATION;
    if (ask->rows < 1 || ask->values != (size_t)ask->rows * (size_t)m->d) {
        return err_set(err, ERR_INVALID, "A row must hold %lld features.", (long long)m->d);
    }
    if (ask->variance && m->p == 0) {
        return err_set(err, ERR_INVALID, "The model has no variance.");
    }
    *ret = (struct loaded_answer){.outputs = classes ? 1 : m->t,
                                  .scores = classes ? m->t : 0,
                                  .variances = ask->variance ? m->t : 0};
    const int64_t width = ret->outputs + ret->scores + ret->variances;
    ret->bytes = (size_t)ask->rows * (size_t)width * sizeof(double);
    return ret->bytes <= FRAME_PAYLOAD_MAX
               ? 0
               : err_set(err, ERR_TOO_LARGE,
                         "The answer would exceed %u MiB; send fewer rows at a time.",
                         FRAME_PAYLOAD_MAX >> 20);
}

int loaded_predict(struct loaded *set, const char *key, const struct loaded_ask *ask,
                   struct loaded_answer *ret, struct err *err)
{
    struct entry **link = find(set, key);
    if (!link || !(*link)->predictor) {
        return not_loaded(err);
    }
    const struct entry *e = *link;
    struct loaded_answer a;
    int r = shape(e->model, ask, &a, err);
    if (r < 0) {
        return r;
    }
    a.numbers = mem_alloc(a.bytes);
    if (!a.numbers) {
        return err_no_memory(err);
    }
    double *values = a.numbers + (a.scores > 0 ? ask->rows : 0);
    double *variances = a.variances > 0 ? values + ask->rows * e->model->t : NULL;
    r = predictor_run(e->predictor, ask->X, ask->first_row, ask->rows, values, variances, err);
    if (r < 0) {
        mem_free(a.numbers);
        return r;
    }
    if (a.scores > 0) {
        fill_classes(values, ask->rows, a.scores, a.numbers);
    }
    *ret = a;
    return 0;
}
