#include "engine/methods/centers/nearest.h"

#include <float.h>

#include "base/mem.h"

int nearest_init(struct nearest *w, struct backend *be, enum dtype dtype, int64_t d,
                 struct err *err)
{
    *w = (struct nearest){.be = be, .dtype = dtype};
    w->kernel = (struct kernel){.id = KERNEL_LINEAR, .d = d, .bandwidth = 1.0, .gamma = 1.0};
    w->host = mem_array(NEAREST_BLOCK, NEAREST_BLOCK * sizeof(double));
    if (w->host == NULL) {
        return err_no_memory(err);
    }
    return be->ops->mat_new(be, dtype, NEAREST_BLOCK, NEAREST_BLOCK, &w->block, err);
}

void nearest_deinit(struct nearest *w)
{
    if (w->be != NULL) {
        w->be->ops->mat_free(w->be, &w->block);
        mem_free(w->host);
        *w = (struct nearest){.be = NULL};
    }
}

int nearest_points(struct nearest *w, const void *X, int64_t n, struct points **ret,
                   double *ret_norms, struct err *err)
{
    const struct rows rows = {.dtype = w->dtype, .n = n, .d = w->kernel.d, .data = X};
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < rows.d; j++) {
            sum += rows_at(&rows, i, j) * rows_at(&rows, i, j);
        }
        ret_norms[i] = sum;
    }
    return w->be->ops->points_new(w->be, &w->kernel, w->dtype, &rows, ret, err);
}

double nearest_distance(const struct nearest *w, double p_norm, double q_norm, double product)
{
    const double eps = w->dtype == DTYPE_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const double sum = p_norm + q_norm, distance = sum - 2.0 * product;
    return distance > 4.0 * eps * sum ? distance : 0.0;
}

/* Members first .. first+count-1 of a view. */
static struct view part(struct view v, int64_t first, int64_t count)
{
    if (v.index != NULL) {
        v.index += first;
    } else {
        v.first += first;
    }
    v.count = count;
    return v;
}

static int64_t block_at(int64_t first, int64_t count)
{
    return count - first < NEAREST_BLOCK ? count - first : NEAREST_BLOCK;
}

/* Rows i.. against centers j.., one block. */
static int update_block(struct nearest *w, struct view P, const double *p_norms, struct view Q,
                        const double *q_norms, int64_t base, double *distance, int64_t *which,
                        struct err *err)
{
    const struct mat block = mat_cols(mat_rows(w->block, 0, P.count), 0, Q.count);
    int rc = w->be->ops->kblock(w->be, P, Q, &block, err);
    if (rc == 0) {
        rc = w->be->ops->mat_get(w->be, &block, w->host, P.count, err);
    }
    for (int64_t j = 0; rc == 0 && j < Q.count; j++) {
        const double *products = w->host + j * P.count;
        for (int64_t i = 0; i < P.count; i++) {
            const double now = nearest_distance(w, p_norms[i], q_norms[j], products[i]);
            if (now < distance[i]) {
                distance[i] = now;
                if (which != NULL) {
                    which[i] = base + j;
                }
            }
        }
    }
    return rc;
}

int nearest_update(struct nearest *w, struct view P, const double *p_norms, struct view Q,
                   const double *q_norms, double *distance, int64_t *which, struct err *err)
{
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < P.count; i += NEAREST_BLOCK) {
        for (int64_t j = 0; rc == 0 && j < Q.count; j += NEAREST_BLOCK) {
            rc = update_block(w, part(P, i, block_at(i, P.count)), p_norms + i,
                              part(Q, j, block_at(j, Q.count)), q_norms + j, j, distance + i,
                              which != NULL ? which + i : NULL, err);
        }
    }
    return rc;
}
