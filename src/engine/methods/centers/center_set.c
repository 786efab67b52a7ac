#include "engine/methods/centers/center_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

enum { SLOTS_MIN = 64, ROOM_MIN = 64 };

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* Every bit of x comes to bear on every bit of the result. */
static uint64_t avalanche(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xFF51AFD7ED558CCD);
    x ^= x >> 33;
    x *= UINT64_C(0xC4CEB9FE1A85EC53);
    return x ^ x >> 33;
}

static uint64_t bits_at(const void *point, int64_t j, enum dtype dtype)
{
    uint64_t bits = 0;
    if (dtype == DTYPE_F32) {
        const float value = ((const float *)point)[j];
        memcpy(&bits, &value, sizeof(value));
        return value == 0 ? 0 : bits;
    }
    const double value = ((const double *)point)[j];
    memcpy(&bits, &value, sizeof(value));
    return value == 0 ? 0 : bits;
}

struct fingerprint fingerprint_of(const void *point, int64_t d, enum dtype dtype)
{
    uint64_t a = UINT64_C(0x9E3779B97F4A7C15), b = UINT64_C(0xD1B54A32D192ED03);
    for (int64_t j = 0; j < d; j++) {
        const uint64_t x = avalanche(bits_at(point, j, dtype) + (uint64_t)j);
        a = rotate(a ^ x, 29) * UINT64_C(0x9FB21C651E98DF25);
        b = rotate(b + x, 37) * UINT64_C(0xA0761D6478BD642F) ^ a;
    }
    return (struct fingerprint){.a = avalanche(a ^ rotate(b, 17)), .b = avalanche(b + a)};
}

void point_table_deinit(struct point_table *t)
{
    mem_free(t->prints);
    mem_free(t->values);
    *t = (struct point_table){.slots = 0};
}

/* Where f is, or where it would go. */
static int64_t slot_of(const struct point_table *t, struct fingerprint f)
{
    int64_t at = (int64_t)(f.a & (uint64_t)(t->slots - 1));
    while (t->values[at] >= 0 && (t->prints[at].a != f.a || t->prints[at].b != f.b)) {
        at = (at + 1) & (t->slots - 1);
    }
    return at;
}

/* Twice the slots; never more than half of them are taken. */
static int grow_table(struct point_table *t, struct err *err)
{
    struct point_table wide = {.slots = t->slots > 0 ? 2 * t->slots : SLOTS_MIN, .count = t->count};
    wide.prints = mem_array((size_t)wide.slots, sizeof(*wide.prints));
    wide.values = mem_array((size_t)wide.slots, sizeof(*wide.values));
    if (wide.prints == NULL || wide.values == NULL) {
        point_table_deinit(&wide);
        return err_no_memory(err);
    }
    memset(wide.values, 0xFF, (size_t)wide.slots * sizeof(*wide.values));
    for (int64_t i = 0; i < t->slots; i++) {
        if (t->values[i] >= 0) {
            const int64_t at = slot_of(&wide, t->prints[i]);
            wide.prints[at] = t->prints[i];
            wide.values[at] = t->values[i];
        }
    }
    point_table_deinit(t);
    *t = wide;
    return 0;
}

int64_t point_table_put(struct point_table *t, struct fingerprint f, int64_t value, struct err *err)
{
    if (2 * t->count >= t->slots) {
        const int rc = grow_table(t, err);
        if (rc < 0) {
            return rc;
        }
    }
    const int64_t at = slot_of(t, f);
    if (t->values[at] < 0) {
        t->prints[at] = f;
        t->values[at] = value;
        t->count++;
    }
    return t->values[at];
}

void center_set_init(struct center_set *s, int64_t d, enum dtype dtype)
{
    *s = (struct center_set){.d = d, .dtype = dtype};
}

void center_set_deinit(struct center_set *s)
{
    mem_free(s->points);
    mem_free(s->rows);
    mem_free(s->stands);
    point_table_deinit(&s->table);
    center_set_init(s, s->d, s->dtype);
}

void center_set_clear(struct center_set *s)
{
    s->m = 0;
    s->table.count = 0;
    if (s->table.values != NULL) {
        memset(s->table.values, 0xFF, (size_t)s->table.slots * sizeof(*s->table.values));
    }
}

static size_t point_size(const struct center_set *s)
{
    return (size_t)s->d * dtype_size(s->dtype);
}

