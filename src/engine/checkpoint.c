#include "engine/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Raised whenever the meaning of what a solver saves changes, by a new parameter's default too. */
static const char format[] = "krrd-checkpoint-4";

enum { REALS = 3, COUNTS = 4, TEXTS = 5, TEXT_SIZE = 96 };
static const char reals_name[] = "driver.seconds", counts_name[] = "driver.counts";

struct texts {
    const char *key[TEXTS];
    const char *what[TEXTS]; /* for a sentence */
    char value[TEXTS][TEXT_SIZE];
};

static void make_texts(const struct checkpoint_key *key, struct texts *ret)
{
    *ret = (struct texts){
        .key = {"format", "solver", "size", "precision", "problem"},
        .what = {"format", "solver", "number of rows and targets", "precision",
                 "specification or data"},
    };
    snprintf(ret->value[0], TEXT_SIZE, "%s", format);
    snprintf(ret->value[1], TEXT_SIZE, "%s", key->solver);
    snprintf(ret->value[2], TEXT_SIZE, "%" PRId64 " x %" PRId64, key->n, key->t);
    snprintf(ret->value[3], TEXT_SIZE, "%s", dtype_name(key->dtype));
    snprintf(ret->value[4], TEXT_SIZE, "%s", key->problem != NULL ? key->problem : "");
}

static int put_record(struct state *s, const struct checkpoint_record *r, struct err *err)
{
    const double reals[REALS] = {r->elapsed_s, r->eval_spent, r->eval_last};
    const int64_t counts[COUNTS] = {r->iterations, r->evaluations, r->usable_steps, r->usable};
    const int rc = state_put_reals(s, reals_name, reals, REALS, err);
    return rc == 0 ? state_put_ints(s, counts_name, counts, COUNTS, err) : rc;
}

int checkpoint_make(const struct checkpoint_key *key, const struct checkpoint_record *record,
                    const struct solver_ops *ops, const struct solver *solver, struct state **ret,
                    struct err *err)
{
    struct texts texts;
    make_texts(key, &texts);
    struct state *s = state_new();
    int r = s != NULL ? 0 : err_no_memory(err);
    for (int i = 0; r == 0 && i < TEXTS; i++) {
        r = state_put_text(s, texts.key[i], texts.value[i], err);
    }
    if (r == 0) {
        r = put_record(s, record, err);
    }
    if (r == 0) {
        r = ops->save(solver, s, err);
    }
    if (r < 0) {
        state_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int check_texts(const struct state *from, const struct checkpoint_key *key, struct err *err)
{
    struct texts texts;
    make_texts(key, &texts);
    for (int i = 0; i < TEXTS; i++) {
        const char *found = state_text(from, texts.key[i]);
        if (found == NULL || strcmp(found, texts.value[i]) != 0) {
            return err_set(err, ERR_CONFLICT, "The checkpoint was taken with another %s.",
                           texts.what[i]);
        }
    }
    return 0;
}

static bool sensible(const double *reals, const int64_t *counts)
{
    bool ok = true;
    for (int i = 0; i < REALS; i++) {
        ok = ok && isfinite(reals[i]) && reals[i] >= 0;
    }
    for (int i = 0; i < COUNTS; i++) {
        ok = ok && counts[i] >= 0;
    }
    return ok;
}

static int get_record(const struct state *from, struct checkpoint_record *ret, struct err *err)
{
    double reals[REALS];
    int64_t counts[COUNTS];
    int r = state_get_reals(from, reals_name, reals, REALS, err);
    r = r == 0 ? state_get_ints(from, counts_name, counts, COUNTS, err) : r;
    if (r == 0 && !sensible(reals, counts)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's times and counts make no sense.");
    }
    if (r == 0) {
        *ret = (struct checkpoint_record){
            .elapsed_s = reals[0],
            .eval_spent = reals[1],
            .eval_last = reals[2],
            .iterations = counts[0],
            .evaluations = counts[1],
            .usable_steps = counts[2],
            .usable = counts[3] != 0,
        };
    }
    return r;
}

int checkpoint_read(const struct state *from, const struct checkpoint_key *key,
                    struct checkpoint_record *ret, struct err *err)
{
    const int r = check_texts(from, key, err);
    return r == 0 ? get_record(from, ret, err) : r;
}

static bool text_is(const struct state *from, const char *key, const char *value)
{
    const char *found = state_text(from, key);
    return found != NULL && strcmp(found, value) == 0;
}

bool checkpoint_glance(const struct state *from, const char *problem, struct checkpoint_record *ret)
{
    struct err err;
    return text_is(from, "format", format) && text_is(from, "problem", problem) &&
           get_record(from, ret, &err) == 0;
}

bool checkpoint_solver_is(const struct state *from, const char *name)
{
    return text_is(from, "solver", name);
}

int checkpoint_put_rank(struct state *to, int64_t rank, struct err *err)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, rank);
    return state_put_text(to, "rank", text, err);
}

int64_t checkpoint_rank(const struct state *from)
{
    const char *text = state_text(from, "rank");
    const long long rank = text != NULL ? strtoll(text, NULL, 10) : 0;
    return rank > 0 ? rank : 0;
}
