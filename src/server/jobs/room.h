/*
 * Memory for training jobs: what the host, or --train-memory-bytes, has left for one more, beside
 * what jobs at work have been promised by their plans and have not taken yet.
 */
#pragma once

struct app;
struct slot;

struct room {
    double free;  /* bytes that one more job may take now */
    double later; /* and once every job at work has ended */
};
struct room room_look(const struct app *app);

/* Bytes that a job asks the host for, its worker's process included, by its plan (JSON text); 0
 * where there is none, or it does not say. */
double room_needed(const char *plan);
/* Of those, what this worker does not have already. */
double room_needed_beside(const char *plan, const struct slot *s);
