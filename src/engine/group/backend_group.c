#include "engine/group/backend_group.h"

#include <string.h>

#include "base/mem.h"
#include "engine/group/group.h"

/* ---- the lead's alone ---- */

static int group_mat_new(struct backend *be, enum dtype dtype, int64_t rows, int64_t cols,
                         struct mat *ret, struct err *err)
{
    return group_done(be,
                      group_lead(be)->ops->mat_new(group_lead(be), dtype, rows, cols, ret, err));
}

static void group_mat_free(struct backend *be, struct mat *m)
{
    group_lead(be)->ops->mat_free(group_lead(be), m);
    group_done(be, 0);
}

static int group_mat_put(struct backend *be, const double *src, int64_t ld, const struct mat *dst,
                         struct err *err)
{
    return group_lead(be)->ops->mat_put(group_lead(be), src, ld, dst, err);
}

static int group_mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                         struct err *err)
{
    return group_lead(be)->ops->mat_get(group_lead(be), src, dst, ld, err);
}

static int group_copy(struct backend *be, const struct mat *src, const struct mat *dst,
                      struct err *err)
{
    return group_lead(be)->ops->copy(group_lead(be), src, dst, err);
}

static int group_col_dots(struct backend *be, const struct mat *A, const struct mat *B, double *ret,
                          struct err *err)
{
    return group_lead(be)->ops->col_dots(group_lead(be), A, B, ret, err);
}

static int group_col_axpby(struct backend *be, const double *a, const struct mat *X,
                           const double *b, const struct mat *Y, struct err *err)
{
    return group_lead(be)->ops->col_axpby(group_lead(be), a, X, b, Y, err);
}

static int group_gather_rows(struct backend *be, const struct mat *A, const int64_t *index,
                             const struct mat *B, struct err *err)
{
    return group_lead(be)->ops->gather_rows(group_lead(be), A, index, B, err);
}

static int group_add_rows(struct backend *be, const double *a, const struct mat *A,
                          const int64_t *index, const struct mat *B, struct err *err)
{
    return group_lead(be)->ops->add_rows(group_lead(be), a, A, index, B, err);
}

static int group_deflate_diag(struct backend *be, const struct mat *F, const struct mat *d,
                              struct err *err)
{
    return group_lead(be)->ops->deflate_diag(group_lead(be), F, d, err);
}

static int group_add_diag(struct backend *be, double value, const struct mat *A, struct err *err)
{
    return group_lead(be)->ops->add_diag(group_lead(be), value, A, err);
}

static int group_scale_rows(struct backend *be, const double *factors, const struct mat *A,
                            struct err *err)
{
    return group_lead(be)->ops->scale_rows(group_lead(be), factors, A, err);
}

static int group_clear_upper(struct backend *be, const struct mat *A, struct err *err)
{
    return group_lead(be)->ops->clear_upper(group_lead(be), A, err);
}

static int group_gemm(struct backend *be, bool ta, bool tb, double a, const struct mat *A,
                      const struct mat *B, double b, const struct mat *C, struct err *err)
{
    return group_lead(be)->ops->gemm(group_lead(be), ta, tb, a, A, B, b, C, err);
}

static int group_syrk(struct backend *be, bool ta, double a, const struct mat *A, double b,
                      const struct mat *C, struct err *err)
{
    return group_lead(be)->ops->syrk(group_lead(be), ta, a, A, b, C, err);
}

static int group_trsm(struct backend *be, bool right, bool tl, const struct mat *L,
                      const struct mat *B, struct err *err)
{
    return group_lead(be)->ops->trsm(group_lead(be), right, tl, L, B, err);
}

static int group_potrf(struct backend *be, const struct mat *A, double min_pivot,
                       int64_t *ret_column, struct err *err)
{
    return group_lead(be)->ops->potrf(group_lead(be), A, min_pivot, ret_column, err);
}

static int group_eigh(struct backend *be, const struct mat *A, double *ret_values, struct err *err)
{
    return group_lead(be)->ops->eigh(group_lead(be), A, ret_values, err);
}

/* Every device has the points, and room for its share of vectors: the least room counts. */
static int64_t group_memory_available(struct backend *be)
{
    const struct group *g = group_of(be);
    int64_t least = INT64_MAX;
    for (int i = 0; i < g->count; i++) {
        g->members[i]->memory_limit = be->memory_limit;
        const int64_t room = g->members[i]->ops->memory_available(g->members[i]);
        least = room < least ? room : least;
    }
    return least;
}

/* ---- points ---- */

static void group_points_free(struct backend *be, struct points *p)
{
    const struct group *g = group_of(be);
    for (int i = 0; p != NULL && i < g->count; i++) {
        g->members[i]->ops->points_free(g->members[i], p->on[i]);
    }
    mem_free(p);
    group_done(be, 0);
}

