/* What the model and prediction handlers share: the version a path names. */
#pragma once

#include "server/http/http.h"
#include "store/models.h"

/* param[0] is the name, param[1] the version or NULL for the newest. */
int models_find(struct request *rq, struct model_row *ret, struct err *err);
