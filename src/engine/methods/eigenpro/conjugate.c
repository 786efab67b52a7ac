#include "engine/methods/eigenpro/conjugate.h"

#include <math.h>

#include "base/mem.h"

enum { SAVED = 2 * CONJUGATE_KEPT + 1 };

struct conjugate {
    struct backend *be;
    int64_t m, t;
    int64_t used;      /* directions that are there, at most CONJUGATE_KEPT */
    int64_t next;      /* the place of the next one */
    struct mat P, HP;  /* m x (CONJUGATE_KEPT t) */
    double *numbers;   /* the owner of what follows; the first SAVED t are saved */
    double *curvature; /* [CONJUGATE_KEPT, t] p' H p; 0: the column has no such direction */
    double *error;     /* [CONJUGATE_KEPT, t] of the columns of HP */
    double *doubt;     /* [t] of G */
    double *proposed;  /* [t] of HD */
    double *dots, *a, *one;
};

struct conjugate *conjugate_free(struct conjugate *c)
{
    if (c != NULL) {
        c->be->ops->mat_free(c->be, &c->P);
        c->be->ops->mat_free(c->be, &c->HP);
        mem_free(c->numbers);
        mem_free(c);
    }
    return NULL;
}

int conjugate_new(struct backend *be, enum dtype dtype, int64_t m, int64_t t,
                  struct conjugate **ret, struct err *err)
{
    struct conjugate *c = mem_zalloc(sizeof(*c));
    if (c == NULL) {
        return err_no_memory(err);
    }
    *c = (struct conjugate){.be = be, .m = m, .t = t};
    c->numbers = mem_zarray((size_t)t, (SAVED + 4) * sizeof(double));
    int r = c->numbers != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        c->curvature = c->numbers;
        c->error = c->curvature + CONJUGATE_KEPT * t;
        c->doubt = c->error + CONJUGATE_KEPT * t;
        c->proposed = c->doubt + t;
        c->dots = c->proposed + t;
        c->a = c->dots + t;
        c->one = c->a + t;
        r = be->ops->mat_new(be, dtype, m, CONJUGATE_KEPT * t, &c->P, err);
    }
    if (r == 0) {
        r = be->ops->mat_new(be, dtype, m, CONJUGATE_KEPT * t, &c->HP, err);
    }
    if (r < 0) {
        conjugate_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void conjugate_forget(struct conjugate *c)
{
    c->used = c->next = 0;
}

void conjugate_refresh(struct conjugate *c, const double *rounding)
{
    for (int64_t j = 0; j < c->t; j++) {
        c->doubt[j] = rounding[j];
    }
}

const double *conjugate_doubt(const struct conjugate *c)
{
    return c->doubt;
}

/* D -= P (p' H d) / (p' H p), HD likewise, for kept direction k. */
static int orthogonalise(struct conjugate *c, int64_t k, const struct mat *D, const struct mat *HD,
                         struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    const struct mat P = mat_cols(c->P, k * c->t, c->t), HP = mat_cols(c->HP, k * c->t, c->t);
    int r = o->col_dots(c->be, &P, HD, c->dots, err);
    for (int64_t j = 0; j < c->t; j++) {
        const double curvature = c->curvature[k * c->t + j];
        c->a[j] = curvature > 0 ? -c->dots[j] / curvature : 0.0;
        c->one[j] = 1.0;
        c->proposed[j] += fabs(c->a[j]) * c->error[k * c->t + j];
    }
    if (r == 0) {
        r = o->col_axpby(c->be, c->a, &P, c->one, D, err);
    }
    return r == 0 ? o->col_axpby(c->be, c->a, &HP, c->one, HD, err) : r;
}

/* D and HD into the place of the oldest direction; its curvature is in dots. */
static int keep(struct conjugate *c, const struct mat *D, const struct mat *HD, struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    const struct mat P = mat_cols(c->P, c->next * c->t, c->t);
    const struct mat HP = mat_cols(c->HP, c->next * c->t, c->t);
    for (int64_t j = 0; j < c->t; j++) {
        c->curvature[c->next * c->t + j] = fmax(c->dots[j], 0.0);
        c->error[c->next * c->t + j] = c->proposed[j];
    }
    c->next = (c->next + 1) % CONJUGATE_KEPT;
    c->used += c->used < CONJUGATE_KEPT;
    const int r = o->copy(c->be, D, &P, err);
    return r == 0 ? o->copy(c->be, HD, &HP, err) : r;
}

/* a <- the lengths, from a = d'G and dots = d'Hd, and what they do to the error of G, of which HD
 * has a share. */
static int find_lengths(struct conjugate *c, const double *rounding, struct err *err)
{
    for (int64_t j = 0; j < c->t; j++) {
        if (!isfinite(c->a[j]) || !isfinite(c->dots[j])) {
            return err_set(err, ERR_DIVERGED, "The iteration produced infinity or NaN.");
        }
        const double length = c->dots[j] > 0 ? -c->a[j] / c->dots[j] : 0.0;
        c->a[j] = isfinite(length) ? length : 0.0;
        c->one[j] = 1.0;
        c->doubt[j] = fabs(1.0 - c->a[j]) * c->doubt[j] + fabs(c->a[j]) * c->proposed[j];
        c->proposed[j] += c->doubt[j] + rounding[j];
    }
    return 0;
}

int conjugate_step(struct conjugate *c, const struct mat *D, const struct mat *HD,
                   const double *rounding, const struct mat *B, const struct mat *G,
                   struct err *err)
{
    const struct backend_ops *o = c->be->ops;
    int r = 0;
    for (int64_t j = 0; j < c->t; j++) {
        c->proposed[j] = rounding[j];
    }
    for (int64_t k = 0; r == 0 && k < c->used; k++) {
        r = orthogonalise(c, k, D, HD, err);
    }
    if (r == 0) {
        r = o->col_dots(c->be, D, G, c->a, err);
    }
    if (r == 0) {
        r = o->col_dots(c->be, D, HD, c->dots, err);
    }
    if (r == 0) {
        r = find_lengths(c, rounding, err);
    }
    if (r == 0) {
        r = o->col_axpby(c->be, c->a, D, c->one, B, err);
    }
    if (r == 0) {
        r = o->col_axpby(c->be, c->a, HD, c->one, G, err);
    }
    return r == 0 ? keep(c, D, HD, err) : r;
}

int conjugate_save(const struct conjugate *c, struct state *to, struct err *err)
{
    const int64_t count = SAVED * c->t;
    cleanup_mem double *numbers = mem_array((size_t)(count + 2), sizeof(double));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = c->numbers[i];
    }
    numbers[count] = (double)c->used;
    numbers[count + 1] = (double)c->next;
    int r = state_put_reals(to, "conjugacy", numbers, count + 2, err);
    r = r == 0 ? state_put_mat(to, "directions", c->be, &c->P, err) : r;
    return r == 0 ? state_put_mat(to, "products", c->be, &c->HP, err) : r;
}

static bool is_count(double value, double most)
{
    return value >= 0 && value <= most && value == floor(value);
}

int conjugate_load(struct conjugate *c, const struct state *from, struct err *err)
{
    const int64_t count = SAVED * c->t;
    cleanup_mem double *numbers = mem_array((size_t)(count + 2), sizeof(double));
    int r = numbers != NULL ? state_get_reals(from, "conjugacy", numbers, count + 2, err)
                            : err_no_memory(err);
    if (r == 0 && !(is_count(numbers[count], CONJUGATE_KEPT) &&
                    is_count(numbers[count + 1], CONJUGATE_KEPT - 1))) {
        r = err_set(err, ERR_CORRUPT, "The saved directions are out of range.");
    }
    r = r == 0 ? state_get_mat(from, "directions", c->be, &c->P, err) : r;
    r = r == 0 ? state_get_mat(from, "products", c->be, &c->HP, err) : r;
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < count; i++) {
        c->numbers[i] = numbers[i];
    }
    c->used = (int64_t)numbers[count];
    c->next = (int64_t)numbers[count + 1];
    return 0;
}
