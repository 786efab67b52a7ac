/*
 * Gaussian processes on inducing points: the posterior that m centers Z allow, by one pass.
 *
 * With R = K_nm L^-T, K_mm = L L', Q = R R' the kernel matrix that the centers show, and
 * L_i = k(x_i, x_i) - Q_ii what they do not show of row i, by the parameter `approximation`
 *
 *   dtc    f(X) has covariance Q (subset of regressors; deterministic training conditional)
 *   fitc   the same, and each row has the noise ridge + L_i: rows weigh w_i = ridge / (ridge + L_i)
 *   vfe    dtc with Titsias's bound as its evidence, which pays trace(L) / (2 ridge); the default
 *
 * and in all of them
 *
 *     A = L^-T a,    a = (R'WR + ridge I)^-1 R'W Y,    (K_nm' W K_nm + ridge K_mm) A = K_nm' W Y.
 *
 * Papers: Quinonero-Candela, Rasmussen, "A unifying view of sparse approximate gaussian process
 * regression", JMLR 6 (2005); Titsias, "Variational learning of inducing variables in sparse
 * gaussian processes", AISTATS 2009; as rivals of kernel machine conjugate gradients in Bartels,
 * Hennig, JMLR 21 (2020), which all of them are with S = L^-T (posterior.h).
 *
 * Everything is in float64. Cost: n m (m + values)
 * multiplications and 10 m^3. Memory: 3 m^2 float64 numbers, one more for
 * the posterior and what it takes (posterior.h), 8 bytes a row for weights, INDUCING_BLOCK_BYTES.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/normal_core.h"
#include "engine/posterior.h"
#include "engine/rowset.h"
#include "engine/state.h"

#define INDUCING_BLOCK_BYTES (INT64_C(32) << 20)
#define INDUCING_STEP_WORK 2e10 /* multiplications of a step, about a second of one core */

struct solver {
    struct problem p;
    double amplitude;
    bool fitc, vfe;
    int64_t m;
    int64_t tile, row, done; /* the next row of the next tile, and how many are done */
    bool solved;
    struct mat L, G, A; /* m x m: G = R'WR, A A' = G + ridge I once solved */
    struct mat c, a, B; /* m x t: R'WY, the solution of A, and L^-T a */
    struct mat K, Y, d; /* rows at a time: R, the targets, L_i */
    double *left;       /* of those rows */
    double *weights;    /* [n] with fitc, else NULL */
    double *targets;    /* [t]: Y'W Y */
    double *scratch;    /* [t] */
    double log_weights, trace;
};

static void teardown(struct solver *s)
{
    if (s == NULL) {
        return;
    }
    struct mat *const matrices[] = {&s->L, &s->G, &s->A, &s->c, &s->a, &s->B, &s->K, &s->Y, &s->d};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        s->p.be->ops->mat_free(s->p.be, matrices[i]);
    }
    mem_free(s->left);
    mem_free(s->weights);
    mem_free(s->targets);
    mem_free(s->scratch);
    mem_free(s);
}

