/*
 * krrd-worker: the program that computes. Under the daemon it speaks frames on an inherited socket
 * (--socket FD); alone it runs one order (--job FILE).
 */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/backend.h"
#include "gpu/providers.h"
#include "worker/devices.h"
#include "worker/faulty.h"
#include "worker/job.h"
#include "worker/measure.h"
#include "worker/session.h"

struct settings {
    const char *device;
    struct job_files files;
    int socket, threads;
    double beat_interval_s;
    double memory_bytes; /* 0: none but the host's */
    double busy_poll_us;
    bool measure, devices;
    const char *break_device; /* NULL, or the trigger of faulty.h */
};

static const char usage[] =
    "krrd-worker --job FILE [--model FILE] [--start FILE] [--device cpu] [--threads N]\n"
    "    Runs one training order without a daemon; events are JSON lines on stdout.\n"
    "krrd-worker --socket FD [--device cpu] [--threads N] [--beat-interval-s S] [--measure]\n"
    "    Serves the daemon that started it, and gives it a sign of life every S seconds; with\n"
    "    --measure it first finds out how fast it is, and says so.\n"
    "    With --busy-poll-us N it looks for the next message so long before it sleeps, where\n"
    "    messages follow each other that fast.\n"
    "    With --memory-bytes N both plan to stay below N resident bytes.\n"
    "    With " GPU_WITHOUT
    "=wgmma, or =mma, in the environment GPUs do without these instructions.\n"
    "krrd-worker --devices\n"
    "    Tells as JSON which devices it can run on, best first: {\"devices\": [\"cuda:0\", "
    "\"cpu\"]};\n"
    "    \"detail\" says what others lack.\n"
    "    For tests: with --break-device FILE the device breaks once there is such a file.\n";

/* A decimal integer within 0..max, the whole text. */
static int read_count(const char *flag, const char *text, int max, int *ret, struct err *err)
{
    char *end;
    const long v = strtol(text, &end, 10);
    if (end == text || *end != '\0' || v < 0 || v > max) {
        return err_set(err, ERR_INVALID, "%s takes a number from 0 to %d, not \"%.40s\".", flag,
                       max, text);
    }
    *ret = (int)v;
    return 0;
}

/* A number, 0 to max, the whole text. */
static int read_number(const char *flag, const char *text, double max, double *ret, struct err *err)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v >= 0.0 && v <= max)) {
        return err_set(err, ERR_INVALID, "%s takes a number from 0 to %.16g, not \"%.40s\".", flag,
                       max, text);
    }
    *ret = v;
    return 0;
}

