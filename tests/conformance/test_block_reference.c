/* The block methods' iterates against the published formulas, by plain loops on the whole kernel
 * matrix: Algorithm 1 (askotch) and 4 (skotch) of arXiv:2407.10070v1, and the accelerated steps of
 * its later version (askotch2). Blocks and their preconditioners are the engine's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "conformance/solve_fixture.h"
#include "engine/methods/blocks/block_precond.h"

enum { ROWS = 120, BLOCKS_MAX = 4 };

/* One block: its rows, its preconditioner and what is measured of that. */
struct block {
    int64_t index[ROWS], b;
    struct block_precond *P;
    double L, trace;
};

struct reference {
    struct fixture f;
    double *M; /* K + ridge I */
    int blocks;
    struct block block[BLOCKS_MAX];
    struct rng rng;
    double x[ROWS], z[ROWS], w[ROWS]; /* of askotch2: w, v, y */
    double slope;
    int since_restart, age, restarted;
};

static void block_build(struct reference *r, struct block *k, const struct solver_options *o)
{
    must(block_precond_new(&r->f.problem, &o->params, k->b, &k->P, &err));
    must(block_precond_build(k->P, k->index, k->b, &k->L, &err));
    must(block_precond_trace(k->P, &k->trace, &err));
}

/* ret <- P^-1 of the block's part of (K + ridge I) w - y; the slope grows by g'(z - w). */
static void precondition_gradient(struct reference *r, const struct block *k, double *ret)
{
    double g[ROWS];
    for (int64_t i = 0; i < k->b; i++) {
        const int64_t row = k->index[i];
        g[i] = -r->f.Y[row];
        for (int64_t j = 0; j < ROWS; j++) {
            g[i] += r->M[row + j * ROWS] * r->w[j];
        }
        r->slope += g[i] * (r->z[row] - r->w[row]);
    }
    struct mat D = device_mat(r->f.be, DTYPE_F64, k->b, 1, g);
    must(block_precond_apply(k->P, &D, &err));
    double *v = device_get(r->f.be, &D);
    memcpy(ret, v, (size_t)k->b * sizeof(double));
    mem_free(v);
    r->f.be->ops->mat_free(r->f.be, &D);
}

/* z = w = x and half the age where momentum went uphill over a pass or, of few blocks, 10 steps. */
static void restart(struct reference *r, bool wanted, int pass)
{
    r->age++;
    if (++r->since_restart < (pass == 1 || pass > 10 ? pass : 10)) {
        return;
    }
    if (wanted && r->slope > 0) {
        memcpy(r->z, r->x, sizeof(r->x));
        memcpy(r->w, r->x, sizeof(r->x));
        r->age /= 2;
        r->restarted++;
    }
    r->slope = r->since_restart = 0;
}

struct constants {
    double alpha, beta, mu; /* exponent of the chances, acceleration, strong convexity: 0 rising */
    bool accelerated, restarts;
};

/* The fixed partition: blocks of sizes that differ by one at most, as solver_skotch.c cuts it. */
static void partition(struct reference *r, const struct solver_options *o)
{
    int64_t order[ROWS];
    for (int64_t i = 0; i < ROWS; i++) {
        order[i] = i;
    }
    r->rng = rng_new(r->f.problem.seed, RNG_SOLVER);
    rng_shuffle(&r->rng, order, ROWS);
    for (int k = 0; k < r->blocks; k++) {
        struct block *at = &r->block[k];
        at->b = ROWS / r->blocks;
        memcpy(at->index, order + k * at->b, (size_t)at->b * sizeof(*order));
        sort_i64(at->index, at->b);
        block_build(r, at, o);
    }
}

/* S and the block of the next step, with its chance. */
static const struct block *draw(struct reference *r, double alpha, double *ret_S, double *ret_p)
{
    double S = 0, sum = 0;
    for (int k = 0; k < r->blocks; k++) {
        S += pow(r->block[k].L, alpha);
    }
    const double u = rng_uniform(&r->rng) * S;
    int k = 0;
    for (; k < r->blocks; k++) {
        sum += pow(r->block[k].L, alpha);
        if (sum > u) {
            break;
        }
    }
    *ret_S = S;
    *ret_p = pow(r->block[k].L, alpha) / S;
    return &r->block[k];
}

