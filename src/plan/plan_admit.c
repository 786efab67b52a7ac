#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/rules.h"

#define LEAST_CENTERS 10 /* fewer are not worth proposing */

/* Of the host, beside a device with memory of its own. */
static double must_have(const struct plan *p)
{
    return p->host_bytes - p->mapped_bytes;
}

/* What is asked for at once must be there, even where not all of it is touched. */
static bool fits(const struct plan *p, const struct plan_machine *m)
{
    if (m->own_memory) {
        return must_have(p) <= (double)m->limit_bytes &&
               p->reserved_bytes - must_have(p) <= (double)m->device_bytes;
    }
    return p->reserved_bytes <= (double)m->limit_bytes;
}

/* The same job with another solver, its parameters and its preconditioner at their defaults. */
static struct job_spec with_solver(const struct job_spec *spec, const char *name)
{
    struct job_spec other = *spec; /* borrows what the spec owns */
    other.solver.method = catalog_find(CATALOG_SOLVERS, name);
    other.solver.preconditioner = NULL;
    param_read(other.solver.method->params, NULL, NULL, &other.solver.params, NULL);
    return other;
}

static bool spec_fits(const struct job_spec *spec, const struct plan_data *data,
                      const struct plan_machine *machine, double *ret_bytes)
{
    struct plan p;
    plan_make(spec, data, machine, &p);
    *ret_bytes = machine->own_memory ? p.device_bytes : p.reserved_bytes;
    return fits(&p, machine);
}

/* A full model by a method that needs less, or "". */
static void advise_solver(const struct job_spec *spec, const struct plan_data *data,
                          const struct plan_machine *machine, char *ret, size_t size)
{
    static const char *const thrifty[] = {"pcg", "askotch2"};
    double bytes;
    for (size_t i = 0; i < sizeof(thrifty) / sizeof(thrifty[0]); i++) {
        struct job_spec other = with_solver(spec, thrifty[i]);
        other.kernel_cache_bytes = 0;
        if (spec_fits(&other, data, machine, &bytes)) {
            snprintf(ret, size, " The solver \"%s\" would take %.3g GB.", thrifty[i], bytes / 1e9);
            return;
        }
    }
}

/* other->centers.count <- the first of `most`, its half, ... with which the job fits, and the bytes
 * it takes then; 0: with none. */
static int64_t fitting_centers(struct job_spec *other, const struct plan_data *data,
                               const struct plan_machine *machine, int64_t most, double *ret_bytes)
{
    for (int64_t m = most; m >= LEAST_CENTERS; m /= 2) {
        other->centers.count = m;
        if (spec_fits(other, data, machine, ret_bytes)) {
            return m;
        }
    }
    return 0;
}

/* Uniform ones, with parameters at their defaults. */
static void take_centers(struct job_spec *spec)
{
    spec->centers.method = catalog_list(CATALOG_CENTERS);
    param_read(spec->centers.method->params, NULL, NULL, &spec->centers.params, NULL);
}

/* A restricted model with as many centers as fit, at most the usual number or what was asked for:
 * halves. */
static void advise_centers(const struct job_spec *spec, const struct plan_data *data,
                           const struct plan_machine *machine, int64_t most, char *ret, size_t size)
{
    const bool restricted = spec->centers.method != NULL;
    struct job_spec other = restricted ? *spec : with_solver(spec, "auto");
    if (other.centers.dataset[0] != '\0') {
        return; /* its rows are the centers, all that were asked for */
    }
    if (!restricted) {
        take_centers(&other);
        other.search.folds = 0; /* for full models only */
    }
    double bytes;
    const int64_t m = fitting_centers(&other, data, machine, most, &bytes);
    if (m > 0) {
        snprintf(ret, size, " A model on %lld centers would take %.3g GB.", (long long)m,
                 bytes / 1e9);
    }
}

/* A model with variances, as the job's would be: on as many centers as fit. */
static void advise_inducing(const struct job_spec *spec, const struct plan_data *data,
                            const struct plan_machine *machine, int64_t most, char *ret,
                            size_t size)
{
    struct job_spec other = with_solver(spec, "inducing");
    double bytes;
    take_centers(&other);
    other.search.folds = 0; /* for full models only */
    const int64_t m = fitting_centers(&other, data, machine, most, &bytes);
    if (m > 0) {
        snprintf(ret, size, " The solver \"inducing\" on %lld centers would take %.3g GB.",
                 (long long)m, bytes / 1e9);
    }
}

/* ---- what a job leaves open ---- */

struct settling {
    const struct plan_data *data;
    const struct plan_machine *machine;
    const struct experience *experience; /* NULL: none */
};

static bool in_time(const struct settling *s, const struct job_spec *spec)
{
    if (isinf(spec->stop.time_budget_s)) {
        return true;
    }
    struct plan p;
    plan_make(spec, s->data, s->machine, &p);
    cleanup_json struct json *j = plan_to_json(&p, s->machine);
    if (j != NULL && s->experience != NULL) {
        experience_correct(s->experience, spec, j);
    }
    return plan_in_time(spec, j);
}

