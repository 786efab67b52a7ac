#include "engine/methods/eigenpro/eigenpro2.h"

#include <math.h>

/* How much the squares of an epoch's residuals may exceed those of the best one. */
static const double growth = 4.0;

/* The places of the batch that are in S to its front; returns how many. */
static int64_t partition(int64_t *places, int64_t b, int64_t s)
{
    int64_t front = 0;
    for (int64_t i = 0; i < b; i++) {
        if (places[i] < s) {
            const int64_t place = places[i];
            places[i] = places[front];
            places[front++] = place;
        }
    }
    return front;
}

/* seen += |Y_B|^2, G = ridge A_B - Y_B. */
static int begin_residual(struct solver *s, const int64_t *places, const struct mat *G,
                          const struct mat *AB, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    int r = o->gather_rows(p->be, &p->Y, s->rows, G, err);
    if (r == 0) {
        r = o->col_dots(p->be, G, G, s->dots, err);
    }
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        s->seen[j] += s->dots[j];
    }
    if (r == 0) {
        r = o->gather_rows(p->be, &s->A, places, AB, err);
    }
    eigenpro2__fill(s->work, p->ridge, p->t);
    eigenpro2__fill(s->dots, -1.0, p->t);
    return r == 0 ? o->col_axpby(p->be, s->work, AB, s->dots, G, err) : r;
}

/* G += K(B,S) A_S + K(B, rest) A_rest; K(B,S) stays in KBS. */
static int add_predictions(struct solver *s, const struct mat *KBS, const struct mat *G,
                           struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct view B = view_index(p->X, s->rows, G->rows);
    const struct mat A_S = mat_rows(s->A, 0, s->s), rest = mat_rows(s->A, s->s, p->n - s->s);
    int r = o->kblock(p->be, B, view_index(p->X, s->order, s->s), KBS, err);
    if (r == 0) {
        r = o->gemm(p->be, false, false, 1.0, KBS, &A_S, 1.0, G, err);
    }
    if (r == 0 && rest.rows > 0) {
        r = o->kmv(p->be, B, view_index(p->X, s->order + s->s, rest.rows), 1.0, &rest, 1.0, G, err);
    }
    return r;
}

/* A_B -= step G, A_S += step W W' M(S,B) G; the first `shared` rows of B are in S. */
static int descend(struct solver *s, const int64_t *places, int64_t shared, const struct mat *KBS,
                   const struct mat *G, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const double step = ldexp(s->step, -(int)s->at.halvings);
    const struct mat W = eigenpro_weights(s->pre), A_S = mat_rows(s->A, 0, s->s);
    eigenpro2__fill(s->work, -step, p->t);
    int r = o->add_rows(p->be, s->work, G, places, &s->A, err);
    if (r < 0 || eigenpro_rank(s->pre) == 0) {
        return r;
    }
    r = o->gemm(p->be, true, false, 1.0, KBS, G, 0.0, &s->H, err);
    if (r == 0 && shared > 0 && p->ridge > 0) {
        const struct mat G_S = mat_rows(*G, 0, shared);
        eigenpro2__fill(s->work, p->ridge, p->t);
        r = o->add_rows(p->be, s->work, &G_S, places, &s->H, err);
    }
    if (r == 0) {
        r = o->gemm(p->be, true, false, 1.0, &W, &s->H, 0.0, &s->T, err);
    }
    return r == 0 ? o->gemm(p->be, false, false, step, &W, &s->T, 1.0, &A_S, err) : r;
}

/* sum += |G|^2; whether the epoch has grown beyond the best. */
static int sum_up(struct solver *s, const struct mat *G, bool *ret_grown, struct err *err)
{
    const struct problem *p = &s->p;
    const int r = p->be->ops->col_dots(p->be, G, G, s->dots, err);
    bool grown = false;
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        s->sum[j] += s->dots[j];
        const double allowed = growth * s->best[j] + s->rounding[j] * s->rounding[j];
        grown = grown || !(s->sum[j] <= allowed);
    }
    *ret_grown = grown;
    return r;
}

int eigenpro2__batch(struct solver *s, bool *ret_grown, struct err *err)
{
    const int64_t b = eigenpro2__min(s->batch, s->p.n - s->at.next);
    int64_t *places = s->epoch + s->at.next;
    const int64_t shared = partition(places, b, s->s);
    for (int64_t i = 0; i < b; i++) {
        s->rows[i] = s->order[places[i]];
    }
    const struct mat KBS = mat_rows(s->KBS, 0, b), G = mat_rows(s->G, 0, b);
    const struct mat AB = mat_rows(s->AB, 0, b);
    int r = begin_residual(s, places, &G, &AB, err);
    if (r == 0) {
        r = add_predictions(s, &KBS, &G, err);
    }
    if (r == 0) {
        r = sum_up(s, &G, ret_grown, err);
    }
    if (r < 0 || *ret_grown) {
        return r;
    }
    s->at.next += b;
    return descend(s, places, shared, &KBS, &G, err);
}

/* R = Y - M A on those rows. */
int eigenpro2__check_rows(struct solver *s, int64_t first, int64_t count, struct err *err)
{
    const struct problem *p = &s->p;
    const struct backend_ops *o = p->be->ops;
    const struct mat R = mat_rows(s->R, 0, count), A_R = mat_rows(s->A, first, count);
    const struct view rows = view_index(p->X, s->order + first, count);
    int r = o->gather_rows(p->be, &p->Y, rows.index, &R, err);
    eigenpro2__fill(s->work, -p->ridge, p->t);
    eigenpro2__fill(s->dots, 1.0, p->t);
    if (r == 0) {
        r = o->col_axpby(p->be, s->work, &A_R, s->dots, &R, err);
    }
    if (r == 0) {
        r = o->kmv(p->be, rows, view_index(p->X, s->order, p->n), -1.0, &s->A, 1.0, &R, err);
    }
    if (r == 0) {
        r = o->col_dots(p->be, &R, &R, s->dots, err);
    }
    for (int64_t j = 0; r == 0 && j < p->t; j++) {
        s->truth[j] += s->dots[j];
    }
    return r;
}
