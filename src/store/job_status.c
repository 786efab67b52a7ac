#include <string.h>

#include "store/internal.h"

static const char *const names[JOB_STATUS_COUNT_] = {
    [JOB_QUEUED] = "queued",         [JOB_RUNNING] = "running",     [JOB_PAUSED] = "paused",
    [JOB_CANCELLING] = "cancelling", [JOB_SUCCEEDED] = "succeeded", [JOB_FAILED] = "failed",
    [JOB_CANCELLED] = "cancelled",
};

const char *job_status_name(enum job_status s)
{
    return (unsigned)s < JOB_STATUS_COUNT_ ? names[s] : "unknown";
}

int job_status_parse(const char *name, enum job_status *ret, struct err *err)
{
    for (int i = 0; i < JOB_STATUS_COUNT_; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum job_status)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "The status must be queued, running, paused, cancelling, succeeded, failed or "
                   "cancelled.");
}

bool job_status_final(enum job_status s)
{
    return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED;
}

static const char *const action_names[] = {
    [JOB_CLAIM] = "started",
    [JOB_CANCEL] = "cancelled",
    [JOB_PAUSE] = "paused",
    [JOB_RESUME] = "resumed",
    [JOB_FINISH] = "finished",
    [JOB_PUT_ASIDE] = "put aside",
    [JOB_LOSE_WORKER] = "taken from a lost worker",
};

/* The diagram of jobs.h: nothing that is not a line here happens to a job's status. */
static const struct {
    enum job_action action;
    enum job_status from, to;
} transitions[] = {
    {JOB_CLAIM, JOB_QUEUED, JOB_RUNNING},        {JOB_CANCEL, JOB_QUEUED, JOB_CANCELLED},
    {JOB_CANCEL, JOB_RUNNING, JOB_CANCELLING},   {JOB_CANCEL, JOB_CANCELLING, JOB_CANCELLING},
    {JOB_CANCEL, JOB_PAUSED, JOB_CANCELLED},     {JOB_PAUSE, JOB_QUEUED, JOB_PAUSED},
    {JOB_PAUSE, JOB_RUNNING, JOB_RUNNING},       {JOB_PAUSE, JOB_PAUSED, JOB_PAUSED},
    {JOB_RESUME, JOB_PAUSED, JOB_QUEUED},        {JOB_FINISH, JOB_RUNNING, JOB_SUCCEEDED},
    {JOB_FINISH, JOB_RUNNING, JOB_FAILED},       {JOB_FINISH, JOB_RUNNING, JOB_CANCELLED},
    {JOB_FINISH, JOB_CANCELLING, JOB_SUCCEEDED}, {JOB_FINISH, JOB_CANCELLING, JOB_FAILED},
    {JOB_FINISH, JOB_CANCELLING, JOB_CANCELLED}, {JOB_PUT_ASIDE, JOB_RUNNING, JOB_PAUSED},
    {JOB_PUT_ASIDE, JOB_RUNNING, JOB_QUEUED},    {JOB_PUT_ASIDE, JOB_CANCELLING, JOB_CANCELLED},
    {JOB_LOSE_WORKER, JOB_RUNNING, JOB_PAUSED},  {JOB_LOSE_WORKER, JOB_RUNNING, JOB_QUEUED},
    {JOB_LOSE_WORKER, JOB_RUNNING, JOB_FAILED},  {JOB_LOSE_WORKER, JOB_CANCELLING, JOB_CANCELLED},
};

int jobs__check_transition(enum job_action action, enum job_status from, enum job_status to,
                           struct err *err)
{
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        if (transitions[i].action == action && transitions[i].from == from &&
            transitions[i].to == to) {
            return 0;
        }
    }
    return err_set(err, ERR_CONFLICT, "The job is %s; it cannot be %s%s%s.", job_status_name(from),
                   action_names[action], action == JOB_FINISH ? " as " : "",
                   action == JOB_FINISH ? job_status_name(to) : "");
}