/* The first of `most`, its half, ... that is in time; 0: none is. */
static int64_t timely_centers(const struct settling *s, const struct job_spec *spec, int64_t most)
{
    struct job_spec other = *spec;
    for (int64_t m = most; m >= LEAST_CENTERS; m /= 2) {
        other.centers.count = m;
        if (in_time(s, &other)) {
            return m;
        }
    }
    return 0;
}

/* A job that names a solver on centers, or how they are selected, but not their number, and whose
 * selector has no number of its own. The usual one stays open. */
static void take_fewer_centers(const struct settling *s, struct job_spec *spec)
{
    const bool open = spec->centers.count == 0 && spec->centers.dataset[0] == '\0' &&
                      !spec->centers.method->weighted && spec->warm_start.model[0] == '\0';
    double bytes;
    if (!open || (spec_fits(spec, s->data, s->machine, &bytes) && in_time(s, spec))) {
        return;
    }
    struct plan usual;
    plan_make(spec, s->data, s->machine, &usual);
    struct job_spec other = *spec; /* borrows what the spec owns */
    const int64_t fitting =
        fitting_centers(&other, s->data, s->machine, rule_centers(usual.train_rows), &bytes);
    const int64_t timely = timely_centers(s, &other, fitting);
    const int64_t taken = timely > 0 ? timely : fitting;
    spec->centers.count = taken < usual.centers ? taken : 0;
}

void plan_take_centers(struct job_spec *spec, const struct plan_data *data,
                       const struct plan_machine *machine, const struct experience *experience)
{
    const struct settling s = {.data = data, .machine = machine, .experience = experience};
    if (spec->centers.method != NULL) {
        take_fewer_centers(&s, spec);
        return;
    }
    if (strcmp(spec->solver.method->name, "auto") != 0 ||
        spec->search.folds > 0) { /* for full models only */
        return;
    }
    struct plan full;
    plan_make(spec, data, machine, &full);
    const bool many = full.train_rows > rule_full_rows(machine->own_memory);
    if (!many && (spec->warm_start.model[0] != '\0' || in_time(&s, spec))) {
        return;
    }
    struct job_spec other = *spec; /* borrows what the spec owns */
    double bytes;
    take_centers(&other);
    const int64_t most = rule_open_centers(full.train_rows);
    const int64_t fitting = fitting_centers(&other, data, machine, most, &bytes);
    const int64_t timely = timely_centers(&s, &other, fitting);
    if (timely > 0 || (many && fitting > 0)) {
        spec->centers = other.centers;
        spec->centers.count = timely > 0 ? timely : fitting;
    }
}

/* As engine/search/search.c; where a mask divides the rows, how many train is not known, but not
 * more. */
static int check_folds(const struct job_spec *spec, const struct plan *plan, struct err *err)
{
    if (spec->search.folds <= plan->train_rows) {
        return 0;
    }
    return err_at(err, ERR_INVALID, "#/search/folds",
                  "There are %lld folds and %s%lld training rows.", (long long)spec->search.folds,
                  plan->assumed ? "at most " : "", (long long)plan->train_rows);
}

int plan_admit(const struct job_spec *spec, const struct plan_data *data,
               const struct plan_machine *machine, const struct plan *plan, struct err *err)
{
    const int r = check_folds(spec, plan, err);
    if (r < 0) {
        return r;
    }
    if (fits(plan, machine)) {
        return 0;
    }
    char advice[2][96] = {"", ""};
    if (plan->centers > 0) {
        advise_centers(spec, data, machine, plan->centers / 2, advice[1], sizeof(advice[1]));
    } else if (strcmp(plan->solver, "kmcg") == 0) {
        advise_inducing(spec, data, machine, rule_centers(plan->train_rows), advice[0],
                        sizeof(advice[0]));
    } else {
        advise_solver(spec, data, machine, advice[0], sizeof(advice[0]));
        advise_centers(spec, data, machine, rule_centers(plan->train_rows), advice[1],
                       sizeof(advice[1]));
    }
    const bool device = machine->own_memory && must_have(plan) <= (double)machine->limit_bytes;
    const double need = device                ? plan->reserved_bytes - must_have(plan)
                        : machine->own_memory ? must_have(plan)
                                              : plan->reserved_bytes;
    const double limit = (double)(device ? machine->device_bytes : machine->limit_bytes);
    return err_at(err, ERR_DOES_NOT_FIT, plan->centers > 0 ? "#/centers" : "#/solver",
                  "The job would need %.3g GB of %s memory with the solver \"%s\", and a worker "
                  "has %.3g GB%s.%s%s",
                  need / 1e9, device ? "device" : "host", plan->solver, limit / 1e9,
                  device ? "" : " (--worker-memory-bytes)", advice[0], advice[1]);
}
