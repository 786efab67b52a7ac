#include "engine/methods/stochastic/stochastic_race.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/methods/row_order.h"
#include "engine/normal.h"
#include "engine/products.h"

enum stage {
    STAGE_SKETCH, /* P without its damping */
    STAGE_SAMPLE, /* the rows of the race */
    STAGE_DAMP,   /* a candidate's P */
    STAGE_POWER,  /* its smoothness */
    STAGE_BEGIN,  /* its race */
    STAGE_RACE,
    STAGE_SCORE,
    STAGE_SETTLE /* the winner's P */
};

/* Candidates come as its powers. */
static const double decade = 10.0;

void race_deinit(struct stochastic *s)
{
    struct mat *const all[] = {&s->W, &s->mean, &s->first_mean, &s->table};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        s->p.be->ops->mat_free(s->p.be, all[i]);
        *all[i] = (struct mat){0};
    }
}

/* ---- the sample ---- */

/* Fewer where they are all rows: a batch is to have as many rows as those that steps take. */
static int64_t parts(const struct stochastic *s)
{
    const int64_t full = (s->sample.count + s->batches.most - 1) / s->batches.most;
    return full < RACE_BATCHES ? full : RACE_BATCHES;
}

/* Batch k of the sample: batches differ by one row at most. */
static int64_t first_row(const struct stochastic *s, int64_t k)
{
    return k * s->sample.count / parts(s);
}

static int64_t batch_rows(const struct stochastic *s, int64_t k)
{
    return first_row(s, k + 1) - first_row(s, k);
}

static struct view batch_view(const struct stochastic *s, int64_t k)
{
    return view_range(s->sample.rows.points, s->sample.rows.first + first_row(s, k),
                      batch_rows(s, k));
}

static int load_sample(struct stochastic *s, struct err *err)
{
    const int64_t n = s->p.n, wanted = RACE_BATCHES * s->batches.most;
    const int64_t count = wanted < n ? wanted : n;
    const struct row_order order = row_order_new(s->p.seed, ORDER_RACE, 0, n);
    cleanup_mem int64_t *index = mem_array((size_t)count, sizeof(*index));
    if (index == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < count; i++) {
        index[i] = row_order_at(&order, i);
    }
    return rowset_batch(s->p.restricted->rows, index, count, &s->sample, err);
}

/* What the race itself needs: the table is -Y at W = 0. */
static int prepare(struct stochastic *s, struct err *err)
{
    struct backend *be = s->p.be;
    const struct backend_ops *o = be->ops;
    const int64_t m = s->p.restricted->m, t = s->p.t, rows = s->sample.count;
    struct mat *const narrow[] = {&s->W, &s->mean, &s->first_mean};
    int rc = o->mat_new(be, s->p.dtype, rows, t, &s->table, err);
    for (int i = 0; rc == 0 && i < 3; i++) {
        rc = o->mat_new(be, s->p.dtype, m, t, narrow[i], err);
    }
    if (rc == 0) { /* W = 0 */
        rc = product_normal(be, s->sample.rows, view_all(s->p.restricted->Z, m), NULL, &s->W,
                            &s->sample.Y, false, &s->first_mean, err);
    }
    const double weight = (double)s->p.n / (double)rows;
    return rc == 0 ? stochastic_add(s, weight, &s->first_mean, 0.0, &s->first_mean, err) : rc;
}

/* ---- the smoothness of a batch ---- */

static int fill_normal(struct stochastic *s, const struct mat *x, struct err *err)
{
    struct rng rng = rng_new(s->p.seed, RNG_POWER);
    cleanup_mem double *numbers = mem_array((size_t)x->rows, sizeof(double));
    if (numbers == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < x->rows; i++) {
        numbers[i] = rng_normal(&rng);
    }
    return s->p.be->ops->mat_put(s->p.be, numbers, x->rows, x, err);
}

/* u = H_b v. */
static int multiply(struct stochastic *s, struct view P, struct err *err)
{
    const struct restricted *r = s->p.restricted;
    const double share = (double)s->p.n / (double)P.count, zero = 0;
    int rc = product_normal(s->p.be, P, view_all(r->Z, r->m), NULL, &s->v, NULL, false, &s->u, err);
    rc = rc == 0 ? s->p.be->ops->col_axpby(s->p.be, &share, &s->u, &zero, &s->u, err) : rc;
    return rc == 0 ? normal_add_core(r, s->p.be, s->p.ridge, &s->v, &s->u, err) : rc;
}

