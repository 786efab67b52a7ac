#include "engine/methods/gaussian_process/inducing_sums.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static const double step_work = 2e10; /* multiplications, about a second of one core */

void inducing_deinit(struct inducing_sums *s)
{
    struct mat *const matrices[] = {&s->G, &s->A, &s->c, &s->a, &s->R, &s->Y, &s->d};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        if (matrices[i]->data != NULL) {
            s->p.be->ops->mat_free(s->p.be, matrices[i]);
        }
    }
    s->left = mem_free(s->left);
    s->weights = mem_free(s->weights);
    s->targets = mem_free(s->targets);
    s->scratch = mem_free(s->scratch);
}

/* Of R at a time. */
static int64_t block_rows(int64_t rank)
{
    const int64_t fit = INDUCING_BLOCK_BYTES / (rank * (int64_t)sizeof(double));
    return fit < 64 ? 64 : fit < INDUCING_BLOCK_ROWS ? fit : INDUCING_BLOCK_ROWS;
}

static int allocate(struct inducing_sums *s, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t k = s->rank, rows = block_rows(k);
    const struct {
        struct mat *mat;
        int64_t rows, cols;
    } parts[] = {
        {&s->G, k, k},    {&s->A, k, k},       {&s->c, k, p->t}, {&s->a, k, p->t},
        {&s->R, rows, k}, {&s->Y, rows, p->t}, {&s->d, rows, 1},
    };
    s->left = mem_array((size_t)rows, sizeof(double));
    s->weights = mem_array(s->fitc ? (size_t)p->n : 1, sizeof(double));
    s->targets = mem_zarray((size_t)p->t, sizeof(double));
    s->scratch = mem_zarray((size_t)p->t, sizeof(double));
    int r = s->left != NULL && s->weights != NULL && s->targets != NULL && s->scratch != NULL
                ? 0
                : err_no_memory(err);
    for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, parts[i].rows, parts[i].cols, parts[i].mat, err);
    }
    return r;
}

int inducing_init(struct inducing_sums *s, const struct problem *p, const struct param_set *params,
                  int64_t rank, struct err *err)
{
    const struct param_value *amplitude = param_get(params, "amplitude");
    const char *approximation = param_choice(params, "approximation");
    *s = (struct inducing_sums){.p = *p, .rank = rank};
    if (!(p->ridge > 0)) {
        return err_at(err, ERR_INVALID, "#/regularization",
                      "A gaussian process takes it for the variance of the noise, which must be "
                      "positive.");
    }
    s->amplitude = amplitude->is_auto ? NAN : amplitude->real;
    s->fitc = strcmp(approximation, "fitc") == 0;
    s->vfe = strcmp(approximation, "vfe") == 0;
    return allocate(s, err);
}

/* ---- rows ---- */

/* left[i] = L_i of the rows of R. */
static int take_left(struct inducing_sums *s, struct view rows, const struct mat *R,
                     struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const struct mat d = mat_rows(s->d, 0, rows.count);
    int r = o->kdiag(s->p.be, rows, &d, err);
    r = r == 0 ? o->deflate_diag(s->p.be, R, &d, err) : r;
    r = r == 0 ? o->mat_get(s->p.be, &d, s->left, rows.count, err) : r;
    for (int64_t i = 0; r == 0 && i < rows.count; i++) {
        s->trace += s->left[i];
    }
    return r;
}

/* R <- W^1/2 R, Y <- W^1/2 Y. */
static int weigh(struct inducing_sums *s, const struct mat *R, const struct mat *Y, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    for (int64_t i = 0; i < R->rows; i++) {
        const double w = s->p.ridge / (s->p.ridge + s->left[i]);
        s->weights[s->done + i] = w;
        s->log_weights += log(w);
        s->left[i] = sqrt(w);
    }
    const int r = o->scale_rows(s->p.be, s->left, R, err);
    return r == 0 ? o->scale_rows(s->p.be, s->left, Y, err) : r;
}

