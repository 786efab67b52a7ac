/*
 * KRILL: conjugate gradients for a restricted problem, preconditioned by a sketch of all rows.
 *
 * Paper: Diaz, Epperly, Frangella, Tropp, Webber, "Robust, randomized preconditioning for kernel
 * ridge regression", arXiv:2304.12465, sections 2.2.1 and 3.2, algorithm 2.
 *
 * With a random Phi of d rows, a column a training row, each with z signs +-1/sqrt(z),
 *
 *     K_mm = L L',   S = Phi K_nm L^-T,   A A' = S'S + ridge I,
 *     P = A A' in the variables U = L' B of normal_cg.h,   B_0 = L^-T A^-T A^-1 S' Phi Y.
 *
 * K_nm' K_nm ~ L S'S L' to a factor of (1 + sqrt(m/d))^2 / (1 - sqrt(m/d))^2 at most, whatever
 * ridge is, so that an iteration leaves sqrt(m/d) of the error: this is what falkon, which looks at
 * the centers alone, does not have. B_0, the solution of the sketched problem, is what the
 * iterations begin with unless the problem brings coefficients of its own.
 *
 * The paper factorises (Phi K_nm)' Phi K_nm + ridge K_mm, with d = 2 m. That is L P L', but its
 * smallest eigenvalues are lost in rounding, and with them the convergence: hundreds of iterations
 * where lambda is tiny or the features have outliers. In the variables of falkon nothing is below
 * ridge. And more rows are cheaper than iterations.
 *
 * Phi's columns (sign_columns.h) have z signs. Where rows are many beside d, z that follow each
 * other share the places of their signs, which are orthogonal: they are mixed by a Hadamard matrix
 * between random signs, and of the results each is added to one row of S. A row is spread as in the
 * paper, and z rows have no error among themselves, for log2 z + 1 additions a kernel value instead
 * of z. Where S would take much more than m^2 numbers it is made in parts, a pass over the rows
 * each.
 *
 * S, L and A are float64 in every precision.
 *
 * Cost: n m kernel values a part, and n m (1 + log2 z) additions, or n m z; d m^2 + m^3 / 3
 * multiplications. Memory: 3 m^2 numbers and RULE_SKETCH_BYTES while S'S is formed, 2 m^2
 * afterwards.
 */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/normal_core.h"
#include "engine/methods/restricted/normal_cg.h"
#include "engine/methods/restricted/sign_columns.h"
#include "engine/products.h"
#include "engine/rowset.h"
#include "plan/rules.h"

#define SKETCH_STEP_VALUES                                                                         \
    1e8                       /* kernel values of a step, about a third of a second of one core    \
                               */
#define SQUARE_STEP_WORK 2e10 /* multiplications of a step, about a second of one core */
#define SQUARE_ROWS_MIN 64
#define VALUE_WORK 30.0 /* multiplications in the time of a kernel value, sketched */

enum stage { STAGE_CORE, STAGE_SKETCH, STAGE_SQUARE, STAGE_FACTOR };

struct precond {
    struct problem p;
    enum stage stage;
    int64_t d;
    int parts, part;             /* of S; the one at hand */
    int64_t tile, row;           /* the next row of the next tile, or the next row of S */
    int64_t done;                /* training rows */
    struct sign_columns columns; /* of Phi */
    double *c;                   /* [d, t]; the part's rows are in use */
    struct mat L, A;             /* m x m */
    struct mat S;                /* rows of the part x m */
    struct mat B, W;             /* m x t: S' Phi Y and then the start; float64 */
};

static void precond_teardown(struct precond *m)
{
    if (m == NULL) {
        return;
    }
    const struct backend_ops *o = m->p.be->ops;
    o->mat_free(m->p.be, &m->L);
    o->mat_free(m->p.be, &m->A);
    o->mat_free(m->p.be, &m->S);
    o->mat_free(m->p.be, &m->B);
    o->mat_free(m->p.be, &m->W);
    sign_columns_deinit(&m->columns);
    mem_free(m->c);
    mem_free(m);
}

