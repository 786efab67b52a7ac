/*
 * The data sets that a job's spec names, as they are described in the store: found, and checked
 * against the spec.
 */
#pragma once

#include "wire/dataset.h"
#include "wire/spec.h"

struct app;
struct request;

struct job_data {
    const struct dataset_info *train;
    const struct dataset_info *test, *centers; /* NULL: the spec names none */
};

/* Refuses a data set that is not there and a spec that does not fit it, with a pointer into the
 * spec. The descriptions stay those of app->described (described.h). */
int job_data_find(const struct app *app, const struct job_spec *spec, struct job_data *ret,
                  struct err *err);

/* Reads on a thread of the pool those descriptions that are long and not kept yet, and then calls
 * then(rq), from which they are found at once. True: rq is deferred until then; false: there is
 * nothing to wait for. */
bool job_data_read_ahead(struct request *rq, const struct job_spec *spec,
                         void (*then)(struct request *rq));
