/* What a search has come to: as it is told, and among the arrays of a checkpoint. */
#include <math.h>
#include <string.h>

#include "engine/search_result.h"

static const char key[] = "searched", counts_name[] = "search.counts",
                  points_name[] = "search.points", evidence_name[] = "search.evidence";

enum { COUNTS = 7, POINT = 8 }; /* numbers of a search, of a pair */

double search_score(enum search_metric metric, const struct search_point *p)
{
    const struct metrics *m = &p->metrics;
    switch (metric) {
    case SEARCH_SMAPE:
        return -m->smape;
    case SEARCH_MAE:
        return -m->mae;
    case SEARCH_R2:
        return m->r2;
    case SEARCH_ACCURACY:
        return m->accuracy;
    case SEARCH_AUC:
        return m->auc;
    case SEARCH_EVIDENCE:
        return p->evidence;
    case SEARCH_RMSE:
    case SEARCH_AUTO:
        break;
    }
    return -m->rmse;
}

double search_value(const struct search_result *r, int64_t at)
{
    const double value = search_score(r->metric, &r->points[at]);
    return search_metric_rises(r->metric) || r->metric == SEARCH_EVIDENCE ? value : -value;
}

struct search_progress search_progress_of(const struct search_result *r)
{
    struct search_progress ret = {
        .tried = r->count, .pairs = r->pairs, .metric = r->metric, .value = NAN};
    if (r->count > 0 && r->best >= 0) {
        const struct search_point *p = &r->points[r->best];
        ret.regularization = p->regularization;
        ret.bandwidth = p->bandwidth;
        ret.value = search_value(r, r->best);
    }
    return ret;
}

struct json *search_result_to_json(const struct search_result *r)
{
    if (r->count == 0) {
        return json_new_null();
    }
    struct json *j = json_new_object();
    json_set_string(j, "metric", search_metric_name(r->metric));
    if (r->folds == 0) {
        json_set_string(j, "folds", "loo");
    } else {
        json_set_int(j, "folds", r->folds);
    }
    json_set_int(j, "rows", r->rows);
    json_set_bool(j, "sampled", r->sampled);
    if (r->centers > 0) {
        json_set_int(j, "centers", r->centers);
    } else {
        json_set(j, "centers", json_new_null());
    }
    json_set_int(j, "best", r->best);
    struct json *path = json_set_array(j, "path");
    for (int64_t i = 0; i < r->count; i++) {
        struct json *point = json_new_object();
        json_set_number(point, "regularization", r->points[i].regularization);
        json_set_number(point, "bandwidth", r->points[i].bandwidth);
        metrics_to_json(&r->points[i].metrics, point);
        json_set_number(point, "evidence", r->points[i].evidence);
        json_push(path, point);
    }
    return j;
}

/* One pair's numbers, in the order of the array. */
static void to_numbers(const struct search_point *p, double v[POINT])
{
    const struct metrics *m = &p->metrics;
    const double numbers[POINT] = {
        p->regularization, p->bandwidth, m->smape, m->rmse, m->mae, m->r2, m->accuracy, m->auc};
    memcpy(v, numbers, sizeof numbers);
}

static struct search_point from_numbers(const double v[POINT])
{
    return (struct search_point){
        .regularization = v[0],
        .bandwidth = v[1],
        .metrics =
            {.smape = v[2], .rmse = v[3], .mae = v[4], .r2 = v[5], .accuracy = v[6], .auc = v[7]},
    };
}

int search_result_save(const struct search_result *r, const char *of, struct state *to,
                       struct err *err)
{
    const int64_t counts[COUNTS] = {r->count, r->best,    r->rows,           r->centers,
                                    r->folds, r->sampled, (int64_t)r->metric};
    double points[SEARCH_PAIRS_MAX * POINT];
    for (int64_t i = 0; i < r->count; i++) {
        to_numbers(&r->points[i], points + i * POINT);
    }
    int rc = state_put_text(to, key, of, err);
    rc = rc == 0 ? state_put_ints(to, counts_name, counts, COUNTS, err) : rc;
    rc = rc == 0 ? state_put_reals(to, points_name, points, r->count * POINT, err) : rc;
    if (r->metric != SEARCH_EVIDENCE) {
        return rc;
    }
    for (int64_t i = 0; i < r->count; i++) {
        points[i] = r->points[i].evidence;
    }
    return rc == 0 ? state_put_reals(to, evidence_name, points, r->count, err) : rc;
}

/* Of those that were judged by it. */
static bool take_evidence(const struct state *from, struct search_result *r)
{
    double evidence[SEARCH_PAIRS_MAX];
    struct err err;
    const bool judged = r->metric == SEARCH_EVIDENCE;
    if (judged && state_get_reals(from, evidence_name, evidence, r->count, &err) < 0) {
        return false;
    }
    for (int64_t i = 0; i < r->count; i++) {
        r->points[i].evidence = judged ? evidence[i] : (double)NAN;
    }
    return true;
}

static bool sensible(const struct search_result *r)
{
    const bool counts = r->count > 0 && r->count <= SEARCH_PAIRS_MAX && r->best >= 0 &&
                        r->best < r->count && r->rows > 0 && r->centers >= 0 && r->folds >= 0 &&
                        (unsigned)r->metric <= SEARCH_EVIDENCE;
    bool points = true;
    for (int64_t i = 0; counts && i < r->count; i++) {
        const struct search_point *p = &r->points[i];
        points = points && p->regularization > 0 && isfinite(p->regularization) &&
                 (isnan(p->bandwidth) || (p->bandwidth > 0 && isfinite(p->bandwidth)));
    }
    return counts && points;
}

bool search_result_load(const struct state *from, const char *of, struct search_result *ret)
{
    const char *made_on = state_text(from, key);
    int64_t counts[COUNTS];
    struct err err;
    if (made_on == NULL || strcmp(made_on, of) != 0 ||
        state_get_ints(from, counts_name, counts, COUNTS, &err) < 0 || counts[0] < 1 ||
        counts[0] > SEARCH_PAIRS_MAX) {
        return false;
    }
    double points[SEARCH_PAIRS_MAX * POINT];
    if (state_get_reals(from, points_name, points, counts[0] * POINT, &err) < 0) {
        return false;
    }
    struct search_result r = {.count = counts[0],
                              .best = counts[1],
                              .rows = counts[2],
                              .centers = counts[3],
                              .folds = counts[4],
                              .sampled = counts[5] != 0,
                              .metric = (enum search_metric)counts[6]};
    for (int64_t i = 0; i < r.count; i++) {
        r.points[i] = from_numbers(points + i * POINT);
    }
    if (!sensible(&r) || !take_evidence(from, &r)) {
        return false;
    }
    *ret = r;
    return true;
}
