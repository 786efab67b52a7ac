/* What a search has come to, as it is told. */
#include <math.h>

#include "engine/search_parts.h"

double search__score(enum search_metric metric, const struct search_point *p)
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

double search__value(const struct search_result *r, int64_t at)
{
    const double value = search__score(r->metric, &r->points[at]);
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
        ret.value = search__value(r, r->best);
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