static int allocate(struct precond *m, struct rule_sketch signs, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    const int64_t size = m->p.restricted->m, t = m->p.t;
    int r = sign_columns_init(&m->columns, m->p.seed, m->p.n, m->d, signs, m->parts, err);
    m->c = mem_zarray((size_t)m->d, (size_t)t * sizeof(double));
    if (r < 0 || m->c == NULL) {
        return err_no_memory(err);
    }
    const int64_t rows = m->d / m->parts + signs.block * signs.copies;
    r = memory_check_matrix(m->p.be, size, rows + 2 * size, DTYPE_F64, "solver `krill`", err);
    if (r == 0) {
        r = o->mat_new(m->p.be, DTYPE_F64, size, t, &m->B, err);
    }
    return r == 0 ? o->mat_new(m->p.be, DTYPE_F64, size, t, &m->W, err) : r;
}

static int precond_setup(const struct problem *p, const struct param_set *params,
                         struct precond **ret, struct err *err)
{
    struct precond *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    m->d = (int64_t)ceil(param_real(params, "oversampling") * (double)p->restricted->m);
    const struct rule_sketch signs = rule_sketch_signs(p->n, m->d, params);
    m->parts = rule_sketch_parts(m->d, p->restricted->m, signs.block * signs.copies);
    const int r = allocate(m, signs, err);
    if (r < 0) {
        precond_teardown(m);
        return r;
    }
    *ret = m;
    return 0;
}

/* ---- the sketch ---- */

/* c <- c + Phi Y. */
static int sketch_targets(struct precond *m, const struct sign_sketch *phi, const struct mat *Y,
                          struct err *err)
{
    cleanup_mem double *y = mem_array((size_t)Y->rows, (size_t)Y->cols * sizeof(double));
    const int r =
        y == NULL ? err_no_memory(err) : m->p.be->ops->mat_get(m->p.be, Y, y, Y->rows, err);
    for (int64_t j = 0; r == 0 && j < Y->cols; j++) {
        sign_sketch_multiply(phi, y + j * Y->rows, Y->rows, m->c + j * m->d);
    }
    return r;
}

/* Some rows of a tile. */
static int sketch_rows(struct precond *m, const struct row_tile *t, struct err *err)
{
    const struct view Z = view_all(m->p.restricted->Z, m->p.restricted->m);
    const int64_t left = t->count - m->row;
    const int64_t count = left < m->columns.most ? left : m->columns.most;
    const struct sign_sketch phi =
        sign_columns_draw(&m->columns, m->part, t->first + m->row, count);
    const struct mat Y = mat_rows(t->Y, m->row, count);
    int r = product_sketch(m->p.be, &phi, view_range(t->rows.points, m->row, count), Z, m->done > 0,
                           &m->S, err);
    if (r == 0) {
        r = sketch_targets(m, &phi, &Y, err);
    }
    m->done += count;
    m->row += count;
    if (m->row == t->count) {
        m->row = 0;
        m->tile++;
    }
    return r;
}

static int sketch(struct precond *m, struct err *err)
{
    const struct restricted *re = m->p.restricted;
    const int64_t before = m->done;
    int r = 0;
    if (m->S.data == NULL) {
        const int64_t rows = sign_columns_rows(&m->columns, m->part);
        r = m->p.be->ops->mat_new(m->p.be, DTYPE_F64, rows, re->m, &m->S, err);
    }
    while (r == 0 && m->done < m->p.n &&
           (double)(m->done - before) * (double)re->m < SKETCH_STEP_VALUES) {
        struct row_tile t;
        r = rowset_tile(re->rows, m->tile, &t, err);
        r = r == 0 ? sketch_rows(m, &t, err) : r;
    }
    if (m->done == m->p.n) {
        m->stage = STAGE_SQUARE;
        m->row = 0;
    }
    return r;
}

/* ---- P and its factor ---- */

/* B <- B + S'c. */
static int sketched_right_hand_side(struct precond *m, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    struct mat c = {0};
    int r = o->mat_new(m->p.be, DTYPE_F64, m->S.rows, m->p.t, &c, err);
    if (r == 0) {
        r = o->mat_put(m->p.be, m->c, m->d, &c, err);
    }
    if (r == 0) {
        r = o->gemm(m->p.be, true, false, 1.0, &m->S, &c, m->part > 0 ? 1.0 : 0.0, &m->B, err);
    }
    o->mat_free(m->p.be, &c);
    return r;
}

/* The next part, or what follows the last one. */
static int end_part(struct precond *m, struct err *err)
{
    const int r = sketched_right_hand_side(m, err);
    m->p.be->ops->mat_free(m->p.be, &m->S);
    for (int64_t i = 0; i < m->d * m->p.t; i++) {
        m->c[i] = 0.0;
    }
    m->tile = m->row = m->done = 0;
    m->part++;
    m->stage = m->part < m->parts ? STAGE_SKETCH : STAGE_FACTOR;
    return r;
}

