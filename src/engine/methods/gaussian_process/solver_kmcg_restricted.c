/*
 * Kernel machine conjugate gradients on m centers: the posterior that p search directions among the
 * centers allow, where that of all m (solver_inducing.c) is too dear.
 *
 * Paper: Bartels, Hennig, "Conjugate gradients for kernel machines", JMLR 21 (2020), definition 3
 * and algorithm 2 with M < N. In the paper's notation, X_M the centers Z, sigma^2 = ridge:
 *
 *     S      p directions of conjugate gradients on K_mm X = Y_m, the centers' own targets
 *     R      K_nm S, by one pass over the rows
 *     A      S a,    a = (R'R + ridge S'K_mm S)^-1 R'Y                                (15)
 *
 * with S'K_mm S = I (conjugate_span.h). Variance and evidence (14 to 16) follow from S and R'R as
 * they do for all centers, with p in place of m, and so do the approximations of inducing_sums.h:
 * at p = m the model is that of `inducing`.
 *
 * The directions are those that `kmcg` finds for the centers as its rows, each of which stands for
 * n / m rows: its noise is ridge m / n. They end where `directions` of them are in use, where K_mm
 * shows no more, or where that problem is solved to the tolerance and there is no room for all m.
 *
 * The mean ends there, too: (15) is the mean of the process that has this variance and this
 * evidence. Its residual is that of the equations of all centers,
 * (K_nm' W K_nm + ridge K_mm) A = K_nm' W Y: it says what the directions leave out of the centers.
 * Going on to the tolerance, as `kmcg` does, would take a factor of K_mm, for what is left of it
 * beyond the directions is all but singular: m^2 numbers and m^3 / 3 multiplications, for which
 * `inducing` is exact at once.
 *
 * Beyond the paper:
 *   - several targets, probes, directions from residuals with noise, as in solver_kmcg.c;
 *   - centers that are no rows, or whose rows' targets are all 0, have no targets of their own:
 *     K_mn Y, which costs a pass, stands in for them;
 *   - the evidence is Titsias's bound, rows may weigh as FITC has it (`approximation`).
 *
 * Everything is in float64. Cost: m^2 kernel values for `probes` and targets together, that is, for
 * 16 directions, and 10 m p multiplications a direction; then n m kernel values and n p (m + p / 2)
 * multiplications, once. Memory: 2 m (p + 2 w) + 2 p^2 numbers for w targets and probes; then m p,
 * that of inducing_sums.h and INDUCING_BLOCK_BYTES of K_nm.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/gaussian_process/inducing_sums.h"
#include "engine/methods/gaussian_process/kmcg_directions.h"
#include "engine/methods/methods.h"
#include "engine/normal.h"
#include "plan/rules.h"

/* Of directions, in `fraction`; the pass over the rows is most of the rest. */
static const double directions_share = 0.3;

enum stage {
    STAGE_TARGETS,  /* of the centers, where these have some */
    STAGE_STAND_IN, /* K_mn Y */
    STAGE_DIRECTIONS,
    STAGE_ROWS,
    STAGE_SOLVED,
    STAGES
};

/* What ended the directions. */
enum end {
    END_RANK,   /* K_mm shows no more, or not yet known */
    END_FULL,   /* `directions` */
    END_SOLVED, /* the tolerance, of the centers' own problem */
    ENDS
};

struct solver {
    struct problem p;
    struct solver_options options;
    int64_t m, room; /* p at most */
    enum stage stage;
    struct normal_pass pass;
    struct mat targets; /* m x t, of the directions; until these are there */
    struct mat none;    /* m x t zeros: coefficients that K_mn Y is the gradient at */
    struct solver *of;  /* kmcg on the centers, another struct, never looked into; likewise */
    enum end end;
    struct mat all; /* m x room, the owner of S */
    struct mat S;   /* m x p */
    struct mat K;   /* rows x m: of K_nm */
    struct mat B;   /* m x t: S a */
    struct inducing_sums sums;
};

static void end_directions(struct solver *s)
{
    solver_kmcg_ops.teardown(s->of);
    s->of = NULL;
    s->p.be->ops->mat_free(s->p.be, &s->targets);
}

