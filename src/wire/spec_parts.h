/* What spec_read.c, spec_methods.c and spec_solver.c share. */
#pragma once

#include "wire/spec.h"

/* Puts "#/key" in front of the pointer of an error; returns rc. */
int spec__within(const char *key, int rc, struct err *err);

/* obj["dataset"]: the id of a data set. */
int spec__read_dataset_id(const struct json *obj, char ret[ID_SIZE], struct err *err);

int spec__read_kernel(const struct json *j, struct job_spec *spec, struct err *err);
int spec__read_solver(const struct json *j, struct job_spec *spec, struct err *err);
/* Once the solver and the search are known, whose business it is too. */
int spec__read_centers(const struct json *j, struct job_spec *spec, struct err *err);
/* Once all parts that a solver has to do with are known. */
int spec__check_solver(const struct job_spec *spec, struct err *err);
