#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/config_check.h"

enum option_kind {
    OPTION_STRING,
    OPTION_INT,
    OPTION_INT64,
    OPTION_SECONDS,
    OPTION_FLAG,   /* takes no value */
    OPTION_ACTION, /* a flag without an environment variable, not part of the settings */
    OPTION_LISTEN,
    OPTION_PLACEMENT,
    OPTION_LOG_LEVEL
};

struct option_def {
    const char *name; /* without "--" */
    enum option_kind kind;
    size_t offset;          /* in struct config */
    const char *initial;    /* default, as text */
    const char *value_name; /* in the help text */
    double min, max;        /* of numbers */
    const char *help;
};

/* The table, ended by a row without a name. It stands at the end of the file. */
static const struct option_def *all_options(void);

/* ---- One value. ---- */

static int bad_value(struct err *err, const struct option_def *o, const char *text,
                     const char *expected)
{
    return err_set(err, ERR_INVALID, "--%s: expected %s; found \"%s\".", o->name, expected, text);
}

static int read_number(const struct option_def *o, const char *text, double *ret, struct err *err)
{
    char expected[96];
    const bool whole = o->kind != OPTION_SECONDS;
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (*text == '\0' || isspace((unsigned char)*text) || *end != '\0' || errno != 0 ||
        !isfinite(value) || value < o->min || value > o->max || (whole && value != floor(value))) {
        snprintf(expected, sizeof(expected), "a %snumber of %.15g to %.15g", whole ? "whole " : "",
                 o->min, o->max);
        return bad_value(err, o, text, expected);
    }
    *ret = value;
    return 0;
}

/* "127.0.0.1:8080" or "[::1]:8080". */
static int read_listen(const struct option_def *o, const char *text, struct config *c,
                       struct err *err)
{
    static const char expected[] = "ADDRESS:PORT such as 127.0.0.1:8080 or [::1]:8080";
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) {
        return bad_value(err, o, text, expected);
    }
    const bool bracketed = text[0] == '[' && colon[-1] == ']';
    const char *start = text + bracketed;
    const size_t len = (size_t)(colon - start) - bracketed;
    char *end;
    const long port = strtol(colon + 1, &end, 10);
    if (!isdigit((unsigned char)colon[1]) || *end != '\0' || port > 65535 ||
        (!bracketed && memchr(start, ':', len) != NULL)) {
        return bad_value(err, o, text, expected);
    }
    mem_free(c->listen_address);
    c->listen_address = mem_strndup(start, len);
    c->listen_port = (int)port;
    return c->listen_address != NULL ? 0 : err_no_memory(err);
}

static int read_placement(const struct option_def *o, const char *text, struct placement *ret,
                          struct err *err)
{
    return placement_parse(text, ret)
               ? 0
               : bad_value(
                     err, o, text,
                     "a list such as cpu:2,cuda:all or cuda:0,cuda:1+2, with cpu:0 to cpu:64, "
                     "up to 8 GPUs together, nothing twice");
}

static int read_flag(const struct option_def *o, const char *text, bool *ret, struct err *err)
{
    if (strcmp(text, "1") == 0 || strcmp(text, "true") == 0) {
        *ret = true;
    } else if (strcmp(text, "0") == 0 || strcmp(text, "false") == 0 || *text == '\0') {
        *ret = false;
    } else {
        return bad_value(err, o, text, "true or false");
    }
    return 0;
}

static int read_string(const char *text, char **ret, struct err *err)
{
    mem_free(*ret);
    *ret = mem_strdup(text);
    return *ret != NULL ? 0 : err_no_memory(err);
}

