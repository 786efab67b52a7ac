/* What each column of a data set is to a job: what spec_check.c, spec_others.c and spec_roles.c
 * share. */
#pragma once

#include <stdbool.h>

#include "wire/names.h"
#include "wire/spec.h"

enum role { ROLE_NONE, ROLE_TARGET, ROLE_MASK, ROLE_FEATURE };

struct spec_roles {
    struct name_lookup names;
    unsigned char *roles; /* [columns] enum role */
};
/* -ERR_INVALID where a column is not there, or is asked to be two things. */
int spec__assign_roles(const struct job_spec *spec, const struct dataset_info *info,
                       struct spec_roles *ret, struct err *err);
void spec__roles_deinit(struct spec_roles *c);

#define cleanup_roles __attribute__((cleanup(spec__roles_deinit)))

/* Once the task is known to fit: "auto" classifies where the target is the class column. */
bool spec__classifies(const struct job_spec *spec, const struct dataset_info *info,
                      const struct spec_roles *c);

/* What was filled in would be learned, or would decide who tests. Rows without a target of the
 * upload's own have been left out. `of`: whose rows, where they are others than the job's. */
int spec__check_filled(const struct dataset_info *info, int64_t column, enum role role,
                       const char *of, struct err *err);
