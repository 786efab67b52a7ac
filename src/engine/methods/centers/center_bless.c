#include "engine/methods/centers/center_bless.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/catalog.h"

enum { CANDIDATES_LEAST = 256, PICKS_LEAST = 16, LEVELS_MIN = 16 };

/* Most candidates of a level by default: of a lambda, and for each center asked for. */
enum { CANDIDATES_MOST = 100000, CANDIDATES_A_CENTER = 20, CANDIDATES_COUNTED = 20000 };

/* Centers for each unit of the effective dimension by default; of m that are asked for m /
 * DIMENSION_COUNTED, so that the scores are at a lambda where the effective dimension is that. At
 * the smallest lambda that m centers are enough for, scores favour rows far from all others, which
 * few test rows are near to (docs/claims/paper-003.md). */
enum { OVERSAMPLING_LEAST = 5, OVERSAMPLING_MOST = 100, DIMENSION_COUNTED = 20 };

/* Candidates that tell whether a level has as many points as are asked for. */
enum { PROBE = 4096 };

static bool scores_at_lambda(const struct center_task *task)
{
    return task->count == 0 || task->at_regularization;
}

static int64_t choose_candidates(const struct center_task *task, const struct param_value *v)
{
    if (!v->is_auto) {
        return (int64_t)v->real;
    }
    const int64_t wish = CANDIDATES_A_CENTER * center_task_wanted(task);
    return scores_at_lambda(task)      ? CANDIDATES_MOST
           : wish > CANDIDATES_COUNTED ? wish
                                       : CANDIDATES_COUNTED;
}

double bless_oversampling(const struct center_task *task, const struct param_set *params)
{
    const struct param_value *q2 = param_get(params, "q2");
    const double counted = (double)center_task_wanted(task) / DIMENSION_COUNTED;
    if (!q2->is_auto) {
        return q2->real;
    }
    return scores_at_lambda(task) ? OVERSAMPLING_LEAST
                                  : fmin(fmax(counted, OVERSAMPLING_LEAST), OVERSAMPLING_MOST);
}

struct bless_options bless_options_of(const struct center_task *task,
                                      const struct param_set *params, bool with_replacement)
{
    return (struct bless_options){
        .with_replacement = with_replacement,
        .q = param_real(params, "q"),
        .q1 = with_replacement ? param_real(params, "q1") : 0.0,
        .q2 = bless_oversampling(task, params),
        .t = param_real(params, "t"),
        .candidates = choose_candidates(task, param_get(params, "candidates")),
        .usual = param_get(params, "candidates")->is_auto,
        .count = center_task_wanted(task),
        .at_lambda = scores_at_lambda(task),
        .lambda = task->regularization,
    };
}

int bless_lambda_options(const struct center_task *task, double q2, struct bless_options *ret,
                         struct err *err)
{
    struct param_set defaults;
    const struct method_def *bless = catalog_find(CATALOG_CENTERS, "bless");
    const int rc = param_read(bless->params, NULL, NULL, &defaults, err);
    if (rc == 0) {
        *ret = bless_options_of(task, &defaults, true);
        ret->q2 = q2;
        ret->lambda_only = true;
    }
    return rc;
}

int bless_init(struct bless *b, const struct center_task *task, const struct bless_options *options,
               struct err *err)
{
    *b = (struct bless){.task = *task, .options = *options};
    b->rng = rng_new(task->seed, RNG_CENTERS);
    center_set_init(&b->J, task->rows->d, task->rows->dtype);
    center_set_init(&b->fresh, task->rows->d, task->rows->dtype);
    if (options->at_lambda && !(options->lambda > 0)) {
        return err_at(err, ERR_INVALID, "#/regularization",
                      "Leverage scores need a regularization above 0 or a number of centers.");
    }
    return 0;
}

void bless_deinit(struct bless *b)
{
    center_set_deinit(&b->J);
    center_set_deinit(&b->fresh);
    center_scores_deinit(&b->scores);
    center_pass_deinit(&b->pass);
    center_picks_deinit(&b->picks);
    center_draw_deinit(&b->draw);
    b->path = mem_free(b->path);
}

/* ---- candidates ---- */

/* `count` rows, the first places of this level's own order: PROBE of them, and the rest, ascending.
 */
static int64_t *draw_rows(const struct bless *b, int64_t count)
{
    int64_t *rows = mem_array((size_t)count, sizeof(*rows));
    const struct row_order order =
        row_order_new(b->task.seed, ORDER_LEVEL, b->levels, b->task.rows->n);
    for (int64_t i = 0; rows != NULL && i < count; i++) {
        rows[i] = row_order_at(&order, i);
    }
    if (rows != NULL) {
        const int64_t first = count < PROBE ? count : PROBE;
        center_sort_rows(rows, first);
        center_sort_rows(rows + first, count - first);
    }
    return rows;
}

