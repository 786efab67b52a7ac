/*
 * What finished jobs teach of the seconds of plans. A plan's seconds are arithmetic from a few
 * measured rates; what a machine makes of a method's own mixture of work they do not know. Every
 * job that ran through leaves a record: what it was, and by which factor each of its phases took
 * longer than planned. A new plan's seconds are multiplied by the factors of jobs like it.
 *
 * The logarithm of a factor is estimated by kernel regression (Nadaraya, "On estimating
 * regression", Theory of Probability and its Applications 9(1), 1964; Watson, "Smooth regression
 * analysis", Sankhya A 26(4), 1964): the mean of the records' logarithms, each weighted by how like
 * the new job its own was. A gaussian of the distance between the logarithms of their sizes,
 * times a constant for each choice that differs (solver, kernel, …), halved with every 128 records
 * that are newer. On a device of another kind a record says nothing. Records that differ in some
 * choice count together as half a record at most, and for less once there are records of the very
 * same kind: any number of other methods does not outvote the job's own. A prior of 0.15 records
 * keeps single ones from being believed wholly, and stands for jobs whose like never ran: at what
 * all jobs on such a device lately took of what was planned, for a machine that is busy is slow in
 * all that it does; that in turn begins with five records at factor 1.
 *
 * The load of a machine changes within minutes, and then all kinds of jobs take longer or less long
 * than their own records say. So each record keeps by how much its job surprised those before it,
 * the less the fewer there were, and the mean of the latest surprises, halved with every 8 newer
 * ones, is added to every estimate: some jobs of one kind tell of all others. As the records of a
 * kind come to say the same, surprises end.
 *
 * Rates are measured anew at every start of a worker, with whatever else is at work then, and a
 * plan made with lower ones is longer by as much. So a record is brought to the rates of the new
 * plan, and counts less where they differ by far: that is another machine.
 *
 * Arithmetic alone; a record of one job suffices to predict the next one like it on any machine.
 * adr/0035.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "wire/reason.h"
#include "wire/spec.h"

/* Those of plan.seconds (plan.h), the choice of what a job leaves open apart from the rest of its
 * setup: other methods take as long to choose, and the time budget may cut it off. */
enum plan_phase { PLAN_SETUP, PLAN_ITERATION, PLAN_FINISH, PLAN_CHOICE, PLAN_PHASES };

/* What a job is, as far as its seconds go by it. */
enum {
    KIND_SOLVER,
    KIND_PRECONDITIONER,
    KIND_SELECTOR,
    KIND_KERNEL,
    KIND_PRECISION,
    KIND_VERSION,
    KIND_TEXTS
};
enum { KIND_OWN_MEMORY, KIND_THREADS, KIND_RESTRICTED, KIND_KEPT, KIND_SEARCHED, KIND_NUMBERS };
enum { KIND_ROWS, KIND_CENTERS, KIND_FEATURES, KIND_TARGETS, KIND_RANK, KIND_BLOCK, KIND_SIZES };
#define KIND_TEXT_SIZE 32

struct experience_kind {
    char texts[KIND_TEXTS][KIND_TEXT_SIZE]; /* names; "": none, or not known before the job runs */
    int64_t numbers[KIND_NUMBERS];          /* flags are 0 or 1 */
    int64_t sizes[KIND_SIZES];              /* 0: it has none */
    double log2_speed; /* the mean over the rates that its plan was made with (machine.h) */
};

struct experience_record {
    struct experience_kind kind;
    double log_ratio[PLAN_PHASES]; /* of used to planned seconds; NaN: too short to tell */
};

#define EXPERIENCE_RECORDS 512  /* the newest that count */
#define EXPERIENCE_BOUND 8.0    /* factors are within it and its inverse */
#define EXPERIENCE_LEAST_S 0.05 /* a phase that took less says nothing */

/* What a job took of what the records before it let expect. */
struct experience_surprise {
    double weight, log_ratio; /* 0: nothing was expected */
};

struct experience {
    struct experience_record records[EXPERIENCE_RECORDS];
    struct experience_surprise surprises[EXPERIENCE_RECORDS];
    double log_sizes[EXPERIENCE_RECORDS][KIND_SIZES];
    int64_t count; /* all that were ever added; the last of them is at (count - 1) % RECORDS */
};
void experience_add(struct experience *e, const struct experience_record *r);

struct experience_factors {
    double of[PLAN_PHASES]; /* to multiply planned seconds with; 1: nothing is known */
    int64_t jobs;           /* records that weighed at least a hundredth somewhere */
};
struct experience_factors experience_factors(const struct experience *e,
                                             const struct experience_kind *kind);

/* ---- experience_json.c: plans and records as JSON ---- */

/* Of a job by its spec and its plan (plan_to_json). False: the plan is of an earlier version and
 * lacks something. */
bool experience_kind_read(const struct job_spec *spec, const struct json *plan,
                          struct experience_kind *ret);
/* Multiplies the plan's seconds with what experience says, and says so in `seconds.experience`;
 * setup and total are made anew, within what the time budget leaves to the choice and to all.
 * Nothing happens where the plan has no seconds or no
 * record weighs. */
void experience_correct(const struct experience *e, const struct job_spec *spec, struct json *plan);
/*
 * What a job's end teaches: its plan (corrected or not) against its result's `phases`. False:
 * nothing, for it did not run through in one attempt on the kind of device that it was planned for,
 * its plan has no seconds, or no phase was long enough. A job that its time budget ended tells of
 * its iterations alone: what it prepared may have been less than planned; so may a search within a
 * time budget, whose job's setup teaches nothing. A choice that was cut off teaches nothing.
 */
bool experience_record_make(const struct job_spec *spec, const struct json *plan,
                            const struct json *result, enum reason reason, const char *device,
                            struct experience_record *ret);
struct json *experience_record_write(const struct experience_record *r);
/* False: it is damaged, or of another version's making. */
bool experience_record_read(const struct json *from, struct experience_record *ret);