static void teardown(struct solver *s)
{
    if (s != NULL) {
        end_directions(s);
        inducing_deinit(&s->sums);
        s->p.be->ops->mat_free(s->p.be, &s->none);
        s->p.be->ops->mat_free(s->p.be, &s->all);
        s->p.be->ops->mat_free(s->p.be, &s->K);
        s->p.be->ops->mat_free(s->p.be, &s->B);
        mem_free(s);
    }
}

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    if (!(p->ridge > 0)) {
        return err_at(err, ERR_INVALID, "#/regularization",
                      "The solver \"kmcg_restricted\" takes it for the variance of the noise, "
                      "which must be positive.");
    }
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->options = *o;
    s->m = p->restricted->m;
    s->room = rule_directions(s->m, param_int(&o->params, "directions"));
    int r = memory_check_pair(p->be, s->m, 2 * s->room, DTYPE_F64, s->room, 2 * s->room, DTYPE_F64,
                              "solver `kmcg_restricted`", err);
    r = r == 0 ? p->be->ops->mat_new(p->be, DTYPE_F64, s->m, p->t, &s->targets, err) : r;
    r = r == 0 ? p->be->ops->mat_new(p->be, DTYPE_F64, s->m, p->t, &s->B, err) : r;
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* ---- what the directions are for ---- */

static bool any_but_zero(const double *x, int64_t count)
{
    bool any = false;
    for (int64_t i = 0; i < count; i++) {
        any = any || x[i] != 0;
    }
    return any;
}

/* The targets of the rows that the centers are; *ret: whether there are any. */
static int read_targets(struct solver *s, bool *ret, struct err *err)
{
    const struct restricted *re = s->p.restricted;
    const struct row_source *rows = re->source;
    if (re->positions == NULL) {
        *ret = false;
        return 0;
    }
    cleanup_mem double *Y = mem_array((size_t)(s->m * rows->t), sizeof(*Y));
    cleanup_mem char *X = mem_array((size_t)(s->m * rows->d), dtype_size(rows->dtype));
    int r = Y != NULL && X != NULL ? 0 : err_no_memory(err);
    r = r == 0 ? rows->read(rows, 0, re->positions, s->m, X, Y, err) : r;
    *ret = r == 0 && any_but_zero(Y, s->m * rows->t);
    return r == 0 ? s->p.be->ops->mat_put(s->p.be, Y, s->m, &s->targets, err) : r;
}

/* kmcg on the centers as rows. */
static int begin_directions(struct solver *s, struct err *err)
{
    const struct problem centers = {
        .be = s->p.be,
        .X = s->p.restricted->core,
        .n = s->m,
        .t = s->p.t,
        .d = s->p.d,
        .ridge = s->p.ridge * (double)s->m / (double)s->p.n,
        .dtype = DTYPE_F64,
        .points_dtype = DTYPE_F64,
        .Y = s->targets,
        .seed = s->p.seed,
    };
    s->p.be->ops->mat_free(s->p.be, &s->none);
    s->stage = STAGE_DIRECTIONS;
    struct solver_options options = s->options;
    if (s->m <= param_int(&options.params, "directions")) {
        options.tolerance = 0; /* there is room for all of them */
    }
    return kmcg_directions_begin(&centers, &options, &s->of, err);
}

static int find_targets(struct solver *s, struct err *err)
{
    bool found = false;
    int r = read_targets(s, &found, err);
    if (r == 0 && !found) {
        s->stage = STAGE_STAND_IN;
        return s->p.be->ops->mat_new(s->p.be, DTYPE_F64, s->m, s->p.t, &s->none, err);
    }
    return r == 0 ? begin_directions(s, err) : r;
}

/* A piece of the pass: -K_mn Y, whose sign is nothing to directions. */
static int stand_in(struct solver *s, struct err *err)
{
    const int r =
        normal_gradient(s->p.restricted, s->p.be, &s->pass, &s->none, true, &s->targets, err);
    return r > 0 ? begin_directions(s, err) : r;
}

/* ---- directions, and the rows ---- */

