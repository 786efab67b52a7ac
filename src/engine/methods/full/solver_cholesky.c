/*
 * Solver `cholesky`: (K + ridge I) A = Y by a Cholesky factorisation of the full matrix, all
 * targets at once, in one of two ways (cholesky.h), by the parameter `factor`:
 *
 *   float64   the factor and the triangular solves in float64 (cholesky_direct.c)
 *   float32   a float32 factor, half the memory and about half the time, refined by conjugate
 *             gradients with residuals in the precision of the vectors (cholesky_narrow.c), down to
 *             a hundredth of the tolerance
 *   auto      see below; the default
 *
 * auto takes float32 where that is the faster way: vectors in float64, n >= NARROW_ROWS, a ridge
 * above the float32 factor's own error (lambda >= 2^-23 max_i K_ii), and refinement cheap beside
 * what the factorisation saves, n/12 multiply-adds an entry of the matrix: NARROW_PRODUCTS
 * products with K of (d + 10)/2 + t each, and as many pairs of triangular
 * solves of 2 t. It takes float32 as well where only that factor fits into memory. Otherwise the
 * factor has the precision of the vectors, and so have its kernel values.
 *
 * When the refinement stalls, breaks down or takes more than max(100, n / 64) iterations, the work
 * starts again with a float64 factor, which is said in the report's note. The refined answer, n t
 * numbers, is kept until there is one of the float64 factor, and stands when the solve ends before:
 * as STAGNATED where that factor does not fit, or where there is none.
 *
 * A checkpoint holds the panels of the factor so far and what has been refined: n^2/2 numbers at
 * most, never twice in memory (state.h).
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/full/cholesky.h"
#include "engine/methods/full/cholesky_factor.h"
#include "engine/methods/methods.h"
#include "plan/rules.h"
#include "wire/catalog.h"

enum { ITERATIONS_MIN = 100 };

enum note { NOTE_NONE, NOTE_WIDE, NOTE_NO_ROOM, NOTE_INDEFINITE, NOTE_COUNT_ };

static const char *const notes[NOTE_COUNT_] = {
    NULL,
    "The float32 factor was not good enough to refine from: factorising in float64.",
    "There is no memory for a float64 factor: what the float32 one gave stands.",
    "In float64 the matrix is not positive definite, to rounding: what the float32 factor gave "
    "stands. A larger regularization helps.",
};

struct solver {
    struct problem p;
    struct solver_options options; /* as given */
    bool narrow;                   /* the present way */
    const struct solver_ops *ops;  /* of the present way */
    struct solver *way;            /* its state: another struct, never looked into; may be NULL
                                      when `kept` is there */
    struct mat kept;               /* n x t: what was refined, until the float64 factor's answer */
    double kept_residual;
    int64_t kept_iteration;
    enum note note;
};

static void teardown(struct solver *s)
{
    if (s != NULL) {
        if (s->way != NULL) {
            s->ops->teardown(s->way);
        }
        s->p.be->ops->mat_free(s->p.be, &s->kept);
        mem_free(s);
    }
}

static int no_room(const struct problem *p, int64_t wide, int64_t narrow, int64_t room,
                   struct err *err)
{
    return err_set(err, ERR_NO_MEMORY,
                   "The solver `cholesky` needs a %" PRId64 " x %" PRId64
                   " matrix: %.1f GB in float64, %.1f GB in float32 (factor \"float32\"), and %.1f "
                   "GB are available. Take solver `pcg`.",
                   p->n, p->n, (double)wide / 1e9, (double)narrow / 1e9, (double)room / 1e9);
}

/* The rule of "auto", for vectors in float64. */
static int choose(struct solver *s, struct err *err)
{
    const struct problem *p = &s->p;
    const int64_t room = memory_available_on(p->be);
    const int64_t wide = dtype_matrix_bytes(p->n, p->n, DTYPE_F64);
    const int64_t narrow = dtype_matrix_bytes(p->n, p->n, DTYPE_F32);
    if (narrow == INT64_MAX || narrow > room) {
        return no_room(p, wide, narrow, room, err);
    }
    double largest = 0;
    const int r = factor_largest_kernel(p, &largest, err);
    s->narrow =
        wide == INT64_MAX || wide > room || rule_narrow_factor(p->n, p->d, p->t, p->ridge, largest);
    return r;
}

static int setup_narrow(struct solver *s, struct err *err)
{
    struct solver_options o = {
        .precond = &cholesky_narrow_ops,
        .precond_params = s->options.params,
        .tolerance = 0.01 * s->options.tolerance,
    };
    const struct method_def *pcg = catalog_find(CATALOG_SOLVERS, "pcg");
    const int r = param_read(pcg->params, NULL, NULL, &o.params, err);
    s->ops = &solver_pcg_ops;
    return r < 0 ? r : s->ops->setup(&s->p, &o, &s->way, err);
}

