/*
 * Kernel values kept in device memory (launch_kept of launch.h): as many pairs of blocks as fit,
 * whole, in slots of one size, spread evenly over the product or a share of it. They are computed
 * in pieces, and between these somebody may stop it.
 */
#include "gpu/cuda.h"

#define PIECE_BYTES ((int64_t)32 << 20) /* at least, between two looks whether to stop */
#define PIECES 64                       /* about so many where there is more: a look is a wait */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t slot_bytes(const struct points *p, const struct cuda_blocks *b,
                          enum kernel_storage storage)
{
    const size_t value = storage == KERNEL_STORE_HALF ? sizeof(uint16_t) : dtype_size(p->dtype);
    return b->rows * b->rows * (int64_t)value;
}

/* What `bytes` can hold of a share's pairs; the memory is not there yet. */
static struct launch_kept choose(const struct points *p, const struct cuda_blocks *b, int part,
                                 int parts, int64_t bytes, enum kernel_storage storage)
{
    const int64_t last = b->count * (b->count + 1) / 2;
    const int64_t first = cuda__share_begin(b, part, parts) * b->count;
    const int64_t end = least(cuda__share_begin(b, part + 1, parts) * b->count, last);
    return (struct launch_kept){.first_pair = first,
                                .pairs = end - first,
                                .slots = least(end - first, bytes / slot_bytes(p, b, storage)),
                                .half = storage == KERNEL_STORE_HALF};
}

static int64_t kept_bytes(const struct points *p)
{
    const struct cuda_blocks b = cuda__blocks(p, p->n);
    return p->kept.slots * slot_bytes(p, &b, p->kept.half ? KERNEL_STORE_HALF : KERNEL_STORE_EXACT);
}

void cuda__cache_free(struct backend *be, struct points *p)
{
    if (p->kept.slots > 0) {
        cuda__account(be, -kept_bytes(p));
        cuda__release(p->kept.values);
        p->kept = (struct launch_kept){.slots = 0};
    }
}

/* Which of the z rows' tiles are near enough for which way, in the workspace (launch_weights). */
static int find_reaches(struct cuda_backend *cu, const struct launch_both *both, struct err *err)
{
    const struct launch_tiles *t = &both->tiles;
    const struct launch_weights weights = {.dtype = t->dtype,
                                           .group = t->kernel.group,
                                           .d = t->d,
                                           .ld = t->ld,
                                           .Q = t->Q,
                                           .V = {.dtype = DTYPE_F64, .rows = t->Q.count},
                                           .type = DTYPE_F64,
                                           .norms = t->kernel.inner > 0,
                                           .reach = cu->work.data};
    return cuda__status(launch_weights(cu->stream, &weights), "look at points", err);
}

static int fill_slots(struct cuda_backend *cu, const struct launch_both *both, int64_t piece,
                      struct err *err)
{
    struct backend *be = &cu->base;
    int rc = 0;
    for (int64_t first = 0; rc == 0 && first < both->kept.slots; first += piece) {
        rc = be->stop != NULL ? be->stop(be->stop_context, err) : 0;
        if (rc == 0) {
            const int64_t count = least(piece, both->kept.slots - first);
            rc = cuda__status(launch_keep(cu->stream, both, first, count), "compute kernel values",
                              err);
        }
        rc = rc == 0 ? cuda__wait(cu, err) : rc;
    }
    return rc;
}

static int fill(struct cuda_backend *cu, const struct points *p, const struct cuda_blocks *b,
                struct err *err)
{
    const struct view all = view_all(p, p->n);
    struct launch_both both = {
        .tiles = cuda__tiles(p), .rows = b->rows, .blocks = b->count, .kept = p->kept};
    struct cuda_view view;
    int rc = cuda__view_open(cu, &all, 0, &view, err);
    rc = rc == 0 ? cuda__view_part(cu, &view, 0, p->n, &both.tiles.P, err) : rc;
    rc = rc == 0 ? cuda__reserve(&cu->work, b->reaches, err) : rc;
    both.tiles.Q = both.tiles.P;
    both.reach = cu->work.data;
    rc = rc == 0 ? find_reaches(cu, &both, err) : rc;
    const int64_t bytes = kept_bytes(p), piece = bytes / PIECES;
    const int64_t slots = (piece > PIECE_BYTES ? piece : PIECE_BYTES) / (bytes / p->kept.slots);
    rc = rc == 0 ? fill_slots(cu, &both, slots > 1 ? slots : 1, err) : rc;
    cuda__views_close(cu);
    return rc;
}

static int keep(struct cuda_backend *cu, struct points *p, const struct cuda_blocks *b,
                const struct launch_kept *kept, struct err *err)
{
    p->kept = *kept;
    int rc = cuda__alloc((size_t)kept_bytes(p), &p->kept.values, err);
    if (rc < 0) {
        p->kept.slots = 0;
        return rc;
    }
    cuda__account(&cu->base, kept_bytes(p));
    rc = fill(cu, p, b, err);
    if (rc < 0) {
        cuda__cache_free(&cu->base, p);
    }
    return rc;
}

/* Whether products of all the points go by pairs of blocks, of one column of either type. */
static bool by_blocks(const struct points *p)
{
    const struct cuda_view all = {.view = view_all(p, p->n)};
    return cuda__both_pays(&all, DTYPE_F64, 1);
}

int cuda__points_cache_share(struct backend *be, struct points *p, int part, int parts,
                             int64_t bytes, enum kernel_storage storage, int64_t *ret_bytes,
                             struct err *err)
{
    struct cuda_backend *cu = cuda_of(be);
    *ret_bytes = 0;
    int rc = cuda__begin(be, part >= 0 && part < parts, "points_cache", err);
    if (rc < 0 || (rc = kernel_check_storage(p->id, storage, err)) < 0) {
        return rc;
    }
    cuda__cache_free(be, p);
    if (bytes <= 0 || !by_blocks(p)) {
        return 0;
    }
    const struct cuda_blocks b = cuda__blocks(p, p->n);
    const struct launch_kept kept = choose(p, &b, part, parts, bytes, storage);
    rc = kept.slots > 0 ? keep(cu, p, &b, &kept, err) : 0;
    *ret_bytes = p->kept.slots > 0 ? kept_bytes(p) : 0;
    return rc == -ERR_NO_MEMORY ? 0 : rc;
}

int cuda__points_cache(struct backend *be, struct points *p, int64_t bytes,
                       enum kernel_storage storage, int64_t *ret_bytes, struct err *err)
{
    return cuda__points_cache_share(be, p, 0, 1, bytes, storage, ret_bytes, err);
}
