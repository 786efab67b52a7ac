#include "wire/search.h"

#include <string.h>

#include "base/mem.h"
#include "wire/field.h"
#include "wire/param.h"

enum { FOLDS_MIN = 2, FOLDS_MAX = 50 };

static const char *const metric_names[] = {"smape",    "rmse", "mae",      "r2",
                                           "accuracy", "auc",  "evidence", NULL};

static const struct param_def search_params[] = {
    {
        .key = "metric",
        .type = PARAM_CHOICE,
        .choices = metric_names,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "What decides, of rows left out; auto: rmse for regression, accuracy for "
                "classification. evidence: how likely a pair makes the targets of all rows, by "
                "the gaussian process that the solver takes the model for.",
    },
    {
        .key = "max_rows",
        .type = PARAM_INT,
        .min = 100,
        .max = 12000, /* seven minutes of one core a bandwidth */
        .fallback = "4000",
        .help =
            "Of more training rows than these, models on centers are judged; with folds, a sample.",
    },
    {.key = NULL},
};

const char *search_metric_name(enum search_metric m)
{
    return m == SEARCH_AUTO ? "auto" : metric_names[m - 1];
}

bool search_metric_classifies(enum search_metric m)
{
    return m == SEARCH_ACCURACY || m == SEARCH_AUC;
}

bool search_metric_rises(enum search_metric m)
{
    return m == SEARCH_R2 || search_metric_classifies(m);
}

static bool is_absent(const struct json *j)
{
    return j == NULL || json_type(j) == JSON_NULL;
}

/* obj[key]: absent, or an array of 1 to SEARCH_PAIRS_MAX numbers greater than 0. */
static int read_list(const struct json *obj, const char *key, double **ret, int64_t *ret_count,
                     struct err *err)
{
    const struct json *list = json_get(obj, key);
    if (list == NULL) {
        return 0;
    }
    const int64_t count = json_type(list) == JSON_ARRAY ? json_size(list) : 0;
    if (count < 1 || count > SEARCH_PAIRS_MAX) {
        return field_wrong(err, key, FIELD_WHOLE, list, "an array of 1 to %d numbers",
                           SEARCH_PAIRS_MAX);
    }
    *ret = mem_array((size_t)count, sizeof(**ret));
    if (*ret == NULL) {
        return err_no_memory(err);
    }
    *ret_count = count;
    int64_t i = 0;
    for (const struct json *item = json_first(list); item != NULL; item = json_next(item), i++) {
        const double v = json_type(item) == JSON_NUMBER ? json_number(item) : 0;
        if (!(v > 0 && v <= 1e100)) {
            return field_wrong(err, key, i, item, "a number greater than 0 and at most 1e100");
        }
        (*ret)[i] = v;
    }
    return 0;
}

static int read_folds(const struct json *obj, struct search_spec *s, struct err *err)
{
    static const char key[] = "folds";
    const struct json *given = json_get(obj, key);
    const bool loo =
        given != NULL && json_type(given) == JSON_STRING && strcmp(json_string(given), "loo") == 0;
    if (given == NULL || loo) {
        return 0;
    }
    if (!field_count(given, &s->folds) || s->folds < FOLDS_MIN || s->folds > FOLDS_MAX) {
        return field_wrong(err, key, FIELD_WHOLE, given, "\"loo\" or a whole number of %d to %d",
                           FOLDS_MIN, FOLDS_MAX);
    }
    return 0;
}

static int read_fields(const struct json *obj, struct search_spec *s, struct err *err)
{
    static const char *const also[] = {"regularization", "bandwidth", "folds", NULL};
    struct param_set set;
    int rc = param_read(search_params, obj, also, &set, err);
    if (rc < 0) {
        return rc;
    }
    const struct param_value *metric = param_get(&set, "metric");
    s->metric = SEARCH_AUTO;
    while (!metric->is_auto && strcmp(search_metric_name(s->metric), metric->choice) != 0) {
        s->metric++;
    }
    s->max_rows = param_int(&set, "max_rows");
    if (obj == NULL) {
        return 0;
    }
    rc = read_list(obj, "regularization", &s->regularization, &s->regularizations, err);
    rc = rc < 0 ? rc : read_list(obj, "bandwidth", &s->bandwidth, &s->bandwidths, err);
    return rc < 0 ? rc : read_folds(obj, s, err);
}