/* v = P^-1 x, both scaled so that v'x = v'P v = 1. */
static int precondition(struct stochastic *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    double squared = 0;
    int rc = o->copy(s->p.be, &s->x, &s->v, err);
    rc = rc == 0 ? hessian_sketch_apply(&s->P, &s->v, err) : rc;
    rc = rc == 0 ? o->col_dots(s->p.be, &s->x, &s->v, &squared, err) : rc;
    const double scale = squared > 0 && isfinite(squared) ? 1.0 / sqrt(squared) : 0.0, zero = 0;
    rc = rc == 0 ? o->col_axpby(s->p.be, &scale, &s->x, &zero, &s->x, err) : rc;
    return rc == 0 ? o->col_axpby(s->p.be, &scale, &s->v, &zero, &s->v, err) : rc;
}

/* lambda_max(P^-1 H_b) by v'H v / v'P v. */
static int smoothness(struct stochastic *s, struct view P, double *ret, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int rc = fill_normal(s, &s->x, err);
    *ret = 0;
    for (int64_t i = 0; rc == 0 && i < s->power_iterations; i++) {
        double quotient = 0;
        rc = precondition(s, err);
        rc = rc == 0 ? multiply(s, P, err) : rc;
        rc = rc == 0 ? o->col_dots(s->p.be, &s->v, &s->u, &quotient, err) : rc;
        rc = rc == 0 ? o->copy(s->p.be, &s->u, &s->x, err) : rc;
        *ret = fmax(*ret, quotient);
    }
    return rc;
}

/* ---- the race ---- */

static int begin(struct stochastic *s, struct err *err)
{
    int rc = s->table.data == NULL ? prepare(s, err) : 0;
    rc = rc == 0 ? stochastic_add(s, -1.0, &s->sample.Y, 0.0, &s->table, err) : rc;
    rc = rc == 0 ? stochastic_add(s, 0.0, &s->first_mean, 0.0, &s->W, err) : rc; /* W = 0 */
    return rc == 0 ? s->p.be->ops->copy(s->p.be, &s->first_mean, &s->mean, err) : rc;
}

static int race_step(struct stochastic *s, struct err *err)
{
    const int64_t k = s->next % parts(s), rows = batch_rows(s, k);
    const struct mat Y = mat_rows(s->sample.Y, first_row(s, k), rows);
    const struct mat T = mat_rows(s->table, first_row(s, k), rows), D = mat_rows(s->D, 0, rows);
    const struct saga_point at = {
        .W = &s->W, .mean = &s->mean, .weight = (double)s->p.n / (double)s->sample.count};
    const int rc = rows == 0 ? 0
                             : stochastic_saga_step(s, &at, batch_view(s, k), &Y, &T, &D,
                                                    s->scaling / s->L, err);
    return rc == 0 && rows > 0 ? stochastic_add(s, 1.0, &D, 1.0, &T, err) : rc;
}

/* f at W relative to f at 0, summed over columns, with the sample for all rows. */
static int evaluate(struct stochastic *s, double *ret, struct err *err)
{
    struct backend *be = s->p.be;
    const struct backend_ops *o = be->ops;
    const int64_t t = s->p.t;
    const double weight = (double)s->p.n / (double)s->sample.count;
    cleanup_mem double *sums = mem_zarray((size_t)t, 3 * sizeof(double));
    if (sums == NULL) {
        return err_no_memory(err);
    }
    int rc = 0;
    for (int64_t k = 0; rc == 0 && k < parts(s); k++) {
        const int64_t rows = batch_rows(s, k);
        if (rows == 0) {
            continue;
        }
        const struct mat Y = mat_rows(s->sample.Y, first_row(s, k), rows);
        const struct mat D = mat_rows(s->D, 0, rows);
        rc = stochastic_delta(s, batch_view(s, k), &Y, &s->W, NULL, &D, &s->E, err);
        for (int which = 0; rc == 0 && which < 2; which++) {
            rc = o->col_dots(be, which == 0 ? &D : &Y, which == 0 ? &D : &Y, s->dots, err);
            for (int64_t j = 0; j < t; j++) {
                sums[which * t + j] += s->dots[j];
            }
        }
    }
    rc = rc == 0 ? stochastic_add(s, 0.0, &s->W, 0.0, &s->G, err) : rc;
    rc = rc == 0 ? normal_add_core(s->p.restricted, be, s->p.ridge, &s->W, &s->G, err) : rc;
    rc = rc == 0 ? o->col_dots(be, &s->W, &s->G, sums + 2 * t, err) : rc;
    *ret = 0;
    for (int64_t j = 0; j < t; j++) {
        const double zero = weight * sums[t + j];
        *ret += zero > 0 ? (weight * sums[j] + sums[2 * t + j]) / zero : 0.0;
    }
    *ret = isfinite(*ret) ? *ret : INFINITY;
    return rc;
}

static double present_damping(const struct stochastic *s)
{
    return s->damping > 0 ? s->damping : pow(decade, s->candidate);
}