/* How many of n rows come when each does with this chance: by the gaps between them. */
static int64_t draw_binomial(struct rng *rng, int64_t n, double chance)
{
    int64_t count = 0;
    for (double at = 0; chance > 0;) {
        at += 1.0 + floor(log(rng_uniform(rng)) / log1p(-chance));
        if (!(at <= (double)n)) {
            return count;
        }
        count++;
    }
    return count;
}

/* Of `wish` candidates for the last level no more than `most` are allowed. A count's own lambda,
 * which goes as far as rounding where the rank is low, asks for nothing in particular. */
static void note_limit(struct bless *b, double wish, double most)
{
    const double asked = fmin(wish, (double)b->task.rows->n);
    const bool limited = b->last && b->options.at_lambda && b->options.usual && asked > most;
    b->asked = limited ? (int64_t)asked : 0;
}

/* The level's candidates. Each row of Algorithm 2 comes with chance R / n on its own. */
static int start_level(struct bless *b, struct err *err)
{
    const struct bless_options *o = &b->options;
    const double n = (double)b->task.rows->n;
    double wish = (o->with_replacement ? o->q1 : o->q2) * b->largest / b->lambda;
    wish = fmax(wish, b->last ? 2.0 * (double)o->count : 0.0);
    const double most = fmax((double)o->candidates, 2.0 * (double)o->count);
    note_limit(b, wish, most);
    wish = fmin(fmax(wish, CANDIDATES_LEAST), most);
    double chance = fmin(wish / n, 1.0);
    int64_t count = (int64_t)fmin(ceil(wish), n);
    if (!o->with_replacement && chance < 1.0) {
        count = draw_binomial(&b->rng, b->task.rows->n, chance);
        count = count > 0 ? count : 1;
    } else {
        chance = (double)count / n;
    }
    int64_t *rows = draw_rows(b, count);
    if (rows == NULL) {
        return err_no_memory(err);
    }
    b->probed = b->last || o->at_lambda;
    const int rc = center_pass_start(&b->pass, &b->task, rows, count, 1.0 / chance, err);
    return rc == 0 ? center_scores_start(&b->scores, &b->task, &b->J, b->lambda, b->largest, err)
                   : rc;
}

/* ---- levels ---- */

/* The lambda of the next level; the last one is not always known before the count is met. */
static void lower_lambda(struct bless *b)
{
    b->lambda_before = b->lambda;
    b->lambda /= b->ratio;
    if (!b->options.at_lambda) {
        b->last = b->lambda <= center_least_lambda(&b->task, b->largest);
    } else if (b->lambda <= b->options.lambda * (1.0 + 1e-9)) {
        b->lambda = b->options.lambda;
        b->last = true;
    }
}

static int begin(struct bless *b, struct err *err)
{
    struct bless_options *o = &b->options;
    const int rc = center_largest(&b->task, &b->largest, err);
    if (rc < 0) {
        return rc;
    }
    if (o->count == b->task.rows->n && !o->lambda_only) {
        b->phase = BLESS_ALL;
        return 0;
    }
    o->lambda = fmax(o->lambda, center_least_lambda(&b->task, b->largest));
    b->lambda = b->largest / fmin(o->t, 1.0);
    b->ratio = o->q;
    if (o->at_lambda && b->lambda > o->lambda) {
        const double levels = ceil(log(b->lambda / o->lambda) / log(o->q));
        b->ratio = pow(b->lambda / o->lambda, 1.0 / fmax(levels, 1.0));
    }
    lower_lambda(b);
    b->phase = BLESS_FACTOR;
    return start_level(b, err);
}

/* lambda where q2 d = m, between the level before and this one. */
static double interpolate(const struct bless *b, double d)
{
    const double wanted = (double)b->options.count / b->options.q2;
    if (!(b->d_before > 0) || !(d > b->d_before) || wanted <= b->d_before) {
        return b->lambda;
    }
    const double part = log(wanted / b->d_before) / log(d / b->d_before);
    return b->lambda_before * pow(b->lambda / b->lambda_before, fmin(part, 1.0));
}

static int note_level(struct bless *b, double d, struct err *err)
{
    if (b->levels == b->room) {
        const int64_t room = b->room > 0 ? 2 * b->room : LEVELS_MIN;
        void *path = mem_regrow(b->path, (size_t)room, sizeof(*b->path));
        if (path == NULL) {
            return err_no_memory(err);
        }
        b->path = path;
        b->room = room;
    }
    b->path[b->levels++] =
        (struct center_level){.lambda = b->lambda, .count = b->J.m, .effective_dimension = d};
    return 0;
}

static int draw_level(struct bless *b, double d, struct err *err)
{
    const struct bless_options *o = &b->options;
    center_picks_deinit(&b->picks);
    if (b->last && o->count > 0) {
        return center_pass_draw_exactly(&b->pass, o->count, &b->rng, &b->picks, err);
    }
    if (o->with_replacement) {
        const int64_t draws = (int64_t)fmax(ceil(o->q2 * d), PICKS_LEAST);
        return center_pass_draw_repeatedly(&b->pass, draws, &b->rng, &b->picks, err);
    }
    const int rc = center_pass_draw_each(&b->pass, o->q2, &b->rng, &b->picks, err);
    /* By bad luck, none: one at random, so that the next level has something to go by. */
    return rc == 0 && b->picks.count == 0
               ? center_pass_draw_repeatedly(&b->pass, 1, &b->rng, &b->picks, err)
               : rc;
}

