/*
 * Centers by leverage scores of all rows: recursively, or in two passes.
 *
 * Papers: C. Musco, C. Musco, "Recursive sampling for the Nystrom method", NIPS 2017,
 * arXiv:1605.07583, Algorithm 2; A. El Alaoui, M. W. Mahoney, "Fast randomized kernel methods with
 * statistical guarantees", NIPS 2015, arXiv:1411.0306. In the notation of arXiv:1810.13258, which
 * compares them, with nested uniform subsets U_0 in U_1 in ... U_H = all rows:
 *
 *     rls       |U_h| = n / 2^(H-h), J_0 = U_0; scores of U_{h+1} from J_h
 *     two_pass  H = 1, J_0 = U_0, of size max k / lambda, each of which stands for n / |U_0| rows
 *     J_{h+1}   each row u of U_{h+1} with chance min(1, q2 l_u); it then stands for the inverse
 *
 * Scores are at the absolute ridge n lambda throughout. Those of rls from a subset are too large,
 * up to about twice, since the subset is; so there are somewhat more centers, and their scores are
 * closer.
 *
 * Beyond the papers: asked for m points, lambda is first looked for by a run of BLESS
 * (center_bless.h) unless it is named, and the last draw is of exactly m points with chances in
 * proportion. Cost: n m^2 multiplications for rls, n (max k / lambda)^2 for two_pass, of which U_0
 * has `first` rows at most. Memory: that of center_scores.h, and 8 to 16 n bytes.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/methods/centers/center_bless.h"
#include "engine/methods/methods.h"

/* |U_0|, and the most that two_pass takes by itself. */
enum { FIRST_NESTED = 512, FIRST_MOST = 10000 };

/* Rows of a level that are listed in a step. */
enum { PLAN_ROWS = 1 << 20 };

struct center_selection {
    struct center_task task;
    bool nested; /* rls */
    int64_t wanted, first;
    bool named;    /* lambda was asked for, not a number of points */
    int64_t asked; /* |U_0| that lambda asks for, where the default has fewer; or 0 */
    double q2, lambda, largest;
    enum { LAMBDA, BEGIN, READ, PLAN, FACTOR, SCORE, FILL, ALL } phase;
    int64_t level, levels; /* U_level is at hand; H */
    struct rng rng;
    struct bless bless;
    struct row_order order;
    int64_t *rows; /* of U_level, so many of them */
    int64_t planned;
    struct center_set J;
    struct center_scores scores;
    struct center_pass pass;
    struct center_picks picks;
    struct center_draw draw;
    double fraction;
};

static void teardown(struct center_selection *s)
{
    if (s != NULL) {
        bless_deinit(&s->bless);
        mem_free(s->rows);
        center_set_deinit(&s->J);
        center_scores_deinit(&s->scores);
        center_pass_deinit(&s->pass);
        center_picks_deinit(&s->picks);
        center_draw_deinit(&s->draw);
        mem_free(s);
    }
}

static int prepare(struct center_selection *s, const struct param_set *params, struct err *err)
{
    const struct param_value *first = param_get(params, "first");
    struct bless_options options = {.count = 0};
    const int rc = bless_lambda_options(&s->task, s->q2, &options, err);
    s->first = first->is_auto ? 0 : (int64_t)first->real;
    s->named = options.at_lambda;
    s->phase = s->wanted == s->task.rows->n ? ALL : options.at_lambda ? BEGIN : LAMBDA;
    s->lambda = s->task.regularization;
    s->rng = rng_new(s->task.seed, RNG_CENTERS);
    s->order = row_order_new(s->task.seed, ORDER_NESTED, 0, s->task.rows->n);
    center_set_init(&s->J, s->task.rows->d, s->task.rows->dtype);
    return rc == 0 ? bless_init(&s->bless, &s->task, &options, err) : rc;
}