/* S <- S L^-T and A <- A + S'S, for some rows of S. */
static int square(struct precond *m, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    const int64_t size = m->p.restricted->m, left = m->S.rows - m->row;
    const int64_t fit = (int64_t)(SQUARE_STEP_WORK / ((double)size * (double)size));
    const int64_t wish = fit < SQUARE_ROWS_MIN ? SQUARE_ROWS_MIN : fit;
    const struct mat S = mat_rows(m->S, m->row, wish < left ? wish : left);
    int r = 0;
    if (m->A.data == NULL) {
        r = o->mat_new(m->p.be, DTYPE_F64, size, size, &m->A, err);
    }
    if (r == 0) {
        r = o->trsm(m->p.be, true, true, &m->L, &S, err);
    }
    if (r == 0) {
        r = o->syrk(m->p.be, true, 1.0, &S, m->part + m->row > 0 ? 1.0 : 0.0, &m->A, err);
    }
    m->row += S.rows;
    return r == 0 && m->row == m->S.rows ? end_part(m, err) : r;
}

/* A A' = S'S + ridge I, B <- the start. 1: complete. */
static int factor(struct precond *m, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    int r = o->add_diag(m->p.be, m->p.ridge, &m->A, err);
    if (r == 0) {
        r = core_factor_sum(m->p.be, &m->A, DBL_EPSILON, err);
    }
    if (r == 0) {
        r = core_solve(m->p.be, &m->A, &m->W, &m->B, &m->B, err);
    }
    if (r == 0) {
        r = o->trsm(m->p.be, false, true, &m->L, &m->B, err);
    }
    return r < 0 ? r : 1;
}

static int core(struct precond *m, struct err *err)
{
    m->stage = STAGE_SKETCH;
    return core_factor_variables(&m->p, &m->L, err);
}

/* How much of the part at hand is done. */
static double part_done(const struct precond *m)
{
    const double values = VALUE_WORK * (double)m->p.n;
    const double products = 1.5 * (double)(m->d / m->parts) * (double)m->p.restricted->m;
    const double squared = m->stage == STAGE_SQUARE ? (double)m->row / (double)m->S.rows : 0.0;
    return (values * (double)m->done / (double)m->p.n + products * squared) / (values + products);
}

static int precond_build(struct precond *m, double *ret_fraction, struct err *err)
{
    static int (*const stages[])(struct precond * m, struct err * err) = {
        [STAGE_CORE] = core,
        [STAGE_SKETCH] = sketch,
        [STAGE_SQUARE] = square,
        [STAGE_FACTOR] = factor,
    };
    const int r = stages[m->stage](m, err);
    *ret_fraction = r > 0 ? 1.0 : 0.01 + 0.98 * ((double)m->part + part_done(m)) / (double)m->parts;
    return r;
}

static int precond_apply(struct precond *m, const struct mat *R, const struct mat *Z,
                         struct err *err)
{
    return core_solve(m->p.be, &m->A, &m->W, R, Z, err);
}

static struct core_variables variables(const struct precond *m)
{
    return (struct core_variables){.L = &m->L, .W = &m->W};
}

static int precond_start(struct precond *m, const struct mat *B, struct err *err)
{
    return m->p.be->ops->copy(m->p.be, &m->B, B, err);
}

static int64_t precond_rank(const struct precond *m)
{
    return m->p.restricted->m;
}

static const struct precond_ops sketched = {
    .name = "krill",
    .setup = precond_setup,
    .build = precond_build,
    .apply = precond_apply,
    .rank = precond_rank,
    .teardown = precond_teardown,
};

static int setup(const struct problem *p, const struct solver_options *o, struct solver **ret,
                 struct err *err)
{
    const struct normal_method method = {
        .precond = &sketched,
        .variables = variables,
        .start = precond_start,
        .residual_every = param_int(&o->params, "residual_every"),
    };
    return normal_cg_setup(p, o, &method, ret, err);
}

const struct solver_ops solver_krill_ops = {
    .name = "krill",
    .restricted = true,
    .setup = setup,
    .step = normal_cg_step,
    .coef = normal_cg_coef,
    .save = normal_cg_save,
    .load = normal_cg_load,
    .teardown = normal_cg_teardown,
};
