#include "server/jobs/planner.h"

#include "base/mem.h"
#include "base/ram.h"
#include "server/app.h"
#include "server/pool/pool.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The training worker that has said most of itself. */
static struct plan_machine machine_of(const struct app *app)
{
    struct plan_machine m = plan_machine_unknown();
    for (int i = 0; app->pool != NULL && i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        const struct plan_machine *said = slot_kind(s) == SLOT_TRAIN ? slot_machine(s) : NULL;
        if (said != NULL && !(said->rates.bytes < m.rates.bytes)) {
            m = *said;
        }
    }
    const int64_t given = app->config.worker_memory_bytes;
    m.limit_bytes = given > 0 ? least(given, ram_limit()) : ram_limit();
    m.free_bytes = least(ram_available(), m.limit_bytes);
    m.huge_pages = ram_huge_pages();
    return m;
}

int planner_plan(const struct app *app, const struct job_spec *spec, const struct plan_data *data,
                 char **ret, struct err *err)
{
    const struct plan_machine machine = machine_of(app);
    struct plan plan;
    plan_make(spec, data, &machine, &plan);
    const int r = plan_admit(spec, data, &machine, &plan, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *j = plan_to_json(&plan, &machine);
    *ret = j != NULL ? json_print(j) : NULL;
    return *ret != NULL ? 0 : err_no_memory(err);
}
