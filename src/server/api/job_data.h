/*
 * The data sets that a job's spec names, as they are described in the store: found, and checked
 * against the spec.
 */
#pragma once

#include "wire/dataset.h"
#include "wire/spec.h"

struct app;

struct job_data {
    const struct dataset_info *train;
    const struct dataset_info *test, *centers; /* NULL: the spec names none */
};

/* Refuses a data set that is not there and a spec that does not fit it, with a pointer into the
 * spec. The descriptions stay those of app->described (described.h). */
int job_data_find(const struct app *app, const struct job_spec *spec, struct job_data *ret,
                  struct err *err);
