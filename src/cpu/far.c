/*
 * Tiles in which some rows z are too far from the origin for the faster form of their kernel
 * (points.far): their values come by differences. Whether a row is one of them does not depend on
 * the view or the tile it is in. Blocks without far rows, or of nothing else, go through the loops
 * as they are: all blocks, where a tile begins with one of the points. The values of a block with
 * both are computed both ways, and put together before they are used.
 */
#include <string.h>

#include "cpu/oracle.h"

typedef void tile_function(enum tile_use use, int lanes, const struct tile *t);

enum block { BLOCK_NEAR, BLOCK_FAR, BLOCK_MIXED };

/* A tile and what it takes to run parts of it. */
struct parts {
    const struct oracle *o;
    const struct tile *t;
    tile_function *run;
    enum tile_use use;
    int lanes;
    size_t weight; /* bytes of one */
    const unsigned char *far;
};

static enum block block_at(const struct parts *p, int first)
{
    const int step = p->o->loops->step;
    const int rows = first + step <= p->t->count ? step : p->t->count - first;
    int count = 0;
    for (int j = 0; j < rows; j++) {
        count += p->far[first + j];
    }
    return count == 0 ? BLOCK_NEAR : count == rows ? BLOCK_FAR : BLOCK_MIXED;
}

/* Rows first .. first+count-1, whole blocks but at the tile's end. */
static struct tile part_of(const struct parts *p, int first, int count)
{
    const struct oracle *o = p->o;
    const size_t vector = (size_t)o->loops->narrow * dtype_size(o->dtype);
    struct tile part = *p->t;
    part.z += first;
    part.count = count;
    if (p->use == TILE_VALUES) {
        part.K = (char *)part.K + (size_t)(first * p->lanes) * dtype_size(o->dtype);
        return part;
    }
    part.z_weights = (const char *)part.z_weights + (size_t)first * p->weight;
    if (p->use != TILE_ROWS) {
        part.z_sums = (char *)part.z_sums + (size_t)(first * part.z_ld) * vector;
    }
    return part;
}

/* Values of the part's far rows, where K has others. */
static void put_far_values(const struct parts *p, const struct tile *part, int first, char *K)
{
    float values[TILE_BLOCK * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    const void *z[2 * TILE_BLOCK];
    const struct points *q = p->o->Q.points;
    const size_t size = (size_t)p->lanes * dtype_size(p->o->dtype);
    struct tile t = {
        .kernel = &p->o->apart, .panel = part->panel, .z = z, .d = part->d, .K = values};
    for (int j = 0; j < part->count; j++) {
        if (p->far[first + j]) {
            z[t.count++] = part->z[j];
        }
    }
    for (int j = 0; j < TILE_BLOCK; j++) {
        z[t.count + j] = points_row(q, q->n);
    }
    p->o->loops->run(TILE_VALUES, p->lanes, &t);
    for (int j = 0, at = 0; j < part->count; j++) {
        if (p->far[first + j]) {
            memcpy(K + (size_t)j * size, (const char *)values + (size_t)at++ * size, size);
        }
    }
}

static void run_mixed(const struct parts *p, int first, int count)
{
    float K[TILE_BLOCK * TILE_LANES] __attribute__((aligned(TILE_ALIGN)));
    struct tile part = part_of(p, first, count), values = part;
    values.K = p->use == TILE_VALUES ? part.K : K;
    p->o->loops->run(TILE_VALUES, p->lanes, &values);
    put_far_values(p, &part, first, values.K);
    if (p->use != TILE_VALUES) {
        part.kept = K;
        part.storage = KERNEL_STORE_EXACT;
        p->run(p->use, p->lanes, &part);
    }
}

static void run_part(const struct parts *p, enum block block, int first, int count)
{
    if (block == BLOCK_MIXED) {
        run_mixed(p, first, count);
        return;
    }
    struct tile part = part_of(p, first, count);
    part.kernel = block == BLOCK_FAR ? &p->o->apart : part.kernel;
    p->run(p->use, p->lanes, &part);
}

static void run_parts(const struct parts *p)
{
    const int step = p->o->loops->step, count = p->t->count;
    for (int first = 0, next = 0; first < count; first = next) {
        const enum block block = block_at(p, first);
        const int most = block == BLOCK_MIXED ? TILE_BLOCK : count;
        for (next = first + step; next < count && next + step - first <= most; next += step) {
            if (block_at(p, next) != block) {
                break;
            }
        }
        next = next < count ? next : count;
        run_part(p, block, first, next - first);
    }
}

/* Near rows first: which one comes i-th. Returns how many there are. */
static int order_rows(const unsigned char *far, int count, int *ret_order)
{
    int n = 0, near = 0;
    for (int kind = 0; kind < 2; kind++) {
        near = kind == 1 ? n : 0;
        for (int j = 0; j < count; j++) {
            ret_order[n] = j;
            n += far[j] == kind;
        }
    }
    return near;
}

/* a[i] <- a[order[i]]. */
#define REORDER(name, T)                                                                           \
    static void reorder_##name(const int *order, int count, T *a)                                  \
    {                                                                                              \
        T before[TILE_RUN];                                                                        \
        memcpy(before, a, (size_t)count * sizeof *a);                                              \
        for (int i = 0; i < count; i++) {                                                          \
            a[i] = before[order[i]];                                                               \
        }                                                                                          \
    }
REORDER(rows, const void *)
REORDER(f32, float)
REORDER(f64, double)

void oracle__near_first(const struct product *p, int count, struct run_rows *rows, void *weights)
{
    int order[TILE_RUN + 1];
    if (rows->far == NULL) {
        return;
    }
    const int near = order_rows(rows->far, count, order);
    reorder_rows(order, count, rows->z);
    memset(rows->each, 0, (size_t)near);
    memset(rows->each + near, 1, (size_t)(count - near));
    for (int64_t c = 0; c < p->V.cols; c++) {
        if (p->weights == DTYPE_F32) {
            reorder_f32(order, count, (float *)weights + c * TILE_RUN);
        } else {
            reorder_f64(order, count, (double *)weights + c * TILE_RUN);
        }
    }
}

static void run_tile(const struct parts *p)
{
    const struct tile_kernel *k = p->t->kernel;
    if (p->far == NULL || p->t->kept != NULL || !(k->by_inner || k->by_max)) {
        p->run(p->use, p->lanes, p->t);
    } else {
        run_parts(p);
    }
}

void oracle__run(const struct product *p, enum tile_use use, int lanes, const struct tile *t,
                 const unsigned char *far)
{
    const bool f32 = p->weights == DTYPE_F32;
    run_tile(&(struct parts){.o = &p->o,
                             .t = t,
                             .run = f32 ? p->o.loops->run : p->o.loops->run_f64,
                             .use = use,
                             .lanes = lanes,
                             .weight = dtype_size(p->weights),
                             .far = far});
}

void oracle__values(const struct oracle *o, int lanes, const struct tile *t,
                    const unsigned char *far)
{
    run_tile(&(struct parts){
        .o = o, .t = t, .run = o->loops->run, .use = TILE_VALUES, .lanes = lanes, .far = far});
}