static const struct option flags[] = {
    {"job", required_argument, NULL, 'j'},
    {"model", required_argument, NULL, 'm'},
    {"start", required_argument, NULL, 'b'},
    {"socket", required_argument, NULL, 's'},
    {"device", required_argument, NULL, 'd'},
    {"threads", required_argument, NULL, 't'},
    {"beat-interval-s", required_argument, NULL, 'i'},
    {"memory-bytes", required_argument, NULL, 'l'},
    {"busy-poll-us", required_argument, NULL, 'p'},
    {"devices", no_argument, NULL, 'v'},
    {"measure", no_argument, NULL, 'r'},
    {"break-device", required_argument, NULL, 'x'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int read_value(int option, const char *value, struct settings *ret, struct err *err)
{
    switch (option) {
    case 'j':
        ret->files.order = value;
        return 0;
    case 'm':
        ret->files.model = value;
        return 0;
    case 'b':
        ret->files.start = value;
        return 0;
    case 'd':
        ret->device = value;
        return 0;
    case 'x':
        ret->break_device = value;
        return 0;
    case 's':
        return read_count("--socket", value, 65535, &ret->socket, err);
    case 't':
        return read_count("--threads", value, 4096, &ret->threads, err);
    case 'i':
        return read_number("--beat-interval-s", value, 86400.0, &ret->beat_interval_s, err);
    case 'l':
        return read_number("--memory-bytes", value, 0x1p53, &ret->memory_bytes, err);
    case 'p':
        return read_number("--busy-poll-us", value, 1e6, &ret->busy_poll_us, err);
    default:
        return err_set(err, ERR_INVALID, "See krrd-worker --help.");
    }
}

static int read_settings(int argc, char **argv, struct settings *ret, struct err *err)
{
    int r = 0;
    for (int c; r == 0 && (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (c) {
        case 'r':
            ret->measure = true;
            break;
        case 'v':
            ret->devices = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            r = read_value(c, optarg, ret, err);
        }
    }
    const int tasks = (ret->files.order != NULL) + (ret->socket >= 0) + ret->devices;
    if (r == 0 && (optind != argc || tasks != 1)) {
        r = err_set(err, ERR_INVALID,
                    "Give one of --job, --socket and --devices; see krrd-worker --help.");
    }
    return r;
}

static int run_session(const struct settings *settings, struct backend *be, struct err *err)
{
    struct session_options options = {.fd = settings->socket,
                                      .be = be,
                                      .beat_interval_s = settings->beat_interval_s,
                                      .busy_poll_s = 1e-6 * settings->busy_poll_us};
    int r = 0;
    if (settings->measure) {
        r = measure_machine(be, &options.machine, err);
    } else {
        measure_nothing(be, &options.machine);
    }
    if (r < 0) {
        return r;
    }
    if (!settings->break_device) {
        return session_run(&options, err);
    }
    struct faulty faulty; /* The device has been measured: it breaks at work. */
    faulty_install(&faulty, be, settings->break_device);
    r = session_run(&options, err);
    faulty_restore(&faulty, be);
    return r;
}

static void report(enum log_level level, const char *event, const struct err *err)
{
    const struct log log = {.fd = STDERR_FILENO, .level = LOG_INFO, .program = "krrd-worker"};
    log_msg(&log, level, event, "code", err_name(err->code), "pointer", err->pointer, "detail",
            err->detail, NULL);
}

/* What more to do without where a device broke as it was opened; NULL: there is nothing left. */
static const char *without_more(void)
{
    const char *without = getenv(GPU_WITHOUT);
    if (without == NULL || without[0] == '\0') {
        return "wgmma";
    }
    return strcmp(without, "wgmma") == 0 ? "mma" : NULL;
}

/* After an instruction has broken its device a process can do nothing more with it. So this one
 * begins anew, and does without what may have been the cause; it returns where nothing is left to
 * do without. */
static void begin_anew(const struct settings *settings, char **argv, const struct err *err)
{
    const char *without = without_more();
    if (without == NULL) {
        return;
    }
    report(LOG_WARNING, "worker.begins_anew", err);
    const int kept = settings->socket > STDERR_FILENO ? settings->socket : STDERR_FILENO;
    (void)close_range((unsigned)kept + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    setenv(GPU_WITHOUT, without, 1);
    execv("/proc/self/exe", argv);
}

static int run(const struct settings *settings, char **argv, struct err *err)
{
    if (settings->devices) {
        return devices_print(gpu_providers(), err);
    }
    struct backend *be = NULL;
    int r = backend_open(gpu_providers(), settings->device, settings->threads, &be, err);
    if (r == -ERR_DEVICE && strcmp(err->pointer, GPU_BROKEN) == 0) {
        begin_anew(settings, argv, err);
    }
    if (r < 0) {
        return r;
    }
    be->memory_limit = (int64_t)settings->memory_bytes;
    if (settings->files.order) {
        r = job_run(be, &settings->files, err);
    } else {
        r = run_session(settings, be, err);
    }
    backend_close(be);
    return r;
}

/* Ctrl-C and service managers signal the whole group. The daemon ends its workers once they have
 * kept their checkpoints, and those that do not answer by SIGKILL. No orphan outlives it. */
static void leave_signals_to_the_daemon(void)
{
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int main(int argc, char **argv)
{
    struct settings settings = {.device = "cpu", .socket = -1};
    struct err err = {.code = ERR_OK};
    backend_cpu_settle(argv);
    signal(SIGPIPE, SIG_IGN);
    int r = read_settings(argc, argv, &settings, &err);
    if (r == 0) {
        if (settings.socket >= 0) {
            leave_signals_to_the_daemon();
        }
        r = run(&settings, argv, &err);
    }
    if (r < 0) {
        report(LOG_ERROR, "worker.failed", &err);
    }
    return r < 0 ? 1 : 0;
}
