/* Plans of jobs on a data set that is described alone, for a machine of 4 GB. */
#pragma once

#include "engine_fixture.h"
#include "plan/plan.h"

/* 4 GB, and rates of one thread. */
static inline struct plan_machine machine(void)
{
    return (struct plan_machine){
        .threads = 1,
        .limit_bytes = 4000000000,
        .free_bytes = 4000000000,
        .base_bytes = 10000000,
        .rates = {.values_f32 = 2e9,
                  .values_f64 = 1e9,
                  .multiply_adds_f32 = 4e10,
                  .multiply_adds_f64 = 2e10,
                  .bytes = 2e10},
    };
}

static inline struct plan plan_of(const char *fields, int64_t rows, int64_t columns,
                                  const struct plan_machine *m)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, columns, 0);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_make(spec, &data, m, &p);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return p;
}

static inline struct plan plan_for(const char *fields, int64_t rows, const struct plan_machine *m)
{
    return plan_of(fields, rows, 6, m);
}

static inline int admit(const char *fields, int64_t rows, const struct plan_machine *m,
                        struct err *err)
{
    struct job_spec *spec = fixture_spec_read(fields);
    struct dataset_info info = fixture_info(rows, 6, 0);
    const struct plan_data data = {.train = &info};
    struct plan p;
    plan_make(spec, &data, m, &p);
    const int r = plan_admit(spec, &data, m, &p, err);
    dataset_info_deinit(&info);
    job_spec_free(spec);
    return r;
}
