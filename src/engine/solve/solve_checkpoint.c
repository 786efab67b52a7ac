#include <stdio.h>

#include "engine/choice.h"
#include "engine/search_result.h"
#include "engine/solve/solve_parts.h"

/* The share of the time that may go into checkpoints. */
static const double checkpoint_share = 0.02;

static struct checkpoint_key key_of(const struct drive *d)
{
    return (struct checkpoint_key){
        .solver = d->ops->name,
        .n = problem_size(d->p),
        .t = d->p->t,
        .dtype = d->p->dtype,
        .problem = d->control->problem,
    };
}

static bool can_save(const struct drive *d)
{
    return d->control->checkpoint != NULL && d->ops->save != NULL &&
           (d->at.usable || d->at.savable);
}

/* What cannot be kept now may be kept later: a warning, and the solve goes on. */
void solve__save(struct drive *d)
{
    const double start = solve__now(d);
    const struct checkpoint_key key = key_of(d);
    const struct checkpoint_record record = {
        .elapsed_s = solve__elapsed(d, start),
        .eval_spent = d->eval_spent,
        .eval_last = d->eval_last,
        .iterations = d->at.iteration,
        .evaluations = d->evaluations,
        .usable_steps = d->usable_steps,
        .usable = d->at.usable,
    };
    struct state *s = NULL;
    struct err err;
    int r = checkpoint_make(&key, &record, d->ops, d->solver, &s, &err);
    if (r == 0 && d->control->search != NULL) {
        r = search_result_save(d->control->search, d->control->searched, s, &err);
    }
    if (r == 0 && d->control->choice != NULL) {
        r = choice_save(d->control->choice, d->p->d, d->control->searched, s, &err);
    }
    if (r == 0) {
        r = d->control->checkpoint(d->control->context, s, &err);
    }
    state_free(s);
    if (r < 0) {
        solve__say(d, "warning", "A checkpoint could not be written.", err.detail);
    }
    d->saved = solve__now(d);
    d->save_last = d->saved - start;
    d->save_spent += d->save_last;
    d->saves++;
}

bool solve__save_due(const struct drive *d)
{
    if (!can_save(d)) {
        return false;
    }
    const double t = solve__now(d);
    const double share = checkpoint_share * (t - d->began);
    return t - d->saved >= d->control->checkpoint_every_s &&
           (d->saves == 0 || d->save_spent + d->save_last <= share);
}

int solve__pause_here(struct drive *d)
{
    if (can_save(d)) {
        solve__save(d);
    } else {
        solve__say(d, "info", "There is nothing to keep yet, or this method keeps nothing:",
                   "a resumed job begins at its beginning.");
    }
    return REASON_PAUSED;
}

/* 1: the solver goes on from the state. 0: the state is of no use, and why has been said; the
 * solver may hold half of it. */
static int take_state(struct drive *d, struct err *err)
{
    const struct checkpoint_key key = key_of(d);
    struct checkpoint_record record;
    struct err why;
    int r = d->ops->load != NULL ? checkpoint_read(d->control->resume, &key, &record, &why)
                                 : err_set(&why, ERR_CONFLICT, "This method keeps no checkpoints.");
    if (r == 0) {
        r = d->ops->load(d->solver, d->control->resume, &why);
    }
    if (r == -ERR_NO_MEMORY) {
        return err_no_memory(err);
    }
    if (r < 0) {
        solve__say(d, "warning", why.detail, "It is discarded: the job begins at its beginning.");
        return 0;
    }
    d->earlier = record.elapsed_s;
    d->eval_spent = record.eval_spent;
    d->eval_last = record.eval_last;
    d->evaluations = record.evaluations;
    d->usable_steps = record.usable_steps;
    d->at.iteration = record.iterations;
    d->at.usable = record.usable;
    d->at.savable = true;
    char text[96];
    snprintf(text, sizeof(text), "iteration %lld, after %.3g s of work.",
             (long long)record.iterations, record.elapsed_s);
    solve__say(d, "info", "Resumed from the checkpoint at", text);
    return 1;
}

int solve__set_up(struct drive *d, const struct solver_options *options, struct err *err)
{
    int r = d->ops->setup(d->p, options, &d->solver, err);
    if (r < 0 || d->control->resume == NULL) {
        return r;
    }
    r = take_state(d, err);
    if (d->control->taken != NULL) {
        d->control->taken(d->control->context);
    }
    if (r == 0) {
        d->ops->teardown(d->solver);
        d->solver = NULL;
        return d->ops->setup(d->p, options, &d->solver, err);
    }
    return r < 0 ? r : 0;
}
