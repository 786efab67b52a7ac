#include "conformance/block_fixture.h"

#include <math.h>
#include <string.h>

const struct block_variant block_variants[BLOCK_VARIANTS] = {
    {"askotch2", "{\"block_size\": 40}"},
    {"askotch2", "{\"block_size\": 40, \"accelerated\": false}"},
    {"askotch2", "{\"block_size\": 40, \"sampling\": \"uniform\"}"},
    {"askotch2", "{\"block_size\": 40, \"sampling\": \"leverage\"}"},
    {"askotch2", "{\"block_size\": 41, \"block_preconditioner\": \"nystrom\", \"rank\": 20}"},
    {"askotch2", "{\"block_size\": 40, \"block_preconditioner\": \"nystrom\", \"rank\": 30, "
                 "\"damping\": \"regularization\", \"accelerated\": false}"},
    {"askotch", "{\"block_size\": 40}"},
    {"askotch", "{\"block_size\": 41, \"block_preconditioner\": \"nystrom\", \"rank\": 20}"},
    {"skotch", "{\"block_size\": 40}"},
    {"skotch", "{\"block_size\": 41, \"block_preconditioner\": \"nystrom\", \"rank\": 20}"},
    {"askotch", "{\"block_size\": 40, \"beta\": 1, \"mu\": 0.01, \"restarts\": false}"},
    {"askotch2", "{\"block_size\": 40, \"restarts\": false}"},
    {"askotch2", "{\"block_size\": 40, \"mu\": 0.01}"},
    {"askotch", "{\"block_size\": 90}"},
    {"skotch", "{\"block_size\": 41, \"block_preconditioner\": \"nystrom\", \"rank\": 20, "
               "\"alpha\": 1}"},
    {"askotch2", "{\"block_size\": 5000, \"block_preconditioner\": \"nystrom\", \"rank\": 20}"},
    {"askotch", "{\"block_size\": 5000, \"block_preconditioner\": \"nystrom\", \"rank\": 20}"},
};

struct solver_options block_options(const struct block_variant *v, double tolerance)
{
    struct solver_options o = {.tolerance = tolerance};
    cleanup_json struct json *j = NULL;
    must(json_parse(v->params, strlen(v->params), &j, &err));
    must(param_read(catalog_find(CATALOG_SOLVERS, v->solver)->params, j, NULL, &o.params, &err));
    return o;
}

struct solve_outcome block_run(struct fixture *f, const struct block_variant *v, double tolerance,
                               int64_t steps)
{
    const struct solver_options options = block_options(v, tolerance);
    const struct solve_limits limits = {
        .tolerance = tolerance, .max_iterations = steps, .time_budget_s = INFINITY};
    struct world w = world_calm();
    const struct solve_control control = world_control(&w);
    struct solve_outcome outcome = {.reason = REASON_NONE};
    must(solve_run(solver_find(v->solver), &f->problem, &options, &limits, &control, NULL,
                   &f->kernel, &f->host, &f->A, &outcome, &err));
    return outcome;
}

struct solver *block_advance(struct fixture *f, const struct block_variant *v,
                             const struct state *from, int64_t until)
{
    const struct solver_ops *ops = solver_find(v->solver);
    const struct solver_options options = block_options(v, 1e-14);
    struct solver *s = NULL;
    struct step_report at = {.iteration = 0};
    must(ops->setup(&f->problem, &options, &s, &err));
    if (from != NULL) {
        must(ops->load(s, from, &err));
    }
    for (int i = 0; i < 10000 && at.iteration < until; i++) {
        must(ops->step(s, &at, &err));
    }
    assert_int_equal(at.iteration, until);
    return s;
}

double *block_coefficients(struct fixture *f, const struct block_variant *v, struct solver *s)
{
    must(solver_find(v->solver)->coef(s, &f->A, &err));
    return device_get(f->be, &f->A);
}
