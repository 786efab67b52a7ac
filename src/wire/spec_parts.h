/* What spec_read.c and spec_methods.c share. */
#pragma once

#include "wire/spec.h"

/* Puts "#/key" in front of the pointer of an error; returns rc. */
int spec__within(const char *key, int rc, struct err *err);

int spec__read_kernel(const struct json *j, struct job_spec *spec, struct err *err);
int spec__read_solver(const struct json *j, struct job_spec *spec, struct err *err);
