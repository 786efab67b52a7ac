/*
 * The `promote` object of a job: the alias that its model is to get where its metrics on the test
 * rows are good enough.
 *
 *   {"alias": "prod", "if": {"smape": {"lt": 0.02, "le": "current"}, "r2": {"gt": 0.9}}}
 *
 * Every condition must hold. "current" is the same metric of the version that the alias stands for
 * at that moment, as its own job found it; where the alias stands for none yet, a comparison with
 * it holds as soon as there is a metric. No conditions: the model is promoted when the job
 * succeeds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "wire/search.h"

#define PROMOTE_ALIAS_MAX 64      /* the rule is that of models' names: spec_name_valid */
#define PROMOTE_CONDITIONS_MAX 24 /* six metrics, four comparisons */

enum promote_op { PROMOTE_LT, PROMOTE_LE, PROMOTE_GT, PROMOTE_GE };

struct promote_condition {
    enum search_metric metric; /* not SEARCH_AUTO */
    enum promote_op op;
    bool current;
    double limit; /* where not current */
};

struct promote_spec {
    char alias[PROMOTE_ALIAS_MAX + 1]; /* "": no promotion was asked for */
    int count;
    struct promote_condition conditions[PROMOTE_CONDITIONS_MAX];
};

/* `j` is the job's document; null stands for absent. Pointers "#/promote/…". */
int promote_read(const struct json *j, struct promote_spec *ret, struct err *err);
void promote_write(const struct promote_spec *s, struct json *j); /* "promote": null when absent */

/* Whether the metrics will be there. `classes` is 0 for a regression; `tested` whether there will
 * be test rows. -ERR_INVALID at "#/promote/if/…". */
int promote_check(const struct promote_spec *s, int64_t classes, bool tested, struct err *err);

/* Whether all conditions that compare with a number hold; `metrics` is the object of a job's
 * result. */
bool promote_worth(const struct promote_spec *s, const struct json *metrics);
/*
 * Whether all hold, and in *ret_conditions (for the caller to free; NULL on lack of memory) each as
 *   {"metric":"smape","op":"le","current":true,"limit":0.03,"value":0.02,"met":true}
 * `current` is the metrics' object of the version that the alias stands for: NULL where it stands
 * for none, and JSON null where nothing is known of them; then no comparison with it holds.
 */
bool promote_decide(const struct promote_spec *s, const struct json *metrics,
                    const struct json *current, struct json **ret_conditions);