/* In mixed precision of the exact points: there are no products for float32 ones to save time. */
static int setup_wide(struct solver *s, struct err *err)
{
    struct problem p = s->p;
    if (p.exact != NULL) {
        p.X = p.exact;
        p.points_dtype = DTYPE_F64;
    }
    s->narrow = false;
    s->ops = &cholesky_direct_ops;
    const int r = s->ops->setup(&p, &s->options, &s->way, err);
    return r == 0 && p.exact != NULL && p.widened != NULL ? p.widened(p.widened_context, err) : r;
}

static int setup(const struct problem *p, const struct solver_options *options, struct solver **ret,
                 struct err *err)
{
    struct solver *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->p = *p;
    s->p.start = NULL;
    s->options = *options;
    const struct param_value *factor = param_get(&options->params, "factor");
    int r = 0;
    if (p->dtype == DTYPE_F64 && factor->is_auto) {
        r = choose(s, err);
    } else {
        s->narrow = p->dtype == DTYPE_F64 && strcmp(factor->choice, "float32") == 0;
    }
    if (r == 0) {
        r = s->narrow ? setup_narrow(s, err) : setup_wide(s, err);
    }
    if (r < 0) {
        teardown(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* The refinement ended without its tolerance, or takes too long. */
static bool gave_up(const struct solver *s, int r, const struct step_report *at)
{
    if (r == 0) {
        const int64_t most = s->p.n / 64;
        return at->iteration >= (most > ITERATIONS_MIN ? most : ITERATIONS_MIN);
    }
    return r == REASON_STAGNATED || r == REASON_BREAKDOWN || r == -ERR_NOT_POSITIVE_DEFINITE;
}

/* The narrow way's coefficients, where they are better than none. */
static int keep(struct solver *s, const struct step_report *at, struct err *err)
{
    struct backend *be = s->p.be;
    if (!at->usable || !(at->relative_residual < 1.0)) {
        return 0;
    }
    int r = be->ops->mat_new(be, s->p.dtype, s->p.n, s->p.t, &s->kept, err);
    if (r == 0) {
        r = s->ops->coef(s->way, &s->kept, err);
    }
    s->kept_residual = at->relative_residual;
    s->kept_iteration = at->iteration;
    return r;
}

/* The end where there is no float64 factor, by what it came to. */
static int stand_kept(struct solver *s, int r, struct step_report *at)
{
    s->note = r == -ERR_NOT_POSITIVE_DEFINITE ? NOTE_INDEFINITE : NOTE_NO_ROOM;
    if (s->way != NULL) {
        s->ops->teardown(s->way);
        s->way = NULL;
    }
    *at = (struct step_report){.phase = "iterating",
                               .fraction = 1.0,
                               .iteration = s->kept_iteration,
                               .relative_residual = s->kept_residual,
                               .usable = true};
    return REASON_STAGNATED;
}

/* In float64 from the beginning, if there is room once the float32 factor is gone. */
static int start_wide(struct solver *s, int r, struct step_report *at, struct err *err)
{
    const int64_t room = memory_available_on(s->p.be);
    const int64_t wide = dtype_matrix_bytes(s->p.n, s->p.n, DTYPE_F64);
    const int64_t freed = dtype_matrix_bytes(s->p.n, s->p.n, DTYPE_F32);
    if (wide == INT64_MAX || (room < INT64_MAX && wide - freed > room)) {
        return r != 0 ? r : REASON_STAGNATED;
    }
    const int kept = keep(s, at, err);
    if (kept == -ERR_NO_MEMORY && s->kept.data == NULL) {
        return r != 0 ? r : REASON_STAGNATED; /* still to be had from the narrow way */
    }
    if (kept < 0) {
        return kept;
    }
    s->ops->teardown(s->way);
    s->way = NULL;
    s->note = NOTE_WIDE;
    const bool usable = s->kept.data != NULL;
    *at = (struct step_report){.phase = "factorizing",
                               .fraction = 0,
                               .relative_residual = usable ? s->kept_residual : (double)NAN,
                               .usable = usable,
                               .savable = true};
    const int w = setup_wide(s, err);
    return usable && w == -ERR_NO_MEMORY ? stand_kept(s, w, at) : w;
}

static int step_narrow(struct solver *s, struct step_report *at, struct err *err)
{
    int r = s->ops->step(s->way, at, err);
    at->rank = 0;
    if (strcmp(at->phase, "preconditioner") == 0) {
        at->phase = "factorizing";
        at->fraction *= 0.9 / 0.3; /* conjugate gradients give building three tenths */
    }
    if (gave_up(s, r, at)) {
        if (at->usable && at->relative_residual <= s->options.tolerance) {
            return REASON_CONVERGED;
        }
        r = start_wide(s, r, at, err);
    }
    return r;
}

static int step_wide(struct solver *s, struct step_report *at, struct err *err)
{
    if (s->way == NULL) {
        const bool indefinite = s->note == NOTE_INDEFINITE;
        return stand_kept(s, indefinite ? -ERR_NOT_POSITIVE_DEFINITE : -ERR_NO_MEMORY, at);
    }
    const int r = s->ops->step(s->way, at, err);
    if (at->usable) {
        s->p.be->ops->mat_free(s->p.be, &s->kept);
    } else if (s->kept.data != NULL) {
        at->usable = true;
        at->relative_residual = s->kept_residual;
        const bool none = r == -ERR_NO_MEMORY || r == -ERR_NOT_POSITIVE_DEFINITE;
        return none ? stand_kept(s, r, at) : r;
    }
    return r;
}

static int step(struct solver *s, struct step_report *ret, struct err *err)
{
    const int r = s->narrow ? step_narrow(s, ret, err) : step_wide(s, ret, err);
    ret->note = notes[s->note];
    return r;
}

static int coef(struct solver *s, const struct mat *A, struct err *err)
{
    return s->kept.data != NULL ? s->p.be->ops->copy(s->p.be, &s->kept, A, err)
                                : s->ops->coef(s->way, A, err);
}

/* ---- checkpoints ---- */

/* Which way, and what is kept beside it. */
struct place {
    int64_t narrow, way, kept, kept_iteration, note;
};
enum { PLACE_NUMBERS = sizeof(struct place) / sizeof(int64_t) };

static int save(const struct solver *s, struct state *to, struct err *err)
{
    const struct place place = {.narrow = s->narrow,
                                .way = s->way != NULL,
                                .kept = s->kept.data != NULL,
                                .kept_iteration = s->kept_iteration,
                                .note = (int64_t)s->note};
    int r = state_put_ints(to, "cholesky.place", (const int64_t *)&place, PLACE_NUMBERS, err);
    if (r == 0) {
        r = state_put_reals(to, "cholesky.residual", &s->kept_residual, 1, err);
    }
    if (r == 0 && place.kept) {
        r = state_put_mat(to, "cholesky.kept", s->p.be, &s->kept, err);
    }
    return r == 0 && place.way ? s->ops->save(s->way, to, err) : r;
}

static bool possible(const struct solver *s, const struct place *place)
{
    const bool numbers = (place->narrow | place->way | place->kept) >> 1 == 0 &&
                         place->kept_iteration >= 0 && place->note >= 0 &&
                         place->note < NOTE_COUNT_;
    return numbers && (place->way || place->kept) &&
           (!place->narrow || (place->way && s->p.dtype == DTYPE_F64));
}

/* What this machine would choose to begin with need not be what the saved way was. */
static int take_way(struct solver *s, const struct place *place, struct err *err)
{
    const bool other = s->narrow != (place->narrow != 0);
    if (!other && place->way) {
        return 0;
    }
    s->ops->teardown(s->way);
    s->way = NULL;
    s->narrow = place->narrow != 0;
    if (!place->way) {
        return 0;
    }
    return s->narrow ? setup_narrow(s, err) : setup_wide(s, err);
}

static int load(struct solver *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    struct place place;
    int r = state_get_ints(from, "cholesky.place", (int64_t *)&place, PLACE_NUMBERS, err);
    if (r == 0 && !possible(s, &place)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"cholesky.place\" is impossible.");
    }
    if (r == 0) {
        r = state_get_reals(from, "cholesky.residual", &s->kept_residual, 1, err);
    }
    if (r == 0) {
        s->kept_iteration = place.kept_iteration;
        s->note = (enum note)place.note;
        r = take_way(s, &place, err);
    }
    if (r == 0 && place.kept) {
        r = be->ops->mat_new(be, s->p.dtype, s->p.n, s->p.t, &s->kept, err);
    }
    if (r == 0 && place.kept) {
        r = state_get_mat(from, "cholesky.kept", be, &s->kept, err);
    }
    return r == 0 && place.way ? s->ops->load(s->way, from, err) : r;
}

const struct solver_ops solver_cholesky_ops = {
    .name = "cholesky",
    .direct = true,
    .setup = setup,
    .step = step,
    .coef = coef,
    .save = save,
    .load = load,
    .teardown = teardown,
};