static int start(const struct center_task *task, const struct param_set *params, bool nested,
                 struct center_selection **ret, struct err *err)
{
    int rc = center_task_check(task, true, err);
    if (rc < 0) {
        return rc;
    }
    struct center_selection *s = mem_zalloc(sizeof(*s));
    if (s == NULL) {
        return err_no_memory(err);
    }
    s->task = center_task_scored(task, params);
    s->nested = nested;
    s->wanted = center_task_wanted(task);
    s->q2 = bless_oversampling(&s->task, params);
    rc = prepare(s, params, err);
    if (rc < 0) {
        teardown(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int setup_rls(const struct center_task *task, const struct param_set *params,
                     struct center_selection **ret, struct err *err)
{
    return start(task, params, true, ret, err);
}

static int setup_two_pass(const struct center_task *task, const struct param_set *params,
                          struct center_selection **ret, struct err *err)
{
    return start(task, params, false, ret, err);
}

/* |U_h| */
static int64_t level_rows(const struct center_selection *s, int64_t level)
{
    const int64_t n = s->task.rows->n;
    if (!s->nested) {
        return level == 0 ? s->first : n;
    }
    const int shift = (int)(s->levels - level);
    return (n + (INT64_C(1) << shift) - 1) >> shift;
}

/* U_0 becomes J_0. */
static int begin(struct center_selection *s, struct err *err)
{
    const int64_t n = s->task.rows->n;
    int rc = center_largest(&s->task, &s->largest, err);
    if (s->first == 0) {
        const double wish = fmin(s->largest / s->lambda, (double)n);
        s->asked = !s->nested && s->named && wish > FIRST_MOST ? (int64_t)wish : 0;
        s->first = s->nested ? FIRST_NESTED : (int64_t)fmax(ceil(fmin(wish, FIRST_MOST)), 16.0);
    }
    s->first = s->first < n ? s->first : n;
    while (s->nested && level_rows(s, 0) > s->first) {
        s->levels++;
    }
    s->levels = s->nested ? s->levels : 1;
    const int64_t count = level_rows(s, 0);
    const double stands = s->nested ? 1.0 : (double)n / (double)count;
    for (int64_t i = 0; rc == 0 && i < count; i++) {
        rc = center_picks_add(&s->picks, row_order_at(&s->order, i), stands, err);
    }
    s->phase = READ;
    return rc;
}

/* The level's rows are to be scored from J. */
static int start_pass(struct center_selection *s, struct err *err)
{
    int64_t *rows = s->rows;
    s->rows = NULL;
    const int rc = center_pass_start(&s->pass, &s->task, rows, level_rows(s, s->level), 1.0, err);
    s->phase = FACTOR;
    return rc == 0 ? center_scores_start(&s->scores, &s->task, &s->J, s->lambda, s->largest, err)
                   : rc;
}

static int start_level(struct center_selection *s, struct err *err)
{
    const int64_t count = level_rows(s, s->level);
    if (count == s->task.rows->n) {
        return start_pass(s, err);
    }
    s->rows = mem_array((size_t)count, sizeof(*s->rows));
    s->planned = 0;
    s->phase = PLAN;
    return s->rows != NULL ? 0 : err_no_memory(err);
}

/* Some more rows of U_level, ascending. */
static int plan(struct center_selection *s, struct err *err)
{
    const int64_t left = level_rows(s, s->level) - s->planned;
    const int64_t count = left < PLAN_ROWS ? left : PLAN_ROWS;
    int64_t *rows = s->rows + s->planned;
    for (int64_t i = 0; i < count; i++) {
        rows[i] = row_order_at(&s->order, s->planned + i);
    }
    center_sort_rows(rows, count);
    s->planned += count;
    return count == left ? start_pass(s, err) : 0;
}

static int draw(struct center_selection *s, struct err *err)
{
    center_picks_deinit(&s->picks);
    center_set_clear(&s->J);
    s->phase = READ;
    if (s->level == s->levels && s->wanted > 0) {
        return center_pass_draw_exactly(&s->pass, s->wanted, &s->rng, &s->picks, err);
    }
    const int rc = center_pass_draw_each(&s->pass, s->q2, &s->rng, &s->picks, err);
    return rc == 0 && s->picks.count == 0
               ? center_pass_draw_repeatedly(&s->pass, 1, &s->rng, &s->picks, err)
               : rc;
}

/* J is read. 1: it is the last. */
static int finish_level(struct center_selection *s, struct err *err)
{
    if (s->level < s->levels || (s->levels == 0 && s->pass.count == 0)) {
        s->level += s->levels > 0;
        return start_level(s, err);
    }
    if (s->wanted > 0) {
        center_picks_settle(&s->picks, s->wanted, &s->J);
        s->phase = FILL;
        return 0;
    }
    return 1;
}

static int advance(struct center_selection *s, struct err *err)
{
    const bool exact = s->wanted > 0 && s->level == s->levels && s->pass.count > 0;
    double part = 0;
    int rc = 0;
    switch (s->phase) {
    case LAMBDA:
        rc = bless_step(&s->bless, &part, err);
        if (rc > 0) {
            s->lambda = s->bless.lambda;
            s->phase = BEGIN;
        }
        return rc < 0 ? rc : 0;
    case BEGIN:
        bless_deinit(&s->bless);
        return begin(s, err);
    case READ:
        rc = center_picks_read(&s->picks, &s->task, exact ? s->wanted : INT64_MAX, &s->J, err);
        return rc > 0 ? finish_level(s, err) : rc;
    case PLAN:
        return plan(s, err);
    case FACTOR:
        rc = center_scores_build(&s->scores, err);
        s->phase = rc > 0 ? SCORE : FACTOR;
        return rc < 0 ? rc : 0;
    case SCORE:
        rc = center_pass_step(&s->pass, &s->scores, err);
        return rc > 0 ? draw(s, err) : rc;
    case FILL:
        return center_draw_fill(&s->draw, &s->task, &s->J, err);
    case ALL:
        break;
    }
    return center_draw_all(&s->draw, &s->task, &s->J, err);
}

/* Each level has about twice the rows of the one before. */
static double fraction(const struct center_selection *s)
{
    if (s->phase <= BEGIN) {
        return 0;
    }
    const double rows = s->pass.count > 0 ? (double)level_rows(s, s->level) : 0.0;
    const double n = (double)s->task.rows->n;
    const double part = s->pass.count > 0 ? (double)s->pass.next / (double)s->pass.count : 0.0;
    return 0.98 * rows / n * (0.5 + 0.5 * part);
}

static int step(struct center_selection *s, double *ret_fraction, struct err *err)
{
    const int rc = advance(s, err);
    s->fraction = rc > 0 ? 1.0 : fmax(s->fraction, fraction(s));
    *ret_fraction = s->fraction;
    return rc;
}

static int take(struct center_selection *s, struct centers *ret, struct err *err)
{
    const int rc = center_set_take(&s->J, s->task.rows->n, ret, err);
    if (rc == 0 && s->asked > 0) {
        ret->limited_by = "first";
        ret->asked = s->asked;
        ret->scored = s->first;
    }
    return rc;
}

const struct center_ops centers_rls_ops = {
    .name = "rls",
    .own_count = true,
    .setup = setup_rls,
    .step = step,
    .take = take,
    .teardown = teardown,
};

const struct center_ops centers_two_pass_ops = {
    .name = "two_pass",
    .own_count = true,
    .setup = setup_two_pass,
    .step = step,
    .take = take,
    .teardown = teardown,
};