/* For S of `count` directions, which is there. */
static int prepare_rows(struct solver *s, int64_t count, struct err *err)
{
    const int64_t fit = INDUCING_BLOCK_BYTES / (s->m * (int64_t)sizeof(double));
    const int64_t rows = fit < 64 ? 64 : fit < INDUCING_BLOCK_ROWS ? fit : INDUCING_BLOCK_ROWS;
    s->S = mat_cols(s->all, 0, count);
    const int r = s->p.be->ops->mat_new(s->p.be, DTYPE_F64, rows, s->m, &s->K, err);
    return r == 0 ? inducing_init(&s->sums, &s->p, &s->options.params, count, err) : r;
}

static int begin_rows(struct solver *s, enum reason reason, struct err *err)
{
    int64_t count = 0;
    s->end = reason == REASON_CONVERGED    ? END_SOLVED
             : kmcg_directions_full(s->of) ? END_FULL
                                           : END_RANK;
    s->all = kmcg_directions_take(s->of, &count);
    end_directions(s);
    s->stage = STAGE_ROWS;
    return prepare_rows(s, count, err);
}

/* `of` gives reasons where it is at its end. */
static int find_direction(struct solver *s, struct step_report *ret, struct err *err)
{
    const int r = solver_kmcg_ops.step(s->of, ret, err);
    return r > 0 ? begin_rows(s, (enum reason)r, err) : r;
}

/* K_nm S, by blocks of K_nm and dense products: with so many right-hand sides they are quicker than
 * the oracle's. */
static int make_rows(void *context, struct view rows, const struct mat *R, struct err *err)
{
    struct solver *s = context;
    const struct backend_ops *o = s->p.be->ops;
    const struct view Z = view_all(s->p.restricted->Z, s->m);
    int r = 0;
    for (int64_t i = 0; r == 0 && i < rows.count; i += s->K.rows) {
        const int64_t left = rows.count - i, count = left < s->K.rows ? left : s->K.rows;
        const struct view some = view_range(rows.points, rows.first + i, count);
        const struct mat K = mat_rows(s->K, 0, count), part = mat_rows(*R, i, count);
        r = o->kblock(s->p.be, some, Z, &K, err);
        r = r == 0 ? o->gemm(s->p.be, false, false, 1.0, &K, &s->S, 0.0, &part, err) : r;
    }
    return r;
}

static int solve(struct solver *s, struct err *err)
{
    int r = inducing_solve(&s->sums, err);
    r = r == 0 ? s->p.be->ops->gemm(s->p.be, false, false, 1.0, &s->S, &s->sums.a, 0.0, &s->B, err)
               : r;
    s->stage = r == 0 ? STAGE_SOLVED : s->stage;
    return r;
}

static int add_rows(struct solver *s, struct err *err)
{
    enum { VALUE = 20 }; /* multiplications that a kernel value takes, about */
    const double m = (double)s->m, p = (double)s->S.cols;
    const struct inducing_rows rows = {
        .make = make_rows, .context = s, .work = m * (p + VALUE) + p * p / 2.0};
    const int r = inducing_add(&s->sums, &rows, err);
    return r == 0 && inducing_added(&s->sums) ? solve(s, err) : r;
}

static double fraction(const struct solver *s)
{
    const double found = s->stage < STAGE_ROWS ? 0.0 : 1.0;
    const double rows = (double)s->sums.done / (double)s->p.n;
    return s->stage == STAGE_SOLVED
               ? 1.0
               : directions_share * found + 0.9 * (1 - directions_share) * rows;
}

static const char *const notes[ENDS] = {
    [END_FULL] = "All the directions that `directions` allows are in use: mean, variance and "
                 "evidence are those of a process on these, and the residual says what they leave "
                 "out of the centers.",
    [END_SOLVED] = "The directions solve the centers' own problem to the tolerance, and are as "
                   "many as that takes: a smaller `stop.tolerance` finds more.",
};

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    struct step_report of = {.fraction = 0};
    int r = 0;
    switch (s->stage) {
    case STAGE_TARGETS:
        r = find_targets(s, err);
        break;
    case STAGE_STAND_IN:
        r = stand_in(s, err);
        break;
    case STAGE_DIRECTIONS:
        r = find_direction(s, &of, err);
        break;
    case STAGE_ROWS:
        r = add_rows(s, err);
        break;
    default:
        break;
    }
    const bool solved = s->stage == STAGE_SOLVED, rows = s->stage == STAGE_ROWS;
    *ret = (struct step_report){
        .phase = s->stage < STAGE_ROWS ? "directions" : "factorizing",
        .fraction = fraction(s),
        .iteration = solved,
        .relative_residual = NAN,
        .built = solved,
        .usable = solved,
        .savable = rows || of.usable,
        .rank = solved || rows ? s->S.cols : of.rank,
        .note = s->end != END_SOLVED || solved ? notes[s->end] : NULL, /* once it may be needed */
    };
    return r == 0 && solved ? REASON_CONVERGED : r;
}