/* Algorithm 1, or 4 where it is not accelerated. */
static void algorithm_1(struct reference *r, const struct constants *c)
{
    double S, p, v[ROWS];
    const struct block *k = draw(r, c->alpha, &S, &p);
    const double constant = 2.0 / (1.0 + sqrt(4.0 * S * S / c->mu + 1.0));
    const double rising = 2.0 / (r->age + fmax(2.0 * S, 4.0));
    const double tau = c->mu > 0 ? constant : rising, gamma = 1.0 / (tau * S * S);
    precondition_gradient(r, k, v);
    memcpy(r->x, r->w, sizeof(r->x));
    for (int64_t i = 0; i < ROWS; i++) {
        r->z[i] = (r->z[i] + gamma * c->mu * r->w[i]) / (1.0 + gamma * c->mu);
    }
    for (int64_t i = 0; i < k->b; i++) {
        r->x[k->index[i]] -= v[i] / k->L;
        r->z[k->index[i]] -= gamma / (p * pow(k->L, c->beta)) * v[i] / (1.0 + gamma * c->mu);
    }
    for (int64_t i = 0; i < ROWS; i++) {
        r->w[i] = c->accelerated ? tau * r->z[i] + (1.0 - tau) * r->x[i] : r->x[i];
    }
    restart(r, c->accelerated && c->restarts, r->blocks);
}

static struct solver_options options_of(const char *solver, const char *params)
{
    struct solver_options o = options_make(solver, NULL, 1e-14);
    options_set(&o, params);
    return o;
}

static void reference_init(struct reference *r, struct backend *be, int blocks, double lambda)
{
    const struct fixture_spec spec = {.kernel = KERNEL_MATERN32,
                                      .points = DTYPE_F64,
                                      .vectors = DTYPE_F64,
                                      .n = ROWS,
                                      .d = 3,
                                      .t = 1,
                                      .lambda = lambda,
                                      .seed = 21};
    *r = (struct reference){.blocks = blocks};
    fixture_init(&r->f, be, &spec);
    r->M = fixture_matrix(&r->f);
}

static void reference_deinit(struct reference *r)
{
    for (int k = 0; k < BLOCKS_MAX; k++) {
        block_precond_free(r->block[k].P);
    }
    mem_free(r->M);
    fixture_deinit(&r->f);
}

/* The solver's iterate after so many steps. */
static double *iterate(struct fixture *f, const char *solver, const struct solver_options *o,
                       int64_t steps)
{
    const struct solver_ops *ops = solver_find(solver);
    struct solver *s = NULL;
    struct step_report at = {.iteration = 0};
    must(ops->setup(&f->problem, o, &s, &err));
    for (int i = 0; i < 1000 && at.iteration < steps; i++) {
        must(ops->step(s, &at, &err));
    }
    assert_int_equal(at.iteration, steps);
    must(ops->coef(s, &f->A, &err));
    ops->teardown(s);
    return device_get(f->be, &f->A);
}

static double distance(const double *a, const double *b)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference / size);
}

struct reference_case {
    const char *solver, *params; /* beside the blocks */
    int blocks;
    double share;           /* of the measured mu; 0: given, or rising */
    double alpha, beta, mu; /* as in params */
    bool forgoes_restarts;
};

#define SKETCH "\"block_preconditioner\": \"nystrom\", \"rank\": 15"
#define EXACT "\"block_preconditioner\": \"cholesky\""
#define WHOLE "\"block_preconditioner\": \"nystrom\", \"rank\": 1000"
#define NONE "\"block_preconditioner\": \"none\""

#define STEADY ", \"restarts\": false"

