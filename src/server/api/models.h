/* What the model and prediction handlers share: the version a path names. */
#pragma once

#include "server/http/http.h"
#include "store/models.h"

struct served_model;

struct app;

/* As GET shows it. */
struct json *models_view(struct app *app, const struct model_row *row);

/* What bounds the model's predictions (h_limits.c); NULL for lack of memory or a store that fails.
 */
struct json *limits_view(struct app *app, const char *name);

/* param[0] is the name, param[1] the version or NULL for the newest. */
int models_find(struct request *rq, struct model_row *ret, struct err *err);
/* Whether the model that param[0] names has any version; where it has none, that is the answer. */
bool models_exist(struct request *rq);
/* The same for predictions, which may also name an alias: param[1], where the route says {alias}.
 * The caller releases *ret (served.h). */
int models_find_served(struct request *rq, const struct served_model **ret, struct err *err);
