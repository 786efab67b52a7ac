/*
 * Looking for what is about to come, again and again for a moment, before going to sleep.
 *
 * Who sleeps has to be woken, which takes longer than a small answer: the scheduler's work, and on
 * a virtual machine the host's. Looking pays only where the wait is short, and costs a processor.
 * So one looks only after SPIN_SURE waits in a row that were shorter than twice the time that may
 * be spent; the first that is longer ends it. Who sleeps learns by the same rule, so that nobody
 * has to look in order to find out whether it would pay. This is the rule of a halted virtual
 * processor (Linux, Documentation/virt/guest-halt-polling.rst), for the wait for a descriptor.
 *
 * Between two looks anybody else may have the processor. Where others want it again and again, or
 * for long, whoever sleeps leaves no processor idle and is woken soon: nobody looks for a while,
 * and each time it happens again for twice as long.
 */
#pragma once

#include <stdbool.h>

enum { SPIN_SURE = 8 };

struct spin {
    double most_s;   /* how long to look; 0: never */
    double began_s;  /* the present wait, monotonic */
    int paid;        /* short waits in a row, SPIN_SURE at most */
    double resume_s; /* nobody looks before */
    double pause_s;  /* of the next such time */
};

/* It never looks where this process has fewer than two processors: it may run on one alone, or its
 * control group has less time of them, so that looking would take that of the work. */
void spin_init(struct spin *s, double most_s);

/* A wait for `fd` to be readable begins: looks as long as that pays. Its caller then waits as it
 * would without, and calls spin_end. */
void spin_begin(struct spin *s, int fd);
/* What was waited for is there, or something else was. */
void spin_end(struct spin *s);

/* ---- The rule alone, for spin.c and its test. Times are monotonic seconds. ---- */

bool spin_worth(const struct spin *s, double now_s);
/* A wait lasted so long. */
void spin_waited(struct spin *s, double seconds);
/* What was looked for. */
void spin_found(struct spin *s);
/* Others had the processor. */
void spin_crowded(struct spin *s, double now_s);
