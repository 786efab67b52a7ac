/*
 * What finished jobs taught of the seconds of plans: texts that the store does not look into
 * (plan/experience.h), the newest EXPERIENCE_KEPT. jobs_finish adds them.
 */
#pragma once

#include <stdint.h>

#include "store/store.h"

#define EXPERIENCE_KEPT 512

/* Oldest first. */
int experience_each(struct store *s, void (*visit)(void *context, const char *record),
                    void *context, struct err *err);
