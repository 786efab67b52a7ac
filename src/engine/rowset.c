#include "engine/rowset.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "plan/rules.h"

/* Points and targets of some rows. */
struct held {
    struct points *X;
    struct mat Y;
};

struct rowset {
    struct rowset_spec spec;
    int64_t tile_rows, tiles;
    int64_t loaded;        /* the tile that `passing` holds, or -1 */
    struct held *resident; /* [tiles], filled as they are asked for; NULL: none stays */
    struct held passing;
    void *x;   /* [buffer_rows, d] */
    double *y; /* [buffer_rows, t] */
    int64_t buffer_rows;
};

static int64_t choose_tile_rows(const struct rowset_spec *s)
{
    if (s->tile_rows > 0) {
        return s->tile_rows;
    }
    return rule_tile_rows(s->source->d, s->source->t, s->centers);
}

static void release(const struct rowset *r, struct held *h)
{
    const struct backend_ops *o = r->spec.be->ops;
    if (h->X != NULL) {
        o->points_free(r->spec.be, h->X);
    }
    o->mat_free(r->spec.be, &h->Y);
    *h = (struct held){0};
}

static bool fits(const struct rowset_spec *s)
{
    const struct rule_rows rows = {.kernel = kernel_name(s->kernel->id),
                                   .n = s->source->n,
                                   .d = s->source->d,
                                   .t = s->source->t,
                                   .points = s->points,
                                   .vectors = s->vectors,
                                   .device = strcmp(s->be->ops->name, "cpu") != 0};
    return rule_rows_stay(&rows, (double)s->budget);
}

int rowset_new(const struct rowset_spec *spec, struct rowset **ret, struct err *err)
{
    struct rowset *r = mem_zalloc(sizeof(*r));
    if (r == NULL) {
        return err_no_memory(err);
    }
    r->spec = *spec;
    r->tile_rows = choose_tile_rows(spec);
    r->tiles = (spec->source->n + r->tile_rows - 1) / r->tile_rows;
    r->loaded = -1;
    if (fits(spec)) {
        r->resident = mem_zarray((size_t)r->tiles, sizeof(*r->resident));
        if (r->resident == NULL) {
            rowset_free(r);
            return err_no_memory(err);
        }
    }
    *ret = r;
    return 0;
}

void rowset_rest(struct rowset *r)
{
    release(r, &r->passing);
    r->loaded = -1;
    r->x = mem_free(r->x);
    r->y = mem_free(r->y);
    r->buffer_rows = 0;
}

struct rowset *rowset_free(struct rowset *r)
{
    if (r == NULL) {
        return NULL;
    }
    for (int64_t i = 0; r->resident != NULL && i < r->tiles; i++) {
        release(r, &r->resident[i]);
    }
    rowset_rest(r);
    mem_free(r->resident);
    return mem_free(r);
}

int64_t rowset_rows(const struct rowset *r)
{
    return r->spec.source->n;
}

int64_t rowset_tiles(const struct rowset *r)
{
    return r->tiles;
}

bool rowset_resident(const struct rowset *r)
{
    return r->resident != NULL;
}

/* Buffers for so many rows at least. */
static int reserve(struct rowset *r, int64_t rows, struct err *err)
{
    const struct row_source *s = r->spec.source;
    if (rows <= r->buffer_rows) {
        return 0;
    }
    mem_free(r->x);
    mem_free(r->y);
    r->buffer_rows = 0;
    r->x = mem_array((size_t)rows * (size_t)s->d, dtype_size(s->dtype));
    r->y = mem_array((size_t)rows * (size_t)s->t, sizeof(double));
    if (r->x == NULL || r->y == NULL) {
        return err_no_memory(err);
    }
    r->buffer_rows = rows;
    return 0;
}

static int load(struct rowset *r, int64_t first, const int64_t *index, int64_t count,
                struct held *ret, struct err *err)
{
    const struct rowset_spec *s = &r->spec;
    const struct backend_ops *o = s->be->ops;
    int rc = reserve(r, count, err);
    if (rc == 0) {
        rc = s->source->read(s->source, first, index, count, r->x, r->y, err);
    }
    const struct rows X = {.dtype = s->source->dtype, .n = count, .d = s->source->d, .data = r->x};
    if (rc == 0) {
        rc = o->points_new(s->be, s->kernel, s->points, &X, &ret->X, err);
    }
    if (rc == 0) {
        rc = o->mat_new(s->be, s->vectors, count, s->source->t, &ret->Y, err);
    }
    if (rc == 0) {
        rc = o->mat_put(s->be, r->y, count, &ret->Y, err);
    }
    if (rc < 0) {
        release(r, ret);
    }
    return rc;
}

static struct row_tile tile_of(const struct held *h, int64_t first, int64_t count)
{
    return (struct row_tile){
        .first = first, .count = count, .rows = view_all(h->X, count), .Y = h->Y};
}

int rowset_tile(struct rowset *r, int64_t i, struct row_tile *ret, struct err *err)
{
    const int64_t first = i * r->tile_rows;
    const int64_t count = min_i64(r->tile_rows, rowset_rows(r) - first);
    struct held *h = r->resident != NULL ? &r->resident[i] : &r->passing;
    const bool there = r->resident != NULL ? h->X != NULL : r->loaded == i;
    if (!there) {
        release(r, h);
        r->loaded = -1;
        const int rc = load(r, first, NULL, count, h, err);
        if (rc < 0) {
            return rc;
        }
        r->loaded = r->resident != NULL ? -1 : i;
    }
    *ret = tile_of(h, first, count);
    return 0;
}

int rowset_batch(struct rowset *r, const int64_t *index, int64_t count, struct row_tile *ret,
                 struct err *err)
{
    release(r, &r->passing);
    r->loaded = -1;
    const int rc = load(r, 0, index, count, &r->passing, err);
    if (rc == 0) {
        *ret = tile_of(&r->passing, -1, count);
    }
    return rc;
}