static int group_points_new(struct backend *be, const struct kernel *k, enum dtype dtype,
                            const struct rows *X, struct points **ret, struct err *err)
{
    const struct group *g = group_of(be);
    struct points *p = mem_zalloc(sizeof(*p));
    if (p == NULL) {
        return err_no_memory(err);
    }
    p->n = X->n;
    int rc = 0;
    for (int i = 0; rc == 0 && i < g->count; i++) {
        rc = g->members[i]->ops->points_new(g->members[i], k, dtype, X, &p->on[i], err);
    }
    if (rc < 0) {
        group_points_free(be, p);
        return rc;
    }
    *ret = p;
    return group_done(be, 0);
}

static int keep_share(struct backend *be, struct points *p, int i, int64_t bytes,
                      enum kernel_storage storage, int64_t *ret_bytes, struct err *err)
{
    struct backend *member = group_of(be)->members[i];
    member->stop = be->stop;
    member->stop_context = be->stop_context;
    const int rc = member->ops->points_cache_share(member, p->on[i], i, group_of(be)->count, bytes,
                                                   storage, ret_bytes, err);
    member->stop = NULL;
    return rc;
}

/* Every device its share, of so many bytes at most; the lead's count. */
static int group_points_cache(struct backend *be, struct points *p, int64_t bytes,
                              enum kernel_storage storage, int64_t *ret_bytes, struct err *err)
{
    const int count = group_of(be)->count;
    int64_t kept = 0, none;
    int rc = 0;
    for (int i = count - 1; rc == 0 && i >= 0; i--) {
        rc = keep_share(be, p, i, bytes, storage, &kept, err);
    }
    for (int i = 0; rc < 0 && i < count; i++) {
        (void)keep_share(be, p, i, 0, KERNEL_STORE_EXACT, &none, NULL);
    }
    *ret_bytes = rc < 0 ? 0 : kept;
    return group_done(be, rc);
}

static int group_kblock(struct backend *be, struct view P, struct view Q, const struct mat *K,
                        struct err *err)
{
    return group_done(be, group_lead(be)->ops->kblock(group_lead(be), group_view(&P, 0),
                                                      group_view(&Q, 0), K, err));
}

static int group_kdiag(struct backend *be, struct view P, const struct mat *d, struct err *err)
{
    return group_lead(be)->ops->kdiag(group_lead(be), group_view(&P, 0), d, err);
}

/* ---- open and close ---- */

static void group_close(struct backend *be)
{
    struct group *g = group_of(be);
    for (int i = 0; i < g->count; i++) {
        backend_close(g->members[i]);
    }
    mem_free(g);
}

static const struct backend_ops group_ops = {
    .close = group_close,
    .mat_new = group_mat_new,
    .mat_free = group_mat_free,
    .mat_put = group_mat_put,
    .mat_get = group_mat_get,
    .copy = group_copy,
    .col_dots = group_col_dots,
    .col_axpby = group_col_axpby,
    .gather_rows = group_gather_rows,
    .add_rows = group_add_rows,
    .deflate_diag = group_deflate_diag,
    .add_diag = group_add_diag,
    .scale_rows = group_scale_rows,
    .clear_upper = group_clear_upper,
    .gemm = group_gemm,
    .syrk = group_syrk,
    .trsm = group_trsm,
    .potrf = group_potrf,
    .eigh = group_eigh,
    .points_new = group_points_new,
    .points_free = group_points_free,
    .kmv = group__kmv,
    .kblock = group_kblock,
    .kdiag = group_kdiag,
    .points_cache = group_points_cache,
    .kmtkv = group__kmtkv,
    .ksketch = group__ksketch,
    .memory_available = group_memory_available,
};

int backend_group_new(struct backend *const *members, int count, int64_t least_values,
                      struct backend **ret, struct err *err)
{
    struct group *g = mem_zalloc(sizeof(*g));
    if (g == NULL) {
        return err_no_memory(err);
    }
    g->base = *members[0];
    g->ops = group_ops;
    g->ops.name = members[0]->ops->name;
    bool alike = true;
    for (int i = 0; i < count; i++) {
        g->members[i] = members[i];
        alike = alike && members[i]->arithmetic == members[0]->arithmetic;
        if (g->base.notice[0] == '\0') {
            memcpy(g->base.notice, members[i]->notice, sizeof g->base.notice);
        }
        if (members[i]->ops->memory_available == NULL) {
            g->ops.memory_available = NULL;
        }
        if (members[i]->ops->kmv_share == NULL || members[i]->ops->points_cache_share == NULL) {
            g->ops.points_cache = NULL;
        }
    }
    for (int i = 0; i < count; i++) {
        members[i]->alike = alike;
    }
    g->base.ops = &g->ops;
    g->count = count;
    g->least_values = least_values;
    *ret = &g->base;
    return 0;
}