static int set_value(struct config *c, const struct option_def *o, const char *text,
                     struct err *err)
{
    void *field = (char *)c + o->offset;
    double number = 0.0;
    int rc = 0;
    switch (o->kind) {
    case OPTION_STRING:
        return read_string(text, field, err);
    case OPTION_LISTEN:
        return read_listen(o, text, c, err);
    case OPTION_PLACEMENT:
        return read_placement(o, text, field, err);
    case OPTION_LOG_LEVEL:
        rc = log_level_parse(text, field, NULL);
        return rc == 0 ? 0 : bad_value(err, o, text, "debug, info, warning, error or off");
    case OPTION_FLAG:
    case OPTION_ACTION:
        return read_flag(o, text, field, err);
    case OPTION_INT:
    case OPTION_INT64:
    case OPTION_SECONDS:
        break;
    }
    rc = read_number(o, text, &number, err);
    if (rc == 0 && o->kind == OPTION_INT) {
        *(int *)field = (int)number;
    } else if (rc == 0 && o->kind == OPTION_INT64) {
        *(int64_t *)field = (int64_t)number;
    } else if (rc == 0) {
        *(double *)field = number;
    }
    return rc;
}

/* ---- All of them. ---- */

/* "KRRD_MAX_QUEUE" for "max-queue". */
static void environment_name(const char *name, char *ret, size_t size)
{
    snprintf(ret, size, "KRRD_%s", name);
    for (char *c = ret; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
}

static int read_defaults(struct config *c, struct err *err)
{
    int rc = 0;
    for (const struct option_def *o = all_options(); rc == 0 && o->name != NULL; o++) {
        char name[64];
        environment_name(o->name, name, sizeof(name));
        const char *given = o->kind != OPTION_ACTION ? getenv(name) : NULL;
        rc = set_value(c, o, given != NULL ? given : o->initial, err);
        if (rc == -ERR_INVALID && err != NULL) {
            char detail[sizeof(err->detail)];
            snprintf(detail, sizeof(detail), "%s", err->detail);
            err_set(err, ERR_INVALID, "%s (environment variable %s)", detail, name);
        }
    }
    return rc;
}

static const struct option_def *find_option(const char *name, size_t len)
{
    for (const struct option_def *o = all_options(); o->name != NULL; o++) {
        if (strlen(o->name) == len && strncmp(o->name, name, len) == 0) {
            return o;
        }
    }
    return NULL;
}

/* "--name value" or "--name=value"; *at is moved past what was read. */
static int read_argument(struct config *c, int argc, char **argv, int *at, struct err *err)
{
    const char *arg = argv[(*at)++];
    const size_t len = strcspn(arg, "=");
    const struct option_def *o = strncmp(arg, "--", 2) == 0 ? find_option(arg + 2, len - 2) : NULL;
    if (o == NULL) {
        return err_set(err, ERR_INVALID, "There is no option \"%s\"; see --help.", arg);
    }
    if (arg[len] == '=') {
        return set_value(c, o, arg + len + 1, err);
    }
    if (o->kind == OPTION_FLAG || o->kind == OPTION_ACTION) {
        return set_value(c, o, "true", err);
    }
    if (*at >= argc) {
        return err_set(err, ERR_INVALID, "--%s needs a value.", o->name);
    }
    return set_value(c, o, argv[(*at)++], err);
}

int config_read(int argc, char **argv, struct config *ret, struct err *err)
{
    struct config c = {.listen_address = NULL};
    int rc = read_defaults(&c, err);
    for (int at = 1; rc == 0 && at < argc;) {
        rc = read_argument(&c, argc, argv, &at, err);
    }
    if (rc == 0 && !c.help && !c.version) {
        rc = config_check(&c, err);
    }
    if (rc != 0) {
        config_deinit(&c);
        return rc;
    }
    *ret = c;
    return 0;
}

void config_deinit(struct config *c)
{
    c->listen_address = mem_free(c->listen_address);
    c->data_dir = mem_free(c->data_dir);
    c->worker_program = mem_free(c->worker_program);
    c->cuda_worker_program = mem_free(c->cuda_worker_program);
    c->default_model = mem_free(c->default_model);
    c->log_file = mem_free(c->log_file);
    c->api_keys = mem_free(c->api_keys);
    c->tls_cert = mem_free(c->tls_cert);
    c->tls_key = mem_free(c->tls_key);
    c->cors_origin = mem_free(c->cors_origin);
    c->allowed_hosts = mem_free(c->allowed_hosts);
    c->webhook_secret_file = mem_free(c->webhook_secret_file);
    c->webhook_allow = mem_free(c->webhook_allow);
    c->webhook_ca_file = mem_free(c->webhook_ca_file);
}

static const char *level_name(enum log_level level)
{
    static const char *const names[] = {"debug", "info", "warning", "error", "off"};
    return names[level];
}

/* One setting under its name with '_' for '-'. */
static void print_option(struct json *to, const struct config *c, const struct option_def *o)
{
    const void *field = (const char *)c + o->offset;
    char key[64], text[300];
    snprintf(key, sizeof(key), "%s", o->name);
    for (char *k = key; *k != '\0'; k++) {
        *k = *k == '-' ? '_' : *k;
    }
    switch (o->kind) {
    case OPTION_STRING:
        json_set_string(to, key, *(char *const *)field);
        break;
    case OPTION_INT:
        json_set_int(to, key, *(const int *)field);
        break;
    case OPTION_INT64:
        json_set_int(to, key, *(const int64_t *)field);
        break;
    case OPTION_SECONDS:
        json_set_number(to, key, *(const double *)field);
        break;
    case OPTION_FLAG:
        json_set_bool(to, key, *(const bool *)field);
        break;
    case OPTION_LISTEN:
        snprintf(text, sizeof(text), strchr(c->listen_address, ':') != NULL ? "[%s]:%d" : "%s:%d",
                 c->listen_address, c->listen_port);
        json_set_string(to, key, text);
        break;
    case OPTION_PLACEMENT:
        placement_print(field, text, sizeof(text));
        json_set_string(to, key, text);
        break;
    case OPTION_LOG_LEVEL:
        json_set_string(to, key, level_name(c->log_level));
        break;
    case OPTION_ACTION:
        break;
    }
}

char *config_print(const struct config *c)
{
    struct json *all cleanup_json = json_new_object();
    for (const struct option_def *o = all_options(); o->name != NULL; o++) {
        print_option(all, c, o);
    }
    return all != NULL ? json_print(all) : NULL;
}

char *config_usage(void)
{
    struct buf text = BUF_INIT;
    buf_str(
        &text,
        "krrd " KRRD_VERSION
        ": trains kernel ridge regression models and serves their predictions.\n\n"
        "Usage: krrd [--option value]...\n"
        "       krrd backup FILE [--data-dir DIR]   copies the database, also of a running "
        "daemon;\n"
        "                                           replaces an earlier copy\n"
        "       krrd check [--data-dir DIR]         database, data sets and models; exit "
        "code 1 and JSON\n"
        "                                           where something is wrong\n"
        "       krrd compact [--data-dir DIR]       gives the room of what was deleted back, of a "
        "stopped daemon\n"
        "       krrd key NAME SCOPES --api-keys FILE   makes an API key: prints it, and puts "
        "its digest\n"
        "                                           into the file; scopes are of read, "
        "predict, train, admin\n\n");
    for (const struct option_def *o = all_options(); o->name != NULL; o++) {
        char left[64], name[64];
        snprintf(left, sizeof(left), "--%s %s", o->name, o->value_name);
        environment_name(o->name, name, sizeof(name));
        buf_printf(&text, "  %-30s %s", left, o->help);
        if (o->kind != OPTION_ACTION && o->kind != OPTION_FLAG && o->initial[0] != '\0') {
            buf_printf(&text, " Default %s.", o->initial);
        }
        buf_char(&text, '\n');
    }
    buf_str(&text, "\nEvery setting has an environment variable: --max-queue is KRRD_MAX_QUEUE. "
                   "Flags win.\n");
    return buf_take(&text);
}

#define AT(field) offsetof(struct config, field)
#define EXACT 9007199254740992.0 /* 2^53: the largest count that a double holds exactly */

static const struct option_def options[] = {
    {"listen", OPTION_LISTEN, 0, "127.0.0.1:8080", "ADDRESS:PORT", 0, 0,
     "Where to listen; port 0 takes a free one."},
    {"data-dir", OPTION_STRING, AT(data_dir), "./data", "DIR", 0, 0,
     "Database and data sets; made when missing."},
    {"workers", OPTION_PLACEMENT, AT(train_placement), "cpu:1", "LIST", 0, 0,
     "Training worker processes: cpu:N, cuda:N (one on that GPU), cuda:N+M (one on those GPUs "
     "together), cuda:all (one on each), parted by commas."},
    {"serve-workers", OPTION_PLACEMENT, AT(serve_placement), "cpu:1", "LIST", 0, 0,
     "Prediction worker processes, likewise; N alone is cpu:N."},
    {"serve-memory-bytes", OPTION_INT64, AT(serve_memory_bytes), "0", "N", 0, EXACT,
     "Memory that loaded models may take; those not asked for the longest go. 0: no limit."},
    {"serve-batch-rows", OPTION_INT64, AT(serve_batch_rows), "4096", "N", 1, 1048576,
     "Rows that go to a worker together; one request may hold more."},
    {"serve-batch-delay-us", OPTION_INT64, AT(serve_batch_delay_us), "0", "N", 0, 10000000,
     "How long the first request of a batch waits for others, in microseconds."},
    {"busy-poll-us", OPTION_INT64, AT(busy_poll_us), "100", "N", 0, 1000,
     "How long daemon and prediction workers look for the next message before they sleep, where "
     "messages follow each other that fast, in microseconds; 0: they sleep at once."},
    {"serve-model-queue", OPTION_INT64, AT(serve_model_queue), "1024", "N", 1, 1048576,
     "Predictions that may wait for one model; more are refused with 429."},
    {"serve-queue", OPTION_INT64, AT(serve_queue), "4096", "N", 1, 1048576,
     "Predictions of all models, waiting or at work; more are refused with 503."},
    {"worker-threads", OPTION_INT, AT(worker_threads), "0", "N", 0, 1024,
     "Threads of a worker; 0: what the machine grants."},
    {"worker-memory-bytes", OPTION_INT64, AT(worker_memory_bytes), "0", "N", 0, EXACT,
     "Memory of its own that a worker may have, data sets that it maps apart: jobs that need "
     "more are refused; 0: what the host or its control group has."},
    {"train-memory-bytes", OPTION_INT64, AT(train_memory_bytes), "0", "N", 0, EXACT,
     "Memory that all training workers may have together: a job waits until there is room for it; "
     "0: what the host or its control group has."},
    {"worker-program", OPTION_STRING, AT(worker_program), "", "FILE", 0, 0,
     "Default: krrd-worker beside krrd."},
    {"cuda-worker-program", OPTION_STRING, AT(cuda_worker_program), "", "FILE", 0, 0,
     "Default: krrd-worker-cuda beside krrd."},
    {"default-model", OPTION_STRING, AT(default_model), "", "NAME", 0, 0,
     "The model that POST /invocations asks."},
    {"max-header-bytes", OPTION_INT64, AT(max_header_bytes), "16384", "N", 1024, 24576,
     "Request line and headers of a request; more are refused with 431."},
    {"max-body-bytes", OPTION_INT64, AT(max_body_bytes), "67108864", "N", 1024, 1 << 30,
     "Body of a request that is kept in memory (of a job 4 MiB at most); more is refused with "
     "413."},
    {"max-bodies-bytes", OPTION_INT64, AT(max_bodies_bytes), "268435456", "N", 1024, EXACT,
     "All such bodies together; more are refused with 503."},
    {"max-upload-bytes", OPTION_INT64, AT(max_upload_bytes), "17179869184", "N", 1, EXACT,
     "Largest data set upload."},
    {"max-uploads", OPTION_INT, AT(max_uploads), "64", "N", 1, 16384,
     "Data sets being received at once; more are refused with 503."},
    {"max-unpacked-bytes", OPTION_INT64, AT(max_unpacked_bytes), "68719476736", "N", 1, EXACT,
     "Largest unpacked size of a compressed upload."},
    {"min-free-bytes", OPTION_INT64, AT(min_free_bytes), "67108864", "N", 0, EXACT,
     "With less free on the data directory's disk, uploads and jobs are refused with 507."},
    {"storage-wait-s", OPTION_SECONDS, AT(storage_wait_s), "60", "S", 0, 86400,
     "How long the model of a job waits for room before the job goes on from its checkpoint."},
    {"max-rows", OPTION_INT64, AT(max_rows), "2147483648", "N", 1, EXACT, "Rows of a data set."},
    {"max-columns", OPTION_INT64, AT(max_columns), "65536", "N", 1, 1048576,
     "Columns of a data set."},
    {"max-queue", OPTION_INT64, AT(max_queue), "1000", "N", 0, EXACT,
     "Jobs that may wait; more are refused with 429."},
    {"max-connections", OPTION_INT, AT(max_connections), "512", "N", 1, 16384,
     "Connections at once; more are refused with 503, or closed where they ask nothing for 2 s."},
    {"idle-timeout-s", OPTION_SECONDS, AT(idle_timeout_s), "60", "S", 1, 86400,
     "Idle connections are closed."},
    {"request-timeout-s", OPTION_SECONDS, AT(request_timeout_s), "30", "S", 1, 86400,
     "For receiving a request, plus one second a 64 KiB."},
    {"request-deadline-s", OPTION_SECONDS, AT(request_deadline_s), "300", "S", 0, 86400,
     "From a request's first header to its answer, but for uploads, where it does not name one "
     "(X-Request-Timeout); 0: none."},
    {"max-listeners", OPTION_INT, AT(max_listeners), "512", "N", 0, 16384,
     "Open event streams; more are refused with 503."},
    {"max-waits", OPTION_INT, AT(max_waits), "256", "N", 0, 16384,
     "Requests at once that wait for a job to end (Prefer: wait=S); more are refused with 503."},
    {"max-wait-s", OPTION_INT, AT(max_wait_s), "60", "S", 0, 3600,
     "The longest that such a request waits; who asks for more waits as long."},
    {"keep-events-s", OPTION_SECONDS, AT(keep_events_s), "0", "S", 0, EXACT,
     "Events of jobs that finished longer ago are removed, but for the last; 0: none are."},
    {"keep-events", OPTION_INT64, AT(keep_events), "0", "N", 0, EXACT,
     "Of a finished job only the newest N events are kept; 0: all."},
    {"idempotency-ttl-s", OPTION_SECONDS, AT(idempotency_ttl_s), "86400", "S", 1, 31536000,
     "How long an answer is kept for requests that repeat its Idempotency-Key."},
    {"drain-timeout-s", OPTION_SECONDS, AT(drain_timeout_s), "30", "S", 0, 86400,
     "How long SIGTERM waits for requests in flight and for jobs to keep a checkpoint."},
    {"checkpoint-interval-s", OPTION_SECONDS, AT(checkpoint_interval_s), "30", "S", 0, 86400,
     "Between two checkpoints of a job, which take at most 2 % of its time."},
    {"cancel-grace-s", OPTION_SECONDS, AT(cancel_grace_s), "5", "S", 0, 86400,
     "How long a worker has to end a cancelled job before it is ended itself, and replaced."},
    {"retry-delay-s", OPTION_SECONDS, AT(retry_delay_s), "1", "S", 0, 300,
     "Before a job whose worker was lost starts again; doubles with every attempt, to 300."},
    {"quarantine-after", OPTION_INT, AT(quarantine_after), "3", "N", 1, 1000000,
     "So many different jobs lost in a row take a worker out of service."},
    {"quarantine-s", OPTION_SECONDS, AT(quarantine_s), "30", "S", 0, 86400,
     "How long, and so after a device error; doubles while no job is done in between, to 32 "
     "times."},
    {"worker-lease-s", OPTION_SECONDS, AT(worker_lease_s), "15", "S", 0.1, 86400,
     "How long a worker may give no sign of life before it is ended and replaced."},
    {"webhooks", OPTION_FLAG, AT(webhooks), "false", "", 0, 0,
     "Let jobs name an address that is told of their end."},
    {"webhook-secret-file", OPTION_STRING, AT(webhook_secret_file), "", "FILE", 0, 0,
     "What webhooks are signed with: whsec_ and 24 to 64 bytes in base64, one or more lines."},
    {"webhook-allow", OPTION_STRING, AT(webhook_allow), "", "NETWORKS", 0, 0,
     "Addresses that are not public to which they may go too: 10.0.0.0/8,::1."},
    {"webhook-http", OPTION_FLAG, AT(webhook_http), "false", "", 0, 0, "Allow http:// too."},
    {"webhook-ca-file", OPTION_STRING, AT(webhook_ca_file), "", "FILE", 0, 0,
     "Certificates that are trusted instead of the system's (PEM)."},
    {"webhook-timeout-s", OPTION_SECONDS, AT(webhook_timeout_s), "10", "S", 0.1, 60,
     "For one attempt at a webhook."},
    {"webhook-retry-s", OPTION_SECONDS, AT(webhook_retry_s), "5", "S", 0.1, 3600,
     "Before the second attempt; doubles with each, to 3600."},
    {"webhook-give-up-s", OPTION_SECONDS, AT(webhook_give_up_s), "259200", "S", 1, 2592000,
     "How long after the end of the job it is tried."},
    {"log-level", OPTION_LOG_LEVEL, AT(log_level), "info", "LEVEL", 0, 0,
     "debug, info, warning, error or off."},
    {"log-file", OPTION_STRING, AT(log_file), "", "FILE", 0, 0,
     "Where the log goes, opened anew on SIGHUP; default: standard error."},
    {"api-keys", OPTION_STRING, AT(api_keys), "", "FILE", 0, 0,
     "Keys, made by `krrd key`, without which nobody is served; read anew on SIGHUP."},
    {"tls-cert", OPTION_STRING, AT(tls_cert), "", "FILE", 0, 0,
     "Certificate chain (PEM): the server speaks https alone."},
    {"tls-key", OPTION_STRING, AT(tls_key), "", "FILE", 0, 0, "The certificate's key (PEM)."},
    {"cors-origin", OPTION_STRING, AT(cors_origin), "", "ORIGIN[,ORIGIN]", 0, 0,
     "Sites whose pages may use the server, as https://a.example; * for all."},
    {"allowed-hosts", OPTION_STRING, AT(allowed_hosts), "", "NAME[,NAME]", 0, 0,
     "Names by which it may be asked beside addresses and localhost; .a.example for all below, * "
     "for any. Default: any where there are keys or others can reach it, none on loopback."},
    {"insecure", OPTION_FLAG, AT(insecure), "false", "", 0, 0,
     "Allow an address that others can reach."},
    {"print-config", OPTION_ACTION, AT(print_config), "false", "", 0, 0,
     "Print the settings as JSON and end."},
    {"help", OPTION_ACTION, AT(help), "false", "", 0, 0, "Print this and end."},
    {"version", OPTION_ACTION, AT(version), "false", "", 0, 0, "Print the version and end."},
    {.name = NULL},
};

static const struct option_def *all_options(void)
{
    return options;
}