static const struct reference_case partitions[] = {
    {"askotch", SKETCH, 1, 0, 0.5, 0, 0, false},
    {"askotch", NONE, 1, 0, 0.5, 0, 0, false},
    {"askotch", SKETCH, 4, 0, 0.5, 0, 0, false},
    {"askotch", NONE, 4, 0, 0.5, 0, 0, false},
    {"askotch", EXACT, 3, 0, 0.5, 0, 0, false},
    {"askotch", SKETCH ", \"beta\": 1", 4, 0, 0, 1, 0, false},
    {"skotch", SKETCH, 1, 0, 0.5, 0, 0, false},
    {"skotch", SKETCH, 4, 0, 0.5, 0, 0, false},
    {"askotch", SKETCH STEADY, 1, 1.0, 0.5, 0, 0, true},
    {"askotch", NONE STEADY, 4, 0.25, 0.5, 0, 0, true},
    {"askotch", EXACT STEADY, 3, 0.01, 0.5, 0, 0, true},
    {"askotch", SKETCH STEADY, 4, 0.01, 0.5, 0, 0, true},
    {"askotch", SKETCH STEADY ", \"mu\": 0.12", 1, 0, 0.5, 0, 0.12, true},
    {"askotch", SKETCH ", \"mu\": 0.003", 4, 0, 0.5, 0, 0.003, false},
    {"askotch", NONE ", \"beta\": 1, \"mu\": 1e-4", 4, 0, 0, 1, 1e-4, false},
    {"askotch", SKETCH STEADY ", \"beta\": 0.6", 4, 0.01, 0.2, 0.6, 0, true},
    {"skotch", NONE ", \"alpha\": 0", 4, 0, 0, 0, 0, false},
    {"skotch", SKETCH ", \"alpha\": 1", 4, 0, 1, 0, 0, false},
};

static void params_text(char *text, size_t size, const char *params, int64_t block)
{
    snprintf(text, size, "{\"block_size\": %d, \"residual_every\": 1000, %s}", (int)block, params);
}

/* Returns how often the reference restarted. */
static int check_partition(struct backend *be, const struct reference_case *c, int64_t steps)
{
    struct reference r;
    char text[256];
    params_text(text, sizeof(text), c->params, ROWS / c->blocks);
    const struct solver_options o = options_of(c->solver, text);
    reference_init(&r, be, c->blocks, 1e-3);
    partition(&r, &o);
    struct constants k = {.alpha = c->alpha, .beta = c->beta, .mu = c->mu};
    k.accelerated = strcmp(c->solver, "askotch") == 0;
    k.restarts = !c->forgoes_restarts;
    for (int i = 0; c->share > 0 && i < c->blocks; i++) {
        const double share = c->share * pow(r.block[i].L, -c->beta);
        k.mu += share * r.f.problem.ridge * r.block[i].trace / ROWS;
    }
    for (int64_t i = 0; i < steps; i++) {
        algorithm_1(&r, &k);
    }
    double *found = iterate(&r.f, c->solver, &o, steps);
    const double error = distance(found, r.x);
    if (!(error < 1e-9)) {
        print_error("%s %s after %d steps: %g\n", c->solver, text, (int)steps, error);
        fail();
    }
    mem_free(found);
    reference_deinit(&r);
    return r.restarted;
}

static void test_partitions(void **state)
{
    int restarted = 0;
    for (size_t i = 0; i < sizeof(partitions) / sizeof(*partitions); i++) {
        check_partition(*state, &partitions[i], 1);
        check_partition(*state, &partitions[i], 2);
        restarted += check_partition(*state, &partitions[i], 45);
    }
    assert_true(restarted > 0);
}

/* ---- askotch2 ---- */

/* A fresh block of b rows, drawn uniformly. */
static void draw_block(struct reference *r, int64_t b, const struct solver_options *o)
{
    struct block *k = &r->block[0];
    block_precond_free(k->P);
    k->b = b;
    must(rng_choose(&r->rng, ROWS, b, k->index, &err));
    sort_i64(k->index, b);
    block_build(r, k, o);
}

