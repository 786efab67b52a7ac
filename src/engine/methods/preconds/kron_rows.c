#include "engine/methods/preconds/kron_rows.h"

#include <string.h>

#include "base/mem.h"

static bool allocate(struct kron_rows *s)
{
    s->place = mem_array((size_t)s->n, sizeof *s->place);
    s->order = mem_array((size_t)s->n, sizeof *s->order);
    s->target = mem_array((size_t)s->n, sizeof *s->target);
    s->first = mem_zarray((size_t)s->n + 2, sizeof *s->first);
    s->count = mem_zarray((size_t)s->places, sizeof *s->count);
    return s->place != NULL && s->order != NULL && s->target != NULL && s->first != NULL &&
           s->count != NULL;
}

/* first[k + 1] counts the rows of round k, then says where it begins, and with them all in their
 * order where it ends. */
static void order_rows(struct kron_rows *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        s->first[s->count[s->place[i]]++ + 2]++;
    }
    for (int64_t k = 2; k < s->n + 2; k++) {
        s->rounds += s->first[k] > 0;
        s->first[k] += s->first[k - 1];
    }
    memset(s->count, 0, (size_t)s->places * sizeof *s->count);
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = s->first[s->count[s->place[i]]++ + 1]++;
        s->order[at] = i;
        s->target[at] = s->place[i];
    }
}

int kron_rows_init(struct kron_rows *s, const struct grid_axes *axes, const struct rows *X,
                   struct err *err)
{
    *s = (struct kron_rows){.n = X->n, .places = axes->places};
    if (!allocate(s)) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < s->n; i++) {
        s->place[i] = grid_axes_place(axes, X, i);
    }
    order_rows(s);
    return 0;
}

static int clear(struct backend *be, double *zeros, const struct mat *X, struct err *err)
{
    return be->ops->col_axpby(be, zeros, X, zeros, X, err);
}

int kron_rows_spread(const struct kron_rows *s, struct backend *be, const double *ones,
                     const struct mat *N, const struct mat *scratch, const struct mat *X,
                     struct err *err)
{
    cleanup_mem double *zeros = mem_zarray((size_t)X->cols, sizeof *zeros);
    int r = zeros != NULL ? clear(be, zeros, X, err) : err_no_memory(err);
    for (int64_t k = 0; r == 0 && k < s->rounds; k++) {
        const int64_t at = s->first[k], count = s->first[k + 1] - at;
        const struct mat part = mat_rows(*scratch, at, count);
        r = be->ops->gather_rows(be, N, s->order + at, &part, err);
        r = r == 0 ? be->ops->add_rows(be, ones, &part, s->target + at, X, err) : r;
    }
    return r;
}

int kron_rows_gather(const struct kron_rows *s, struct backend *be, const struct mat *X,
                     const struct mat *N, struct err *err)
{
    return be->ops->gather_rows(be, X, s->place, N, err);
}

void kron_rows_deinit(struct kron_rows *s)
{
    s->place = mem_free(s->place);
    s->count = mem_free(s->count);
    s->order = mem_free(s->order);
    s->target = mem_free(s->target);
    s->first = mem_free(s->first);
}
