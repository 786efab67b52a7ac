/*
 * What the daemon counts and measures about itself, for GET /metrics: one registry in struct app,
 * a fixed set of families with fixed sets of labels, so that what is kept and printed is bounded
 * whatever clients do (no ids, no names of models). Everything here belongs to the loop's thread,
 * never fails and costs nanoseconds; a registry that is NULL is left alone.
 *
 *     metrics_count(app->metrics, METRIC_SHED, SHED_QUEUE, 0, 1);
 *     metrics_observe(app->metrics, METRIC_PREDICTION_SECONDS, PREDICTION_OK, 0, seconds);
 *     metrics_gauge(app->metrics, METRIC_MODELS_LOADED, 0, 0, count);
 *
 * `first` and `second` are the labels, as the comments below say; 0 where a family has none. A
 * label out of its range is counted under the last value of the range.
 *
 * Names follow Prometheus: prefix krrd_, base units, _total for counters. Histograms can be added
 * up over daemons; there are no quantiles.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct metrics_registry;
struct route;

/* Why work was refused or given up for lack of room or time. */
enum metric_shed {
    SHED_CONNECTIONS,   /* 503 */
    SHED_BODIES,        /* 503: bodies in memory */
    SHED_UPLOADS,       /* 503: data sets being received */
    SHED_QUEUE,         /* 429: jobs */
    SHED_WAITS,         /* 503: requests that wait for a job */
    SHED_LISTENERS,     /* 503: event streams */
    SHED_SLOW_LISTENER, /* an event stream whose client did not read */
    SHED_PREDICTIONS,   /* 429 or 503: the queue of predictions */
    SHED_MODELS,        /* 429 or 503: memory for loaded models */
    SHED_TRANSFERS,     /* 503: models being exported or imported */
    SHED_DEADLINE,      /* 504, 408: a request's deadline */
    SHED_STOPPING,      /* 503: the daemon drains */
    SHED_OTHER,         /* 429 or 503 */
    SHED_COUNT_
};
enum metric_prediction {
    PREDICTION_OK,
    PREDICTION_REFUSED, /* the client's mistake */
    PREDICTION_SHED,    /* the queue was full, or the deadline passed */
    PREDICTION_FAILED,  /* ours: worker lost, model not loadable */
    PREDICTION_GONE,    /* the client left first */
    PREDICTION_COUNT_
};
enum metric_load { LOAD_OK, LOAD_FAILED, LOAD_COUNT_ };
enum metric_transfer {
    TRANSFER_OK,
    TRANSFER_FAILED, /* also where it was refused for what its body said */
    TRANSFER_GONE,   /* the client left before the answer */
    TRANSFER_COUNT_
};
/* What came of an attempt to send a webhook. */
enum metric_webhook {
    WEBHOOK_DELIVERED,
    WEBHOOK_RETRIED, /* not taken; there will be another attempt */
    WEBHOOK_GIVEN_UP,
    WEBHOOK_COUNT_
};
enum metric_worker_kind { METRIC_TRAIN, METRIC_SERVE, METRIC_WORKER_KINDS_ }; /* enum slot_kind */