/* mu 0: of rising momentum. */
static void accelerated_step(struct reference *r, int64_t b, double mu, double nu, bool restarts)
{
    double d[ROWS];
    const struct block *k = &r->block[0];
    const double beta = 1.0 - sqrt(mu / nu), rising = 2.0 / (r->age + fmax(2.0 * nu, 4.0));
    const double gamma = mu > 0 ? 1.0 / sqrt(mu * nu) : 1.0 / (rising * nu);
    const double alpha = mu > 0 ? 1.0 / (1.0 + gamma * nu) : rising;
    precondition_gradient(r, k, d);
    memcpy(r->x, r->w, sizeof(r->x));
    for (int64_t i = 0; i < ROWS; i++) {
        r->z[i] = beta * r->z[i] + (1.0 - beta) * r->w[i];
    }
    for (int64_t i = 0; i < b; i++) {
        r->x[k->index[i]] -= d[i] / k->L;
        r->z[k->index[i]] -= gamma * d[i] / k->L;
    }
    for (int64_t i = 0; i < ROWS; i++) {
        r->w[i] = alpha * r->z[i] + (1.0 - alpha) * r->x[i];
    }
    restart(r, restarts, (int)((ROWS + b - 1) / b));
}

/* mu: 0 for a rising momentum, NAN for the measured mu of one without restarts, which only a single
 * block knows before it is drawn. */
static void check_fresh_blocks(struct backend *be, const char *kind, int64_t b, double mu,
                               int64_t steps)
{
    struct reference r;
    char text[256], params[128];
    int at = snprintf(params, sizeof(params), "%s, \"sampling\": \"uniform\"", kind);
    if (isnan(mu)) {
        snprintf(params + at, sizeof(params) - (size_t)at, STEADY);
    } else if (mu > 0) {
        snprintf(params + at, sizeof(params) - (size_t)at, ", \"mu\": %.17g", mu);
    }
    params_text(text, sizeof(text), params, b);
    const struct solver_options o = options_of("askotch2", text);
    reference_init(&r, be, 1, 1e-3);
    r.rng = rng_new(r.f.problem.seed, RNG_SOLVER);
    r.rng.position = (uint64_t)1 << 40;
    for (int64_t i = 0; i < steps; i++) {
        draw_block(&r, b, &o);
        const double measured = r.f.problem.ridge * r.block[0].trace / r.block[0].L / ROWS;
        const double spread = (double)ROWS / (double)b;
        const bool sketched = strcmp(kind, SKETCH) == 0 || strcmp(kind, NONE) == 0;
        const bool halved = mu == 0 && sketched;
        const double nu = halved ? fmax(spread / 2.0, 1.0) : spread;
        accelerated_step(&r, b, isnan(mu) ? measured : mu, nu, !isnan(mu));
    }
    double *found = iterate(&r.f, "askotch2", &o, steps);
    assert_true(distance(found, r.x) < 1e-9);
    mem_free(found);
    reference_deinit(&r);
}

static void test_fresh_blocks(void **state)
{
    check_fresh_blocks(*state, SKETCH, ROWS, NAN, 1);
    check_fresh_blocks(*state, SKETCH, ROWS, NAN, 40);
    check_fresh_blocks(*state, SKETCH, ROWS, 0, 40);
    check_fresh_blocks(*state, SKETCH, ROWS / 3, 0, 90);
    check_fresh_blocks(*state, NONE, ROWS / 3, 0, 90);
    check_fresh_blocks(*state, EXACT, ROWS / 3, 0, 20);
    check_fresh_blocks(*state, WHOLE, ROWS / 3, 0, 20);
    check_fresh_blocks(*state, SKETCH, ROWS, 1e-3, 40);
    check_fresh_blocks(*state, SKETCH, ROWS / 3, 1e-3, 40);
    check_fresh_blocks(*state, SKETCH, ROWS / 3, 1e-12, 40);
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, device_setup_one, device_teardown)

TEST_MAIN(on_device(test_partitions), on_device(test_fresh_blocks))