/* ---- what comes out ---- */

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->p.be->ops->copy(s->p.be, &s->B, A, err);
}

/* Whether more directions would have been of use. */
static int refuse(struct solver *s, struct err *err)
{
    (void)err;
    return s->end == END_RANK ? REASON_STAGNATED : REASON_ITERATION_LIMIT;
}

static const double *row_weights(const struct solver *s)
{
    return inducing_weights(&s->sums);
}

static int posterior(struct solver *s, struct posterior *ret, struct err *err)
{
    return inducing_posterior(&s->sums, &s->S, ret, err);
}

/* ---- checkpoints ---- */

static int save(const struct solver *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    const int64_t places[3] = {s->stage, s->stage < STAGE_ROWS ? 0 : s->S.cols, s->end};
    int r = state_put_ints(to, "kmcg_restricted.places", places, 3, err);
    if (r == 0 && s->stage == STAGE_DIRECTIONS) {
        r = state_put_mat(to, "kmcg_restricted.targets", be, &s->targets, err);
        return r == 0 ? solver_kmcg_ops.save(s->of, to, err) : r;
    }
    r = r == 0 ? state_lend_mats(to, "kmcg_restricted.S", be, &s->S, 1, err) : r;
    r = r == 0 ? inducing_save(&s->sums, to, err) : r;
    return r == 0 && s->stage == STAGE_SOLVED
               ? state_put_mat(to, "kmcg_restricted.B", be, &s->B, err)
               : r;
}

static int load_directions(struct solver *s, const struct state *from, struct err *err)
{
    int r = state_get_mat(from, "kmcg_restricted.targets", s->p.be, &s->targets, err);
    r = r == 0 ? begin_directions(s, err) : r;
    return r == 0 ? solver_kmcg_ops.load(s->of, from, err) : r;
}

static int load_rows(struct solver *s, const struct state *from, int64_t count, struct err *err)
{
    struct backend *be = s->p.be;
    int r = be->ops->mat_new(be, DTYPE_F64, s->m, count, &s->all, err);
    r = r == 0 ? state_get_mats(from, "kmcg_restricted.S", be, &s->all, 1, err) : r;
    r = r == 0 ? prepare_rows(s, count, err) : r;
    r = r == 0 ? inducing_load(&s->sums, from, err) : r;
    r = r == 0 && s->stage == STAGE_SOLVED
            ? state_get_mat(from, "kmcg_restricted.B", be, &s->B, err)
            : r;
    return r == 0 && (s->stage == STAGE_SOLVED) != s->sums.solved ? inducing_bad_place(err) : r;
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    int64_t places[3];
    int r = state_get_ints(from, "kmcg_restricted.places", places, 3, err);
    if (r < 0) {
        return r;
    }
    const bool directions = places[0] == STAGE_DIRECTIONS;
    const bool rows = (places[0] == STAGE_ROWS || places[0] == STAGE_SOLVED) && places[1] >= 1 &&
                      places[1] <= s->room;
    if ((!directions && !rows) || places[2] < 0 || places[2] >= ENDS) {
        return err_set(err, ERR_CORRUPT,
                       "The checkpoint's array \"kmcg_restricted.places\" is out of range.");
    }
    s->stage = (enum stage)places[0];
    s->end = (enum end)places[2];
    return directions ? load_directions(s, from, err) : load_rows(s, from, places[1], err);
}

const struct solver_ops solver_kmcg_restricted_ops = {
    .name = "kmcg_restricted",
    .direct = true,
    .restricted = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .refuse = refuse,
    .row_weights = row_weights,
    .posterior = posterior,
    .save = save,
    .load = load,
    .teardown = teardown,
};
