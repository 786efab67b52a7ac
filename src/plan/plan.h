/*
 * What a job would take, before it runs: from its spec, the sizes of its data sets and what is
 * known of the machine. Arithmetic alone: no data are read and nothing is allocated, so that the
 * daemon plans every job as it comes in (adr/0023). tests/conformance/test_plan.c holds the bytes
 * of each method to what its code takes, tests/http/test_plan.py whole jobs, and bench/plan.py the
 * seconds.
 *
 * Memory is what is resident at the worst moment of the job; a matrix of which only a half is
 * touched counts as a half there, and as a whole in `reserved_bytes`, which is what the engine asks
 * the machine for; pages of files that a restricted model reads in tiles count there alone, since
 * the system takes them back. Unknown before a job runs, and so assumed:
 *   - a mask's test rows: none, so that all rows train;
 *   - centers of selectors that find their own number: by the spectrum of such sizes (spectrum.h);
 *   - ranks that turn out smaller, and batches of eigenpro that turn out smaller: the largest;
 *   - max k(x,x): 1; a search's result: the job's own regularization, or 1e-6.
 */
#pragma once

#include "plan/experience.h"
#include "plan/machine.h"
#include "wire/dataset.h"
#include "wire/spec.h"

enum plan_part {
    PLAN_PROCESS,        /* the worker before the job */
    PLAN_LIBRARY,        /* OpenBLAS's buffers and the threads' scratch */
    PLAN_DATA,           /* mapped files, standardised rows, targets, predictions on the host */
    PLAN_POINTS,         /* rows and centers prepared for the kernel */
    PLAN_VECTORS,        /* right-hand sides, coefficients, and the solver's vectors */
    PLAN_SOLVER,         /* its matrices */
    PLAN_PRECONDITIONER, /* its factors */
    PLAN_KERNEL_CACHE,   /* kernel values that are kept */
    PLAN_OTHER,          /* search, selection of centers, certificate */
    PLAN_PARTS
};
const char *plan_part_name(enum plan_part p); /* "process" */

struct plan {
    const char *solver;         /* static names */
    const char *preconditioner; /* NULL: none */
    const char *kernel;         /* NULL: chosen by data */
    enum precision precision;
    int64_t train_rows, test_rows, features, targets;
    int64_t centers;            /* 0: a full model */
    int64_t rank;               /* of the preconditioner, at most; 0: it has none */
    int64_t block_rows;         /* of a block or a batch, where the method works by them; else 0 */
    int64_t kernel_cache_bytes; /* that kernel values may take which are kept; 0: none are */
    bool assumed;               /* something above is not known before the job runs */
    /* Bytes. Parts add up to host_bytes and device_bytes. */
    double parts[PLAN_PARTS];
    double host_bytes, device_bytes, reserved_bytes;
    double mapped_bytes; /* of host_bytes: files that are read in tiles, which leave when others
                            need the memory, and are not in reserved_bytes */
    const char *moment;  /* of the peak: "loading", "search", "centers", "solving", "certifying" */
    /* Seconds, as the machine's rates have them (experience.h corrects them); NaN: not known. */
    double setup_s, iteration_s, finish_s;
    double choice_s;    /* of what the job leaves open, to its end: what the time budget cuts off is
                           not in setup_s */
    int64_t iterations; /* the limit; 0: a direct method */
    double total_s;     /* to that limit, at most the time budget */
};

struct plan_data {
    const struct dataset_info *train;
    const struct dataset_info *test, *centers; /* NULL: the spec names none */
};

/* The spec has passed job_spec_check_columns. */
void plan_make(const struct job_spec *spec, const struct plan_data *data,
               const struct plan_machine *machine, struct plan *ret);

/*
 * A job that leaves both solver and centers open, and searches with no folds, becomes one with
 * centers on more training rows than rule_full_rows, and where its time budget is too short for a
 * full model (plan_in_time), unless it goes on from an earlier model: uniform ones,
 * rule_open_centers of them or the largest of its halves that fits the machine and is in time.
 * Where none is in time, time decides nothing, and where none fits the job stays as it is. One that
 * has centers and leaves their number open, without a warm start or a selector that finds it, has
 * the largest of the usual number's halves by the same rule where the usual one is too many.
 * `experience` may be NULL.
 */
void plan_take_centers(struct job_spec *spec, const struct plan_data *data,
                       const struct plan_machine *machine, const struct experience *experience);

/*
 * Whether the job can ever run where a worker has machine->limit_bytes, and its device
 * machine->device_bytes. -ERR_DOES_NOT_FIT states what is needed, what there is, and what would
 * fit: another solver, fewer centers. -ERR_INVALID at "#/search/folds": more than training rows.
 */
int plan_admit(const struct job_spec *spec, const struct plan_data *data,
               const struct plan_machine *machine, const struct plan *plan, struct err *err);

/* The job's `plan` object; NULL on lack of memory. */
struct json *plan_to_json(const struct plan *p, const struct plan_machine *machine);

/* Of a plan as JSON, corrected by experience: whether the job's time budget is long enough for
 * coefficients that are worth it, twenty iterations (eight on centers) and what comes after them,
 * with half of it to spare for what comes before. True without a budget, or where nobody knows the
 * seconds. */
bool plan_in_time(const struct job_spec *spec, const struct json *plan);
/* Sets its `warnings`: what the time budget will make of the job, a full model of very many rows
 * that it did not ask for, and a test on the rows that it is trained on. */
void plan_warn(const struct job_spec *spec, struct json *plan);