static int add_sums(struct inducing_sums *s, const struct mat *R, const struct mat *Y,
                    struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->syrk(s->p.be, true, 1.0, R, 1.0, &s->G, err);
    r = r == 0 ? o->gemm(s->p.be, true, false, 1.0, R, Y, 1.0, &s->c, err) : r;
    r = r == 0 ? o->col_dots(s->p.be, Y, Y, s->scratch, err) : r;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        s->targets[j] += s->scratch[j];
    }
    return r;
}

/* A few rows of the tile. */
static int add_rows(struct inducing_sums *s, const struct inducing_rows *of,
                    const struct row_tile *t, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const int64_t left = t->count - s->row, rows = left < s->R.rows ? left : s->R.rows;
    const struct view some = view_range(t->rows.points, t->rows.first + s->row, rows);
    const struct mat R = mat_rows(s->R, 0, rows), Y = mat_rows(s->Y, 0, rows);
    const struct mat given = mat_rows(t->Y, s->row, rows);
    int r = of->make(of->context, some, &R, err);
    r = r == 0 ? o->copy(s->p.be, &given, &Y, err) : r;
    r = r == 0 && (s->fitc || s->vfe) ? take_left(s, some, &R, err) : r;
    r = r == 0 && s->fitc ? weigh(s, &R, &Y, err) : r;
    r = r == 0 ? add_sums(s, &R, &Y, err) : r;
    s->done += rows;
    s->row += rows;
    if (s->row == t->count) {
        s->row = 0;
        s->tile++;
    }
    return r;
}

int inducing_add(struct inducing_sums *s, const struct inducing_rows *rows, struct err *err)
{
    const int64_t before = s->done;
    int r = 0;
    while (r == 0 && !inducing_added(s) && (double)(s->done - before) * rows->work < step_work) {
        struct row_tile t;
        r = s->tile < rowset_tiles(s->p.restricted->rows)
                ? rowset_tile(s->p.restricted->rows, s->tile, &t, err)
                : inducing_bad_place(err);
        r = r == 0 && (s->row >= t.count || t.first + s->row != s->done) ? inducing_bad_place(err)
                                                                         : r;
        r = r == 0 ? add_rows(s, rows, &t, err) : r;
    }
    return r;
}

/* ---- the answer ---- */

int inducing_solve(struct inducing_sums *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->copy(s->p.be, &s->G, &s->A, err);
    r = r == 0 ? o->add_diag(s->p.be, s->p.ridge, &s->A, err) : r;
    r = r == 0 ? o->potrf(s->p.be, &s->A, 0.5 * s->p.ridge, NULL, err) : r;
    r = r == 0 ? o->copy(s->p.be, &s->c, &s->a, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, false, &s->A, &s->a, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, true, &s->A, &s->a, err) : r;
    s->solved = r == 0;
    return r == -ERR_NOT_POSITIVE_DEFINITE
               ? err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/regularization",
                        "Rounding exceeds the noise: raise `regularization`, or take fewer "
                        "centers.")
               : r;
}

const double *inducing_weights(const struct inducing_sums *s)
{
    return s->fitc ? s->weights : NULL;
}

int inducing_posterior(struct inducing_sums *s, const struct mat *S, struct posterior *ret,
                       struct err *err)
{
    int r = s->p.be->ops->col_dots(s->p.be, &s->c, &s->a, s->scratch, err);
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        s->scratch[j] = fmax(s->targets[j] - s->scratch[j], 0.0);
    }
    const struct posterior_sums sums = {
        .n = s->p.n,
        .t = s->p.t,
        .ridge = s->p.ridge,
        .S = S,
        .G = &s->G,
        .misfit = s->scratch,
        .log_weights = s->log_weights,
        .left_out = s->vfe ? s->trace : 0.0,
        .amplitude = s->amplitude,
    };
    return r == 0 ? posterior_make(s->p.be, &sums, ret, err) : r;
}
