#include "server/jobs/planner.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/ram.h"
#include "server/app.h"
#include "server/jobs/lessons.h"
#include "server/pool/pool.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What the processes of the other training workers take while they do nothing; `own` NULL: of all
 * but one. */
static int64_t others_bytes(const struct app *app, const struct slot *own)
{
    int64_t sum = 0;
    for (int i = 0; app->pool != NULL && i < pool_size(app->pool); i++) {
        const struct slot *s = pool_slot(app->pool, i);
        const struct plan_machine *said = slot_machine(s);
        own = own == NULL && slot_kind(s) == SLOT_TRAIN ? s : own;
        if (s != own && slot_kind(s) == SLOT_TRAIN) {
            sum += said != NULL ? said->base_bytes : plan_machine_unknown().base_bytes;
        }
    }
    return sum;
}

/* The machine as the worker said; NULL, or one that has said nothing: as is usual. */
static struct plan_machine machine_of(const struct app *app, const struct slot *own)
{
    const struct plan_machine *said = own != NULL ? slot_machine(own) : NULL;
    struct plan_machine m = said != NULL ? *said : plan_machine_unknown();
    const int64_t given = app->config.worker_memory_bytes;
    ram_look(&m.limit_bytes, &m.free_bytes);
    m.limit_bytes = given > 0 ? least(given, m.limit_bytes) : m.limit_bytes;
    if (app->config.train_memory_bytes > 0) {
        const int64_t all = app->config.train_memory_bytes - others_bytes(app, own);
        m.limit_bytes = least(all > 0 ? all : 0, m.limit_bytes);
    }
    m.free_bytes = least(m.free_bytes, m.limit_bytes);
    m.huge_pages = ram_huge_pages();
    return m;
}

/* Where the job fits, what it leaves open of its centers is settled for this machine. */
static int plan_on(const struct app *app, const struct plan_machine *machine, struct job_spec *spec,
                   const struct plan_data *data, char **ret, struct err *err)
{
    struct job_spec settled = *spec; /* borrows what the spec owns */
    struct plan plan;
    plan_take_centers(&settled, data, machine, lessons_experience(app->lessons));
    plan_make(&settled, data, machine, &plan);
    const int r = plan_admit(&settled, data, machine, &plan, err);
    if (r < 0) {
        return r;
    }
    cleanup_json struct json *j = plan_to_json(&plan, machine);
    lessons_correct(app->lessons, &settled, j);
    if (j != NULL) {
        json_set_bool(j, "chooses_centers", settled.centers.count != spec->centers.count);
        plan_warn(&settled, j);
    }
    *ret = j != NULL ? json_print(j) : NULL;
    spec->centers = settled.centers;
    return *ret != NULL ? 0 : err_no_memory(err);
}

/* The next training worker from *index on that may take the job and has measured its machine, or
 * has not; NULL: there is none any more. */
static const struct slot *next_slot(const struct app *app, const char *device, bool measured,
                                    int *index)
{
    while (app->pool != NULL && *index < pool_size(app->pool)) {
        const struct slot *s = pool_slot(app->pool, (*index)++);
        const struct plan_machine *said = slot_machine(s);
        if (slot_kind(s) == SLOT_TRAIN && slot_takes(s, device) &&
            (said != NULL && said->rates.bytes > 0.0) == measured) {
            return s;
        }
    }
    return NULL;
}

/* The plan holds for the device that it was made for, so that the job is kept to devices like it:
 * where another was refused, and where this one has a memory of its own. `refused` may be NULL. */
static void narrow(struct job_spec *spec, const struct slot *fits, const char *refused)
{
    const char *device = slot_device(fits);
    const size_t kind = strcspn(device, ":");
    const bool same = refused != NULL && strncmp(device, refused, kind + 1) == 0;
    if (refused != NULL || slot_machine(fits)->own_memory) {
        snprintf(spec->device, sizeof spec->device, "%.*s", (int)(same ? strlen(device) : kind),
                 device);
    }
}

int planner_plan(const struct app *app, struct job_spec *spec, const struct plan_data *data,
                 char **ret, struct err *err)
{
    const char *refused = NULL;
    for (int pass = 0; pass < 2; pass++) {
        const struct slot *s;
        for (int i = 0; (s = next_slot(app, spec->device, pass == 0, &i)) != NULL;) {
            if (refused != NULL && strcmp(refused, slot_device(s)) == 0) {
                continue;
            }
            const struct plan_machine machine = machine_of(app, s);
            const int r = plan_on(app, &machine, spec, data, ret, err);
            if (r == 0 && pass == 0 && strchr(spec->device, ':') == NULL) {
                narrow(spec, s, refused);
            }
            if (r != -ERR_DOES_NOT_FIT) {
                return r;
            }
            refused = slot_device(s);
        }
    }
    const struct plan_machine usual = machine_of(app, NULL);
    return refused != NULL ? -ERR_DOES_NOT_FIT : plan_on(app, &usual, spec, data, ret, err);
}