static int make_room(struct center_set *s, struct err *err)
{
    const int64_t room = s->room > 0 ? 2 * s->room : ROOM_MIN;
    void *points = mem_regrow(s->points, (size_t)room, point_size(s));
    s->points = points != NULL ? points : s->points;
    void *rows = mem_regrow(s->rows, (size_t)room, sizeof(*s->rows));
    s->rows = rows != NULL ? rows : s->rows;
    void *stands = mem_regrow(s->stands, (size_t)room, sizeof(*s->stands));
    s->stands = stands != NULL ? stands : s->stands;
    if (points == NULL || rows == NULL || stands == NULL) {
        return err_no_memory(err);
    }
    s->room = room;
    return 0;
}

int center_set_add(struct center_set *s, const void *point, int64_t row, double stands,
                   struct err *err)
{
    int rc = s->m == s->room ? make_room(s, err) : 0;
    if (rc < 0) {
        return rc;
    }
    const struct fingerprint f = fingerprint_of(point, s->d, s->dtype);
    const int64_t at = point_table_put(&s->table, f, s->m, err);
    if (at < 0) {
        return (int)at;
    }
    if (at < s->m) {
        s->stands[at] += stands;
        return 0;
    }
    memcpy(s->points + (size_t)s->m * point_size(s), point, point_size(s));
    s->rows[s->m] = row;
    s->stands[s->m] = stands;
    s->m++;
    return 1;
}

const void *center_set_point(const struct center_set *s, int64_t j)
{
    return s->points + (size_t)j * point_size(s);
}

struct place {
    int64_t row, at;
};

static int compare_places(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    return a->row != b->row ? (a->row > b->row) - (a->row < b->row)
                            : (a->at > b->at) - (a->at < b->at);
}

static int fill(const struct center_set *s, const struct place *order, int64_t n, struct centers *c,
                struct err *err)
{
    const bool is_rows = s->m > 0 && s->rows[0] >= 0;
    const size_t size = point_size(s);
    c->points = mem_array((size_t)s->m, size);
    c->rows = is_rows ? mem_array((size_t)s->m, sizeof(*c->rows)) : NULL;
    c->weights = n > 0 ? mem_array((size_t)s->m, sizeof(*c->weights)) : NULL;
    if (c->points == NULL || (is_rows && c->rows == NULL) || (n > 0 && c->weights == NULL)) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < s->m; j++) {
        const int64_t at = order[j].at;
        memcpy((char *)c->points + (size_t)j * size, center_set_point(s, at), size);
        if (is_rows) {
            c->rows[j] = s->rows[at];
        }
        if (n > 0) {
            c->weights[j] = (double)n / ((double)s->m * s->stands[at]);
        }
    }
    return 0;
}

int center_set_take(struct center_set *s, int64_t n, struct centers *ret, struct err *err)
{
    struct centers c = {.m = s->m, .d = s->d, .dtype = s->dtype};
    cleanup_mem struct place *order = mem_array((size_t)s->m, sizeof(*order));
    if (order == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < s->m; j++) {
        order[j] = (struct place){.row = s->rows[j], .at = j};
    }
    qsort(order, (size_t)s->m, sizeof(*order), compare_places);
    const int rc = fill(s, order, n, &c, err);
    if (rc < 0) {
        centers_deinit(&c);
        return rc;
    }
    center_set_deinit(s);
    *ret = c;
    return 0;
}

int center_task_check(const struct center_task *task, bool own_count, struct err *err)
{
    if (task->rows->n < 1 || task->rows->d < 1) {
        return err_set(err, ERR_INVALID, "Centers cannot be selected from no rows or no features.");
    }
    if (task->count < 0 || (task->count == 0 && !own_count)) {
        return err_at(err, ERR_INVALID, "#/count",
                      "This way to select centers has to be told how many: at least 1.");
    }
    return 0;
}

struct center_task center_task_scored(const struct center_task *task,
                                      const struct param_set *params)
{
    const struct param_value *lambda = param_get(params, "regularization");
    struct center_task scored = *task;
    if (!lambda->is_auto) {
        scored.regularization = lambda->real;
        scored.at_regularization = true;
    }
    return scored;
}

int64_t center_task_wanted(const struct center_task *task)
{
    return task->count < task->rows->n ? task->count : task->rows->n;
}

void center_sort_rows(int64_t *rows, int64_t count)
{
    sort_i64(rows, count);
}