/* Whether more damping than that of the present candidate is of no use. */
static bool is_last(const struct stochastic *s)
{
    const bool worse = s->candidate > 0 && !(s->score < s->last_score);
    const bool heavy = present_damping(s) * s->P.least >= s->P.mean;
    return heavy || s->candidate + 1 == RACE_CANDIDATES ||
           (s->smooth && (s->L <= RACE_CALM || (worse && s->L <= RACE_ROUGH)));
}

/* Another candidate, or the winner. */
static void judge(struct stochastic *s)
{
    if (s->candidate == 0 || s->score < s->best_score) {
        s->best = s->candidate;
        s->best_L = s->L;
        s->best_score = s->score;
    }
    s->stage = is_last(s) ? STAGE_SETTLE : STAGE_DAMP;
    s->last_score = s->score;
    s->candidate++;
}

/* ---- stages ---- */

/* The damping was given, or the smallest one leaves nothing to gain: no race. Nor for a P whose
 * rounding errors leave no smoothness to be found. */
static void after_power(struct stochastic *s)
{
    s->smooth = s->L > 0 && isfinite(s->L);
    s->L = s->smooth ? s->L : 1.0;
    const bool calm = s->candidate == 0 && s->smooth && s->L <= RACE_CALM;
    s->stage = STAGE_BEGIN;
    if (s->damping > 0 || calm) {
        s->best = s->candidate;
        s->best_L = s->L;
        s->stage = STAGE_SETTLE;
    } else if (!s->smooth) {
        s->score = INFINITY;
        judge(s);
    }
}

static int damp(struct stochastic *s, struct err *err)
{
    s->next = 0;
    const bool known = s->L > 0 && s->damping > 0; /* of an earlier run */
    if (known) {
        s->best_L = s->L;
    } else {
        s->L = 0;
    }
    s->stage = known ? STAGE_SETTLE : STAGE_POWER;
    return hessian_sketch_damp(&s->P, present_damping(s) * s->P.least, err);
}

static int power(struct stochastic *s, struct err *err)
{
    double found = 0;
    const int64_t k = s->next++;
    const int rc = batch_rows(s, k) > 0 ? smoothness(s, batch_view(s, k), &found, err) : 0;
    s->L = fmax(s->L, found);
    if (s->next == parts(s)) {
        s->next = 0;
        after_power(s);
    }
    return rc;
}

/* What is told of a damping above the smallest one. */
static void tell(struct stochastic *s)
{
    snprintf(s->text, sizeof(s->text),
             "The damping of the preconditioner was raised to %g times the smallest sensible one, "
             "by a race on a sample of the rows: the batches scatter more than the "
             "preconditioner's own rows know. %s larger `batch_size` would allow faster "
             "convergence.",
             s->damping, s->P.rows < s->p.n ? "More `hessian_rows` or a" : "A");
    s->note = s->text;
}

static int settle(struct stochastic *s, struct err *err)
{
    if (s->damping <= 0) {
        s->candidate = s->best;
        s->damping = present_damping(s);
        if (s->best > 0) {
            tell(s);
        }
    }
    s->L = s->best_L;
    const double rho = s->damping * s->P.least;
    const int rc = s->P.rho == rho ? 0 : hessian_sketch_damp(&s->P, rho, err);
    hessian_sketch_settle(&s->P);
    race_deinit(s);
    s->sample = (struct row_tile){0};
    s->built = rc == 0;
    return rc == 0 ? 1 : rc;
}

int stochastic_build(struct stochastic *s, double *ret_fraction, struct err *err)
{
    int rc;
    *ret_fraction = 0.5 + 0.5 * s->candidate / (s->candidate + 3.0);
    switch ((enum stage)s->stage) {
    case STAGE_SKETCH:
        rc = hessian_sketch_build(&s->P, ret_fraction, err);
        *ret_fraction *= 0.5;
        s->stage = rc > 0 ? STAGE_SAMPLE : STAGE_SKETCH;
        s->damping = rc > 0 && s->rho > 0 ? s->rho / s->P.least : s->damping;
        return rc < 0 ? rc : 0;
    case STAGE_SAMPLE:
        s->stage = STAGE_DAMP;
        return s->L > 0 ? 0 : load_sample(s, err);
    case STAGE_DAMP:
        return damp(s, err);
    case STAGE_POWER:
        return power(s, err);
    case STAGE_BEGIN:
        s->stage = STAGE_RACE;
        s->next = 0;
        return begin(s, err);
    case STAGE_RACE:
        rc = race_step(s, err);
        s->stage = ++s->next == parts(s) * RACE_EPOCHS ? STAGE_SCORE : STAGE_RACE;
        return rc;
    case STAGE_SCORE:
        rc = evaluate(s, &s->score, err);
        judge(s);
        return rc;
    case STAGE_SETTLE:
        break;
    }
    return settle(s, err);
}
