/* The daemon's settings: every flag --a-b has an environment variable KRRD_A_B; flags win. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "server/pool/placement.h"

struct config {
    char *listen_address;             /* "127.0.0.1"; numeric, or "localhost" */
    int listen_port;                  /* 8080; 0: any free one, printed at start */
    char *data_dir;                   /* "./data" */
    char *worker_program;             /* "": krrd-worker beside the daemon's own program file */
    char *cuda_worker_program;        /* "": krrd-worker-cuda, likewise */
    struct placement train_placement; /* --workers, default cpu:1 */
    struct placement serve_placement; /* --serve-workers, default cpu:1 */
    char *default_model;              /* of /invocations; "": there is none */
    int64_t serve_memory_bytes;       /* 0: no limit; that loaded models may take */
    int64_t serve_batch_rows;         /* 4096 */
    int64_t serve_batch_delay_us;     /* 0 */
    int64_t busy_poll_us;             /* 100 */
    int64_t serve_model_queue;        /* 1024 predictions that wait for one model */
    int64_t serve_queue;              /* 4096, of all models, waiting or at work */
    int worker_threads;               /* --worker-threads, 0: what the machine grants */
    int64_t worker_memory_bytes;      /* 0: what the host or its control group has */
    int64_t train_memory_bytes;       /* of all training workers together; 0: likewise */
    int64_t max_header_bytes;         /* 16384: request line and headers */
    int64_t max_body_bytes;           /* 64 MiB: of a body kept in memory */
    int64_t max_bodies_bytes;         /* 256 MiB: of all of them */
    int64_t max_upload_bytes;         /* default 16 GiB */
    int max_uploads;                  /* 64: at once */
    int64_t max_unpacked_bytes;       /* of compressed uploads, default 64 GiB */
    int64_t min_free_bytes;       /* of the data directory's disk, 64 MiB: less counts as full */
    double storage_wait_s;        /* 60: the end of a job waits for room before it is queued anew */
    int64_t max_queue;            /* queued jobs, default 1000 */
    int64_t max_rows;             /* of a data set, default 2^31 */
    int64_t max_columns;          /* of a data set, default 65536 */
    int max_connections;          /* 512 */
    double drain_timeout_s;       /* 30 */
    double checkpoint_interval_s; /* 30 */
    double cancel_grace_s;        /* 5: until a worker that does not answer a cancel is ended */
    double retry_delay_s;         /* 1: before the second attempt of a job, doubled from then on */
    int quarantine_after;         /* 3 jobs lost in a row take a worker's slot out of service ... */
    double quarantine_s;          /* ... for 30, longer each time */
    double worker_lease_s;        /* 15: until a worker without a sign of life is replaced */
    double idle_timeout_s;        /* 60: of a connection without a request */
    int max_listeners;            /* 512: open event streams */
    double request_deadline_s;    /* 300, 0: none; from a request's first header to its answer */
    int max_waits;                /* 256: requests that wait for a job to end */
    int max_wait_s;               /* 60: the longest that one of them waits */
    double keep_events_s;         /* 0: for ever; events of jobs that finished longer ago go */
    int64_t keep_events;          /* 0: all; of a finished job no more than its newest so many */
    double idempotency_ttl_s;     /* 86400: how long answers under an Idempotency-Key are kept */
    double request_timeout_s;     /* 30, and what the size adds at 64 KiB/s: for receiving one */
    enum log_level log_level;     /* info */
    char *log_file;               /* "": standard error */
    char *api_keys;               /* "": everybody is served */
    char *tls_cert, *tls_key;     /* "": no TLS; both or none */
    char *cors_origin;            /* "": pages of other origins may not use the server */
    char *allowed_hosts;          /* http_host.h; "": see http.h */
    bool webhooks;                /* jobs may ask to tell others of their end */
    bool webhook_http;            /* without TLS too */
    char *webhook_secret_file;    /* sign.h */
    char *webhook_allow;          /* address.h: networks beside the public ones */
    char *webhook_ca_file;        /* "": the system's */
    double webhook_timeout_s;     /* 10: for one attempt */
    double webhook_retry_s;       /* 5: before the second attempt, doubled from then on */
    double webhook_give_up_s;     /* 259200: after the end of the job */
    bool insecure;                /* allow listening beyond loopback without keys */
    bool print_config, help, version;
};

/* Fills every field with flag, environment variable or default; -ERR_INVALID names the flag or the
 * variable. Nothing is owned by *ret on failure. */
int config_read(int argc, char **argv, struct config *ret, struct err *err);
void config_deinit(struct config *c);
/* JSON text of all settings (for --print-config), mem_free it; NULL on lack of memory. */
char *config_print(const struct config *c);
/* The help text, mem_free it; NULL on lack of memory. */
char *config_usage(void);
