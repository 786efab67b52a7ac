/*
 * Members of views, as the tiles want them. A range of points that begins with a tile lies in
 * panels already; other members are copied to some, a bounded number at a time.
 */
#include "gpu/cuda.h"

#define COPY_BYTES ((int64_t)16 << 20) /* of each side's members, or LAUNCH_TILE of them */

bool cuda__view_valid(const struct view *v)
{
    return view_within(v, v->points->n);
}

bool cuda__views_fit(const struct view *P, const struct view *Q)
{
    const struct points *p = P->points, *q = Q->points;
    return p->d == q->d && p->dtype == q->dtype && p->kernel.form == q->kernel.form &&
           p->kernel.function == q->kernel.function && p->kernel.group == q->kernel.group &&
           cuda__view_valid(P) && cuda__view_valid(Q);
}

static bool in_panels(const struct view *v)
{
    return v->index == NULL && v->first % LAUNCH_TILE == 0;
}

int cuda__view_open(struct cuda_backend *cu, const struct view *v, int side, struct cuda_view *ret,
                    struct err *err)
{
    struct cuda_buffer *list = &cu->lists[side];
    const size_t bytes = (size_t)v->count * sizeof *v->index;
    *ret = (struct cuda_view){.view = *v, .side = side};
    if (v->index == NULL || v->count == 0) {
        return 0;
    }
    int rc = cuda__reserve(list, bytes, err);
    if (rc == 0) {
        rc = cuda__upload(cu, list->data, v->index, bytes, err);
    }
    ret->index = list->data;
    return rc;
}

int64_t cuda__view_step(const struct cuda_view *v)
{
    const struct points *p = v->view.points;
    /* Whether there are any is the device's; how far a step goes must not be (kmv_share). */
    const bool may = p->dtype == DTYPE_F32 && p->kernel.inner > 0;
    const int64_t parts = may ? launch_parts_bytes(p->d) / LAUNCH_PANEL : 0;
    const int64_t row = p->ld * (int64_t)dtype_size(p->dtype) + parts;
    if (in_panels(&v->view) || row == 0) {
        return (v->view.count / LAUNCH_TILE + 1) * LAUNCH_TILE;
    }
    const int64_t rows = COPY_BYTES / row / LAUNCH_TILE * LAUNCH_TILE;
    return rows > LAUNCH_TILE ? rows : LAUNCH_TILE;
}

int64_t cuda__view_wave(const struct cuda_view *v, int64_t chunk, int64_t most)
{
    const int64_t step = cuda__view_step(v), members = step < most ? step : most;
    const bool all = members >= v->view.count;
    const int64_t chunks = (all ? v->view.count + chunk - 1 : members) / chunk;
    return (chunks > 1 ? chunks : 1) * chunk;
}

/* The parts of what lies in this side's panels. */
static int split_panels(struct cuda_backend *cu, const struct cuda_view *v, int64_t rows,
                        struct launch_view *ret, struct err *err)
{
    const struct points *p = v->view.points;
    struct cuda_buffer *parts = &cu->parts[v->side];
    const int64_t bytes = rows / LAUNCH_PANEL * launch_parts_bytes(p->d);
    const int rc = cuda__reserve(parts, (size_t)bytes, err);
    ret->parts = parts->data;
    return rc < 0 ? rc : cuda__make_parts(cu, p, rows, ret->data, parts->data, err);
}

int cuda__view_part(struct cuda_backend *cu, const struct cuda_view *v, int64_t first,
                    int64_t count, struct launch_view *ret, struct err *err)
{
    const struct points *p = v->view.points;
    struct cuda_buffer *panels = &cu->panels[v->side];
    if (in_panels(&v->view)) {
        *ret = (struct launch_view){.data = p->data,
                                    .parts = p->parts,
                                    .panel = (v->view.first + first) / LAUNCH_PANEL,
                                    .count = count};
        return 0;
    }
    int rc = cuda__reserve(panels, cuda__panel_bytes(count, p->ld, p->dtype), err);
    if (rc < 0) {
        return rc;
    }
    const struct gather_panels gather = {.from = p->data,
                                         .to = panels->data,
                                         .dtype = p->dtype,
                                         .ld = p->ld,
                                         .index = v->index != NULL ? v->index + first : NULL,
                                         .first = v->view.first + first,
                                         .count = count};
    *ret = (struct launch_view){.data = panels->data, .panel = 0, .count = count};
    rc = cuda__status(launch_gather_panels(cu->stream, &gather), "gather points", err);
    return rc == 0 && p->kernel.group ? split_panels(cu, v, cuda__padded(count), ret, err) : rc;
}

struct launch_tiles cuda__tiles(const struct points *p)
{
    return (struct launch_tiles){.kernel = p->kernel, .dtype = p->dtype, .d = p->d, .ld = p->ld};
}

void cuda__views_close(struct cuda_backend *cu)
{
    cuda__trim(&cu->panels[0]);
    cuda__trim(&cu->panels[1]);
    cuda__trim(&cu->parts[0]);
    cuda__trim(&cu->parts[1]);
    cuda__trim(&cu->work);
}
