/*
 * The data sets that a job's spec names, as they are described in the store: found, and checked
 * against the spec.
 */
#pragma once

#include "wire/dataset.h"
#include "wire/spec.h"

struct app;

struct job_data {
    struct dataset_info train;
    struct dataset_info test, centers;
    bool tested, centered; /* the spec names those */
};

/* Refuses a data set that is not there and a spec that does not fit it, with a pointer into the
 * spec. *ret can be given to job_data_deinit in any case. */
int job_data_find(const struct app *app, const struct job_spec *spec, struct job_data *ret,
                  struct err *err);
void job_data_deinit(struct job_data *d);