enum metric {
    /* The interface. */
    METRIC_REQUEST_SECONDS, /* histogram; metrics_route(), status class (status / 100) */
    METRIC_REQUESTS_IN_FLIGHT,
    METRIC_CONNECTIONS,
    METRIC_SHED,         /* counter; enum metric_shed */
    METRIC_UPLOAD_BYTES, /* counter: of bodies of data sets, as received */
    METRIC_UPLOADS,
    METRIC_TRANSFERS_REFUSED, /* counter: bodies that are streamed, refused before any of it is
                                 read; metrics_route(), enum err_code */
    METRIC_LISTENERS,
    METRIC_LISTENER_EVENTS, /* counter: events given to event streams */
    METRIC_WAITS,
    /* Jobs. */
    METRIC_JOBS,             /* gauge; enum job_status, those that have not ended */
    METRIC_JOBS_SUBMITTED,   /* counter */
    METRIC_JOBS_ENDED,       /* counter; status 0 succeeded, 1 failed, 2 cancelled; enum reason */
    METRIC_JOB_ATTEMPTS,     /* counter: starts */
    METRIC_JOB_RETRIES,      /* counter: starts after the first attempt */
    METRIC_JOB_WAIT_SECONDS, /* histogram: queued -> started */
    METRIC_JOB_RUN_SECONDS,  /* histogram: started -> ended; as METRIC_JOBS_ENDED's first */
    METRIC_JOB_LAST_SUCCESS, /* gauge: Unix seconds; 0: none since the start */
    /* Webhooks. */
    METRIC_WEBHOOK_ATTEMPTS,         /* counter; enum metric_webhook */
    METRIC_WEBHOOK_ATTEMPT_SECONDS,  /* histogram: an attempt, from the look-up of the name on */
    METRIC_WEBHOOK_DELIVERY_SECONDS, /* histogram: end of the job -> taken */
    METRIC_WEBHOOKS_PENDING,         /* gauge */
    METRIC_WEBHOOKS_OLDEST,          /* gauge: seconds since the end of its job; 0: none pending */
    /* Workers. */
    METRIC_WORKERS,         /* gauge; enum metric_worker_kind, enum slot_state */
    METRIC_WORKER_RESTARTS, /* counter; enum metric_worker_kind; so the next two */
    METRIC_WORKER_LOST,     /* ended without being asked to */
    METRIC_WORKER_QUARANTINES,
    /* Predictions. */
    METRIC_PREDICTIONS,              /* counter: requests; enum metric_prediction */
    METRIC_PREDICTION_SECONDS,       /* histogram: from the request's arrival to its answer; as
                                        METRIC_PREDICTIONS */
    METRIC_PREDICTION_QUEUE_SECONDS, /* histogram: until its batch was sent to a worker */
    METRIC_PREDICTION_ROWS,          /* counter: rows answered */
    METRIC_PREDICTION_UNKNOWN,       /* counter: words in them that the model does not know */
    METRIC_BATCH_ROWS,               /* histogram: rows of a batch sent to a worker */
    METRIC_BATCH_REQUESTS,           /* histogram: requests of a batch */
    METRIC_BATCH_SECONDS,            /* histogram: batch sent -> answer received */
    METRIC_PREDICTIONS_WAITING,      /* gauge: requests */
    METRIC_MODELS_LOADED,            /* gauge */
    METRIC_MODELS_BYTES,             /* gauge: of loaded models */
    METRIC_MODEL_LOADS,              /* counter; enum metric_load */
    METRIC_MODEL_LOAD_SECONDS,       /* histogram */
    METRIC_MODEL_UNLOADS,            /* counter: asked for, or for room */
    METRIC_MODEL_EXPORTS,            /* counter; enum metric_transfer; so the next */
    METRIC_MODEL_IMPORTS,
    METRIC_ALIAS_MOVES, /* counter; enum alias_kind */
    /* Store and loop. */
    METRIC_STORE_CHANGES,        /* counter: transactions that changed something */
    METRIC_STORE_COMMIT_SECONDS, /* histogram: commits, each of one or several transactions */
    METRIC_STORE_COMMIT_CHANGES, /* histogram: transactions of a commit */
    METRIC_STORE_BYTES,          /* gauge: the database file */
    METRIC_STORE_LOG_BYTES,      /* gauge: its write-ahead log */
    METRIC_LOOP_TURN_SECONDS,    /* histogram: how long the loop was away from its sockets */
    METRIC_READY,                /* gauge: 1 or 0 */
    METRIC_COUNT_
};

/* `routes` is terminated by a NULL pattern and outlives the registry. */
int metrics_new(const struct route *routes, struct metrics_registry **ret, struct err *err);
struct metrics_registry *metrics_free(struct metrics_registry *m); /* NULL is fine */

/* The label of a row of the table; NULL: no route was found. */
int metrics_route(const struct metrics_registry *m, const struct route *route);

/* Counters only rise: by >= 0. */
void metrics_count(struct metrics_registry *m, enum metric id, int first, int second, double by);
void metrics_gauge(struct metrics_registry *m, enum metric id, int first, int second, double value);
void metrics_observe(struct metrics_registry *m, enum metric id, int first, int second,
                     double value);
/* What was counted, set, or observed so often. */
double metrics_value(const struct metrics_registry *m, enum metric id, int first, int second);

/* ---- text ---- */

enum metrics_format {
    METRICS_TEXT,       /* Prometheus text format 0.0.4 */
    METRICS_OPENMETRICS /* OpenMetrics 1.0.0; the caller adds "# EOF\n" at the end */
};
enum metrics_kind { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM, METRICS_INFO };

/* All families; the caller may add others of its own before and after. */
void metrics_print(const struct metrics_registry *m, enum metrics_format format, struct buf *to);
/* The head of a family, whose samples follow at once; `name` without _total or _info. */
void metrics_print_head(struct buf *to, enum metrics_format format, enum metrics_kind kind,
                        const char *name, const char *help);
/* One sample; labels as `worker="train:0",device="cpu"` (see metrics_label), or "". */
void metrics_print_sample(struct buf *to, enum metrics_kind kind, const char *name,
                          const char *labels, double value);
/* Appends name="value", escaped, and a comma before it where *to is not empty. */
void metrics_label(struct buf *to, const char *name, const char *value);
