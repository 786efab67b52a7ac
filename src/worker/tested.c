#include "worker/tested.h"

#include "base/mem.h"
#include "base/rng.h"
#include "engine/data/columns.h"
#include "engine/metrics.h"

/* Apart from the streams that the engine draws from with the same seed. */
#define STREAM 0x7e57ed

static bool has_classes(const struct tested_rows *all)
{
    return all->columns->task == TASK_CLASSIFICATION;
}

static int64_t sample_size(const struct tested_rows *all)
{
    const int64_t values = has_classes(all) ? 1 : all->t;
    const int64_t most = values < TESTED_VALUES_MAX ? TESTED_VALUES_MAX / values : 1;
    const int64_t rows = most < TESTED_ROWS_MAX ? most : TESTED_ROWS_MAX;
    return all->m < rows ? all->m : rows;
}

/* Row i of a column-major matrix [m, t]. */
static struct json *numbers(const struct tested_rows *all, const double *values, int64_t i)
{
    if (all->t == 1) {
        return json_new_number(values[i]);
    }
    struct json *row = json_new_array();
    for (int64_t j = 0; j < all->t; j++) {
        json_push(row, json_new_number(values[i + j * all->m]));
    }
    return row;
}

/* The first class with the largest score, as metrics_classification has it. */
static int64_t predicted_class(const struct tested_rows *all, int64_t i)
{
    int64_t best = 0;
    for (int64_t j = 1; j < all->t; j++) {
        if (all->predicted[i + j * all->m] > all->predicted[i + best * all->m]) {
            best = j;
        }
    }
    return best;
}

static void describe(const struct tested_rows *all, struct json *j)
{
    const struct columns *c = all->columns;
    json_set_string(j, "task", has_classes(all) ? "classification" : "regression");
    struct json *targets = json_set_array(j, "targets");
    for (int64_t k = 0; k < c->targets; k++) {
        json_push(targets, json_new_string(all->names[c->target[k]]));
    }
    struct json *classes = has_classes(all) ? json_new_array() : json_new_null();
    for (int64_t k = 0; k < c->classes; k++) {
        json_push(classes, json_new_string(c->labels[k]));
    }
    json_set(j, "classes", classes);
    json_set_int(j, "test_rows", all->m);
}

static void add_rows(const struct tested_rows *all, const int64_t *chosen, int64_t count,
                     struct json *j)
{
    char *const *labels = all->columns->labels;
    struct json *rows = json_set_array(j, "rows");
    struct json *truth = json_set_array(j, "truth");
    struct json *predictions = json_set_array(j, "predictions");
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = chosen[k];
        json_push(rows, json_new_number((double)all->rows[i]));
        if (has_classes(all)) {
            json_push(truth, json_new_string(labels[all->truth_class[i]]));
            json_push(predictions, json_new_string(labels[predicted_class(all, i)]));
        } else {
            json_push(truth, numbers(all, all->truth, i));
            json_push(predictions, numbers(all, all->predicted, i));
        }
    }
}

int tested_sample(const struct tested_rows *all, uint64_t seed, struct json **ret, struct err *err)
{
    const int64_t count = sample_size(all);
    cleanup_mem int64_t *chosen = mem_array((size_t)count, sizeof(*chosen));
    if (chosen == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new(seed, STREAM);
    const int r = rng_choose(&rng, all->m, count, chosen, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *j = json_new_object();
    describe(all, j);
    add_rows(all, chosen, count, j);
    if (!json_ok(j)) {
        return err_no_memory(err);
    }
    *ret = j;
    j = NULL;
    return 0;
}

static struct json *target_metrics(const struct tested_rows *all, int64_t k)
{
    const int64_t m = all->m;
    const struct metrics found =
        metrics_regression(all->predicted + k * m, all->truth + k * m, m, 1);
    struct json *one = json_new_object();
    json_set_string(one, "target", all->names[all->columns->target[k]]);
    json_set_number(one, "smape", found.smape);
    json_set_number(one, "rmse", found.rmse);
    json_set_number(one, "mae", found.mae);
    json_set_number(one, "r2", found.r2);
    return one;
}

int tested_targets(const struct tested_rows *all, struct json **ret, struct err *err)
{
    const bool alone = has_classes(all) || all->t == 1;
    cleanup_json struct json *list = alone ? json_new_null() : json_new_array();
    for (int64_t k = 0; !alone && k < all->t && k < TESTED_TARGETS_MAX; k++) {
        json_push(list, target_metrics(all, k));
    }
    if (!json_ok(list)) {
        return err_no_memory(err);
    }
    *ret = list;
    list = NULL;
    return 0;
}
