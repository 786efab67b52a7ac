/*
 * Memory for training jobs: what the host, or --train-memory-bytes, has for one more, beside what
 * jobs at work have been promised by their plans and have not taken yet.
 */
#pragma once

struct app;
struct slot;

struct room {
    double system;   /* bytes that the system, or the control group, has left */
    double given;    /* of --train-memory-bytes; INFINITY where there is no such bound */
    double promised; /* to jobs at work, beyond what their workers have */
    double passing;  /* what jobs at work give back when they end */
};
struct room room_look(const struct app *app);

/* What a job may have in all on an idle worker, whose process counts. */
struct room_share {
    double has;   /* the worker has already */
    double now;   /* at least that */
    double later; /* once every job at work has ended */
};
struct room_share room_for(const struct room *room, const struct slot *idle);

/* Bytes that a job asks the host for, its worker's process included, by its plan (JSON text); 0
 * where there is none, or it does not say. */
double room_needed(const char *plan);