static int allocate(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t fit = INDUCING_BLOCK_BYTES / (s->m * (int64_t)sizeof(double));
    const int64_t rows = fit > 64 ? fit : 64;
    const struct {
        struct mat *mat;
        int64_t rows, cols;
    } parts[] = {
        {&s->G, s->m, s->m}, {&s->A, s->m, s->m}, {&s->c, s->m, p->t}, {&s->a, s->m, p->t},
        {&s->B, s->m, p->t}, {&s->K, rows, s->m}, {&s->Y, rows, p->t}, {&s->d, rows, 1},
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

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    const struct param_value *amplitude = param_get(&o->params, "amplitude");
    const char *approximation = param_choice(&o->params, "approximation");
    if (!(p->ridge > 0)) {
        return err_at(err, ERR_INVALID, "#/regularization",
                      "The solver \"inducing\" takes it for the variance of the noise, which must "
                      "be positive.");
    }
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->m = p->restricted->m;
    s->amplitude = amplitude->is_auto ? NAN : amplitude->real;
    s->fitc = strcmp(approximation, "fitc") == 0;
    s->vfe = strcmp(approximation, "vfe") == 0;
    int r = memory_check_matrix(p->be, s->m, 3 * s->m, DTYPE_F64, "solver `inducing`", err);
    r = r == 0 ? allocate(s, err) : r;
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- rows ---- */

/* left[i] = L_i of the rows of R. */
static int take_left(struct solver *s, struct view rows, const struct mat *R, struct err *err)
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
static int weigh(struct solver *s, const struct mat *R, const struct mat *Y, struct err *err)
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

static int add_sums(struct solver *s, const struct mat *R, const struct mat *Y, struct err *err)
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
static int add_rows(struct solver *s, const struct row_tile *t, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    const int64_t left = t->count - s->row, rows = left < s->K.rows ? left : s->K.rows;
    const struct view some = view_range(t->rows.points, t->rows.first + s->row, rows);
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    const struct mat R = mat_rows(s->K, 0, rows), Y = mat_rows(s->Y, 0, rows);
    const struct mat given = mat_rows(t->Y, s->row, rows);
    int r = o->kblock(s->p.be, some, Z, &R, err);
    r = r == 0 ? o->trsm(s->p.be, true, true, &s->L, &R, err) : r;
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

/* Of a checkpoint. */
static int bad_place(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "The checkpoint's array \"inducing.places\" is out of range.");
}

static int add_some(struct solver *s, struct err *err)
{
    const int64_t before = s->done;
    const double each = (double)s->m * (double)s->m;
    int r = 0;
    while (r == 0 && s->done < s->p.n && (double)(s->done - before) * each < INDUCING_STEP_WORK) {
        struct row_tile t;
        r = s->tile < rowset_tiles(s->p.restricted->rows)
                ? rowset_tile(s->p.restricted->rows, s->tile, &t, err)
                : bad_place(err);
        r = r == 0 && (s->row >= t.count || t.first + s->row != s->done) ? bad_place(err) : r;
        r = r == 0 ? add_rows(s, &t, err) : r;
    }
    return r;
}

/* ---- the answer ---- */

static int solve(struct solver *s, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    int r = o->copy(s->p.be, &s->G, &s->A, err);
    r = r == 0 ? o->add_diag(s->p.be, s->p.ridge, &s->A, err) : r;
    r = r == 0 ? o->potrf(s->p.be, &s->A, 0.5 * s->p.ridge, NULL, err) : r;
    r = r == 0 ? o->copy(s->p.be, &s->c, &s->a, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, false, &s->A, &s->a, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, true, &s->A, &s->a, err) : r;
    r = r == 0 ? o->copy(s->p.be, &s->a, &s->B, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, true, &s->L, &s->B, err) : r;
    s->solved = r == 0;
    return r == -ERR_NOT_POSITIVE_DEFINITE
               ? err_at(err, ERR_NOT_POSITIVE_DEFINITE, "#/regularization",
                        "Rounding exceeds the noise: raise `regularization`, or take fewer "
                        "centers.")
               : r;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    int r = 0;
    if (s->L.data == NULL) {
        r = core_factor_variables(&s->p, &s->L, err);
    } else if (s->done < s->p.n) {
        r = add_some(s, err);
    } else if (!s->solved) {
        r = solve(s, err);
    }
    *ret = (struct step_report){
        .phase = "factorizing",
        .fraction = s->solved ? 1.0 : 0.9 * (double)s->done / (double)s->p.n,
        .iteration = s->solved,
        .relative_residual = NAN,
        .built = s->solved,
        .usable = s->solved,
        .savable = true,
    };
    return r == 0 && s->solved ? REASON_CONVERGED : r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, &s->B, A, err);
}

static const double *row_weights(const struct solver *s)
{
    return s->fitc ? s->weights : NULL;
}

/* With S = L^-T. */
static int posterior(struct solver *s, struct posterior *ret, struct err *err)
{
    const struct backend_ops *o = s->p.be->ops;
    struct mat S = {.data = NULL};
    int r = o->mat_new(s->p.be, DTYPE_F64, s->m, s->m, &S, err);
    r = r == 0 ? o->add_diag(s->p.be, 1.0, &S, err) : r;
    r = r == 0 ? o->trsm(s->p.be, false, true, &s->L, &S, err) : r;
    r = r == 0 ? o->col_dots(s->p.be, &s->c, &s->a, s->scratch, err) : r;
    for (int64_t j = 0; r == 0 && j < s->p.t; j++) {
        s->scratch[j] = fmax(s->targets[j] - s->scratch[j], 0.0);
    }
    const struct posterior_sums sums = {
        .n = s->p.n,
        .t = s->p.t,
        .ridge = s->p.ridge,
        .S = &S,
        .G = &s->G,
        .misfit = s->scratch,
        .log_weights = s->log_weights,
        .left_out = s->vfe ? s->trace : 0.0,
        .amplitude = s->amplitude,
    };
    r = r == 0 ? posterior_make(s->p.be, &sums, ret, err) : r;
    o->mat_free(s->p.be, &S);
    return r;
}

/* ---- checkpoints ---- */

enum { PLACES = 4, SUMS = 2 };

/* The sums over the rows so far, and the answer; the factors follow from the centers and the sums.
 */
static int save(const struct solver *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    const int64_t places[PLACES] = {s->tile, s->row, s->done, s->solved};
    const double sums[SUMS] = {s->log_weights, s->trace};
    int r = state_put_ints(to, "inducing.places", places, PLACES, err);
    r = r == 0 ? state_put_reals(to, "inducing.sums", sums, SUMS, err) : r;
    r = r == 0 ? state_put_reals(to, "inducing.targets", s->targets, s->p.t, err) : r;
    r = r == 0 ? state_put_mat(to, "inducing.c", be, &s->c, err) : r;
    r = r == 0 ? state_lend_mats(to, "inducing.G", be, &s->G, 1, err) : r;
    r = r == 0 && s->solved ? state_put_mat(to, "inducing.a", be, &s->a, err) : r;
    r = r == 0 && s->solved ? state_put_mat(to, "inducing.B", be, &s->B, err) : r;
    return r == 0 && s->fitc && s->done > 0
               ? state_put_reals(to, "inducing.weights", s->weights, s->done, err)
               : r;
}

static bool plausible(const struct solver *s, const int64_t *places)
{
    const int64_t tiles = rowset_tiles(s->p.restricted->rows);
    return places[0] >= 0 && places[0] <= tiles && places[1] >= 0 && places[2] >= places[1] &&
           places[2] <= s->p.n && (places[0] == tiles) == (places[2] == s->p.n) &&
           (places[3] == 0 || places[2] == s->p.n);
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    int64_t places[PLACES];
    double sums[SUMS];
    int r = state_get_ints(from, "inducing.places", places, PLACES, err);
    if (r == 0 && !plausible(s, places)) {
        r = bad_place(err);
    }
    r = r == 0 ? state_get_reals(from, "inducing.sums", sums, SUMS, err) : r;
    r = r == 0 ? state_get_reals(from, "inducing.targets", s->targets, s->p.t, err) : r;
    r = r == 0 ? state_get_mat(from, "inducing.c", be, &s->c, err) : r;
    r = r == 0 ? state_get_mats(from, "inducing.G", be, &s->G, 1, err) : r;
    r = r == 0 && places[3] != 0 ? state_get_mat(from, "inducing.a", be, &s->a, err) : r;
    r = r == 0 && places[3] != 0 ? state_get_mat(from, "inducing.B", be, &s->B, err) : r;
    if (r == 0 && s->fitc && places[2] > 0) {
        r = state_get_reals(from, "inducing.weights", s->weights, places[2], err);
    }
    if (r < 0) {
        return r;
    }
    s->tile = places[0];
    s->row = places[1];
    s->done = places[2];
    s->solved = places[3] != 0;
    s->log_weights = sums[0];
    s->trace = sums[1];
    return 0;
}

const struct solver_ops solver_inducing_ops = {
    .name = "inducing",
    .direct = true,
    .restricted = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .row_weights = row_weights,
    .posterior = posterior,
    .save = save,
    .load = load,
    .teardown = teardown,
};