static int fill_default(struct search_spec *s, struct err *err)
{
    static const double grid[] = {1e-12, 3e-12, 1e-11, 3e-11, 1e-10, 3e-10, 1e-9, 3e-9,
                                  1e-8,  3e-8,  1e-7,  3e-7,  1e-6,  3e-6,  1e-5, 3e-5,
                                  1e-4,  3e-4,  1e-3,  3e-3,  1e-2,  3e-2,  1e-1};
    s->regularization = mem_dup(grid, sizeof(grid));
    if (s->regularization == NULL) {
        return err_no_memory(err);
    }
    s->regularizations = sizeof(grid) / sizeof(grid[0]);
    return 0;
}

static int check(const struct search_spec *s, struct err *err)
{
    if (s->regularizations == 0 && s->bandwidths == 0) {
        return err_at(err, ERR_INVALID, "#",
                      "Nothing to search for: give \"regularization\" or \"bandwidth\", or the "
                      "job's regularization \"auto\".");
    }
    if (search_regularizations(s) * search_bandwidths(s) > SEARCH_PAIRS_MAX) {
        return err_at(err, ERR_INVALID, "#",
                      "At most %d pairs of regularization and bandwidth are tried.",
                      SEARCH_PAIRS_MAX);
    }
    if (s->metric == SEARCH_EVIDENCE && s->folds > 0) {
        return err_at(err, ERR_INVALID, "#/folds",
                      "The evidence is of all rows: leave this out, or say \"loo\".");
    }
    return 0;
}

int search_read(const struct json *j, bool asked, struct search_spec *ret, struct err *err)
{
    const struct json *obj = json_get(j, "search");
    struct search_spec s = {.wanted = asked || !is_absent(obj)};
    if (!s.wanted) {
        *ret = s;
        return 0;
    }
    if (!is_absent(obj) && json_type(obj) != JSON_OBJECT) {
        return field_wrong(err, "search", FIELD_WHOLE, obj, "an object");
    }
    int rc = read_fields(is_absent(obj) ? NULL : obj, &s, err);
    if (rc == 0 && asked && s.regularizations == 0) {
        rc = fill_default(&s, err);
    }
    rc = rc < 0 ? rc : check(&s, err);
    if (rc < 0) {
        search_deinit(&s);
        err_prefix(err, "#/search");
        return rc;
    }
    *ret = s;
    return 0;
}

static void write_list(const double *values, int64_t count, const char *key, struct json *obj)
{
    if (count == 0) {
        return;
    }
    struct json *list = json_set_array(obj, key);
    for (int64_t i = 0; i < count; i++) {
        json_push(list, json_new_number(values[i]));
    }
}

void search_write(const struct search_spec *s, struct json *j)
{
    if (!s->wanted) {
        json_set(j, "search", json_new_null());
        return;
    }
    struct json *obj = json_set_object(j, "search");
    write_list(s->regularization, s->regularizations, "regularization", obj);
    write_list(s->bandwidth, s->bandwidths, "bandwidth", obj);
    json_set_string(obj, "metric", search_metric_name(s->metric));
    if (s->folds == 0) {
        json_set_string(obj, "folds", "loo");
    } else {
        json_set_int(obj, "folds", s->folds);
    }
    json_set_int(obj, "max_rows", s->max_rows);
}

void search_deinit(struct search_spec *s)
{
    s->regularization = mem_free(s->regularization);
    s->bandwidth = mem_free(s->bandwidth);
}