/* The level has as many points as are asked for: lambda is known, for which it starts again. */
static int meet_count(struct bless *b, double d, struct err *err)
{
    b->lambda = interpolate(b, d);
    b->last = true;
    b->phase = b->options.lambda_only ? BLESS_DONE : BLESS_FACTOR;
    return b->options.lambda_only ? 0 : start_level(b, err);
}

/* All candidates have their scores. */
static int finish_scores(struct bless *b, struct err *err)
{
    const struct bless_options *o = &b->options;
    const double d = center_pass_dimension(&b->pass, b->pass.count);
    if (!o->at_lambda && !b->last && o->q2 * d >= (double)o->count) {
        return meet_count(b, d, err);
    }
    if (b->last && o->lambda_only) {
        b->phase = BLESS_DONE;
        return 0;
    }
    const int rc = draw_level(b, d, err);
    center_set_clear(&b->fresh);
    b->d_before = d;
    b->phase = BLESS_READ;
    return rc;
}

/* The level's points are there: they take the place of those before. */
static int finish_level(struct bless *b, struct err *err)
{
    const struct center_set old = b->J;
    b->J = b->fresh;
    b->fresh = old;
    const int64_t wanted = b->options.count;
    if (b->last && wanted > 0) {
        center_picks_settle(&b->picks, wanted, &b->J);
    }
    const int rc = note_level(b, b->d_before, err);
    if (rc < 0) {
        return rc;
    }
    if (b->last) {
        b->phase = wanted > b->J.m ? BLESS_FILL : BLESS_DONE;
        return 0;
    }
    lower_lambda(b);
    b->phase = BLESS_FACTOR;
    return start_level(b, err);
}

/* A piece of the scores. The first ones are of random rows, and may do. */
static int score(struct bless *b, struct err *err)
{
    const int rc = center_pass_step(&b->pass, &b->scores, err);
    if (rc != 0 || b->probed || b->pass.next < PROBE) {
        return rc > 0 ? finish_scores(b, err) : rc;
    }
    b->probed = true;
    const double d = center_pass_dimension(&b->pass, PROBE);
    return b->options.q2 * d >= (double)b->options.count ? meet_count(b, d, err) : 0;
}

static int advance(struct bless *b, struct err *err)
{
    const int64_t most = b->last && b->options.count > 0 ? b->options.count : INT64_MAX;
    int rc = 0;
    switch (b->phase) {
    case BLESS_BEGIN:
        return begin(b, err);
    case BLESS_FACTOR:
        rc = center_scores_build(&b->scores, err);
        b->phase = rc > 0 ? BLESS_SCORE : BLESS_FACTOR;
        return rc < 0 ? rc : 0;
    case BLESS_SCORE:
        return score(b, err);
    case BLESS_READ:
        rc = center_picks_read(&b->picks, &b->task, most, &b->fresh, err);
        return rc > 0 ? finish_level(b, err) : rc;
    case BLESS_FILL:
        rc = center_draw_fill(&b->draw, &b->task, &b->J, err);
        b->phase = rc > 0 ? BLESS_DONE : BLESS_FILL;
        return rc < 0 ? rc : 0;
    case BLESS_ALL:
        rc = center_draw_all(&b->draw, &b->task, &b->J, err);
        b->phase = rc > 0 ? BLESS_DONE : BLESS_ALL;
        return rc < 0 ? rc : 0;
    case BLESS_DONE:
        break;
    }
    return 0;
}

/* Of the way of lambda, to which the last levels add the most work. */
static double fraction(const struct bless *b)
{
    if (b->phase == BLESS_BEGIN) {
        return 0;
    }
    const double top = log(b->largest / fmin(b->options.t, 1.0));
    const double least =
        b->options.at_lambda ? log(b->options.lambda) : log(b->largest / (double)b->task.rows->n);
    const double way = top > least ? (top - log(b->lambda)) / (top - least) : 1.0;
    const double level = b->pass.count > 0 ? (double)b->pass.next / (double)b->pass.count : 0.0;
    const double before = fmin(fmax(way, 0.0), 1.0);
    return fmin(before * before * (b->last ? 0.5 + 0.5 * level : 0.5), 1.0);
}

int bless_step(struct bless *b, double *ret_fraction, struct err *err)
{
    const int rc = advance(b, err);
    b->fraction = b->phase == BLESS_DONE ? 1.0 : fmax(b->fraction, fraction(b));
    *ret_fraction = b->fraction;
    return rc < 0 ? rc : b->phase == BLESS_DONE;
}
