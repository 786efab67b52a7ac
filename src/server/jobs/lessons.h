/*
 * Plans that learn (plan/experience.h): what finished jobs taught is in the store and here, and
 * corrects the seconds of plans.
 */
#pragma once

#include "plan/experience.h"

struct app;
struct lessons;

/* With what the store has; what cannot be read is left out, and logged. */
int lessons_new(struct app *app, struct lessons **ret, struct err *err);
struct lessons *lessons_free(struct lessons *l);

/* For as long as l lives and nothing is kept; NULL where l is. */
const struct experience *lessons_experience(const struct lessons *l);
/* Of a plan that has just been made; l may be NULL. */
void lessons_correct(const struct lessons *l, const struct job_spec *spec, struct json *plan);

/* A job as it was ordered: JSON texts; `plan` may be NULL. */
struct lessons_job {
    const char *spec, *plan;
    const char *device; /* that it ran on */
};
/* What its end teaches, by the worker's DONE: *ret, and JSON text for the store (mem_free). NULL:
 * nothing. */
char *lessons_draw(const struct lessons_job *job, const struct json *done,
                   struct experience_record *ret);
/* Once the store has it for good. */
void lessons_keep(struct lessons *l, const struct experience_record *r);
