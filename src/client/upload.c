#include "client/upload.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "client/api.h"
#include "client/args.h"
#include "client/interrupt.h"
#include "client/show.h"

const struct option_row upload_options[] = {UPLOAD_OPTIONS, {.name = NULL}};

#define PIECE ((size_t)1 << 20)

/* One file on its way. */
struct sending {
    struct client *client;
    const struct args *args;
    const char *path, *format;
    FILE *file;
    struct meter meter;
    int64_t total; /* bytes; -1: unknown */
    double began;
    double sent_all; /* when everything had left, in monotonic seconds; 0: it has not */
};

/* By the end of the file's name, without ".gz". */
static const char *guess_format(const char *path)
{
    static const struct {
        const char *end, *format;
    } known[] = {{".csv", "csv"},    {".tsv", "csv"},         {".libsvm", "libsvm"},
                 {".svm", "libsvm"}, {".svmlight", "libsvm"}, {".npy", "npy"},
                 {".npz", "npz"}};
    size_t len = strlen(path);
    len -= len > 3 && strcasecmp(path + len - 3, ".gz") == 0 ? 3 : 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i].end);
        if (len > n && strncasecmp(path + len - n, known[i].end, n) == 0) {
            return known[i].format;
        }
    }
    return NULL;
}

static const char *type_of(const char *format)
{
    if (strcmp(format, "libsvm") == 0) {
        return "text/x-libsvm";
    }
    if (strcmp(format, "npy") == 0) {
        return "application/x-npy";
    }
    return strcmp(format, "npz") == 0 ? "application/x-npz" : "text/csv";
}

/* At the pace so far; NaN where there is none yet, for the first pieces fill buffers. */
static double seconds_left(const struct sending *s, int64_t done, double seconds)
{
    const double share = (double)done / (double)s->total;
    return done > 0 && seconds >= 1 ? seconds * (1 - share) / share : (double)NAN;
}

/* "120 MB of 500 MB  35.1 MB/s  ETA 11 s", with a bar. */
static void show_way(struct sending *s, const char *doing, int64_t done)
{
    char now[SHOW_CELL], all[SHOW_CELL], rate[SHOW_CELL], eta[SHOW_CELL], line[6 * SHOW_CELL];
    const double seconds = clock_monotonic_s() - s->began;
    show_bytes((double)done, now);
    show_bytes((double)s->total, all);
    show_bytes(seconds > 0 ? (double)done / seconds : 0, rate);
    if (s->total > 0) {
        show_remaining(seconds_left(s, done, seconds), eta);
        snprintf(line, sizeof line, "%s %s of %s  %s/s%s%s", doing, now, all, rate,
                 eta[0] ? "  ETA " : "", eta);
        meter_show(&s->meter, (double)done / (double)s->total, line);
    } else {
        snprintf(line, sizeof line, "%s %s  %s/s", doing, now, rate);
        meter_show(&s->meter, -1, line);
    }
}

/* What is left to do is the server's: it says nothing until it is done. */
static void show_reading(struct sending *s, int64_t sent)
{
    char all[SHOW_CELL], since[SHOW_CELL], line[3 * SHOW_CELL];
    const double now = clock_monotonic_s();
    s->sent_all = s->sent_all > 0 ? s->sent_all : now;
    show_bytes((double)sent, all);
    show_duration(now - s->sent_all, since);
    snprintf(line, sizeof line, "%s sent; the server reads it in  %s", all, since);
    meter_show(&s->meter, -1, line);
}

static bool on_sent(void *context, int64_t sent)
{
    struct sending *s = context;
    if (feof(s->file) || (s->total >= 0 && sent >= s->total)) {
        show_reading(s, sent);
    } else {
        show_way(s, "sending", sent);
    }
    return !interrupt_seen();
}

/* ---- what is there already ---- */

/* The SHA-256 of the file from its beginning, where it stands again afterwards. */
static enum exit_code digest_file(struct sending *s, char ret[SHA256_HEX_SIZE])
{
    struct sha256 *digest = sha256_new();
    cleanup_mem char *piece = mem_alloc(PIECE);
    int64_t done = 0;
    size_t n = 1;
    while (digest && piece && n > 0 && !interrupt_seen()) {
        n = fread(piece, 1, PIECE, s->file);
        sha256_update(digest, piece, n);
        done += (int64_t)n;
        show_way(s, "looking at", done);
    }
    const bool ok = digest && piece && !ferror(s->file);
    if (ok) {
        sha256_hex(digest, ret);
    }
    sha256_free(digest);
    rewind(s->file);
    if (interrupt_seen()) {
        return EXIT_INTERRUPTED;
    }
    if (!ok) {
        complain("%s cannot be read", s->path);
    }
    return ok ? EXIT_DONE : EXIT_LOCAL;
}

/* "a,b" of --ignore, a parameter each. */
static void add_ignored(struct buf *ret, const char *list)
{
    while (*list) {
        const size_t n = strcspn(list, ",");
        cleanup_mem char *name = mem_strndup(list, n);
        api_query_add(ret, "ignore", name);
        ret->failed = ret->failed || !name;
        list += n + (list[n] == ',');
    }
}

/* "/v1/datasets", or "/v1/datasets/sha256:…", with the query that says how to read it. */
static void write_path(struct buf *ret, const struct sending *s, const char *digest, bool named)
{
    const struct args *args = s->args;
    const char *slash = strrchr(s->path, '/');
    const char *name = args_get(args, "name");
    buf_str(ret, "/v1/datasets");
    if (digest) {
        buf_printf(ret, "/sha256:%s", digest);
    }
    api_query_add(ret, "format", s->format);
    if (named) {
        api_query_add(ret, "name", name ? name : slash ? slash + 1 : s->path);
    }
    api_query_add(ret, "task", args_get(args, "task"));
    api_query_add(ret, "one_hot", args_has(args, "one-hot") ? "true" : NULL);
    api_query_add(ret, "missing", args_get(args, "missing"));
    api_query_add(ret, "decimal", args_get(args, "decimal"));
    for (int i = 0; i < args->value_count; i++) {
        if (strcmp(args->values[i].name, "target") == 0) {
            api_query_add(ret, "target", args->values[i].value);
        } else if (strcmp(args->values[i].name, "ignore") == 0) {
            add_ignored(ret, args->values[i].value);
        }
    }
}

/* A data set that is there keeps its name, which others may know it by. Who asked for another one
 * is told even where progress is not wanted. */
static void tell_there(const struct sending *s, const struct json *dataset)
{
    const char *there = json_string(json_get(dataset, "name"));
    const char *id = json_string(json_get(dataset, "id"));
    const char *asked = args_get(s->args, "name");
    if (asked && there && strcmp(asked, there) != 0) {
        show_line(stderr,
                  "warning: the server has this table already, under the name %s (%s): it keeps "
                  "that name, and is not called %s",
                  there, id ? id : "?", asked);
    } else if (!s->client->quiet) {
        show_line(stderr, "the server has this table already, as %s", there ? there : "");
    }
}

/* *ret stays NULL where the server has it not. */
static enum exit_code find_there(struct sending *s, const char *digest, struct json **ret)
{
    struct buf url = BUF_INIT;
    struct http_reply reply = {.status = 0};
    struct err err;
    write_path(&url, s, digest, false);
    const struct http_ask ask = {.method = "GET", .path = url.data, .accept = "application/json"};
    enum exit_code code = url.failed ? EXIT_LOCAL : EXIT_DONE;
    if (code == EXIT_DONE && http_call(s->client->http, &ask, &reply, &err) < 0) {
        code = api_no_answer(&err);
    } else if (code == EXIT_DONE && reply.status != 404) {
        code = reply.status == 200 ? api_parse(&reply, ret) : api_refused(&reply);
    }
    http_reply_deinit(&reply);
    buf_deinit(&url);
    return code;
}

/* ---- sending ---- */

static bool is_packed(const char *path)
{
    const size_t len = strlen(path);
    return len > 3 && strcasecmp(path + len - 3, ".gz") == 0;
}

/* digest NULL: not known. */
static enum exit_code send_file(struct sending *s, const char *digest, struct json **ret)
{
    const char *const headers[] = {is_packed(s->path) ? "Content-Encoding: gzip" : NULL, NULL};
    struct buf url = BUF_INIT;
    struct http_reply reply = {.status = 0};
    s->began = clock_monotonic_s();
    write_path(&url, s, digest, true);
    const struct http_ask ask = {.method = digest ? "PUT" : "POST",
                                 .path = url.data,
                                 .content_type = type_of(s->format),
                                 .accept = "application/json",
                                 .headers = headers,
                                 .file = s->file,
                                 .file_size = s->total,
                                 .progress = on_sent,
                                 .context = s};
    enum exit_code code = url.failed ? EXIT_LOCAL : api_call(s->client, &ask, &reply);
    if (code == EXIT_DONE) {
        code = api_parse(&reply, ret);
    }
    http_reply_deinit(&reply);
    buf_deinit(&url);
    return code;
}

/* A file that can be read twice is sent only where the server has not what it holds. */
static enum exit_code put_file(struct sending *s, struct json **ret)
{
    char digest[SHA256_HEX_SIZE];
    s->began = clock_monotonic_s();
    enum exit_code code = digest_file(s, digest);
    code = code == EXIT_DONE ? find_there(s, digest, ret) : code;
    if (code == EXIT_DONE && *ret) {
        meter_end(&s->meter);
        tell_there(s, *ret);
        return EXIT_DONE;
    }
    return code == EXIT_DONE ? send_file(s, digest, ret) : code;
}

static enum exit_code upload(struct sending *s, struct json **ret)
{
    const char *asked = args_get(s->args, "format");
    s->format = asked ? asked : guess_format(s->path);
    if (!s->format) {
        complain("what %s holds cannot be told by its name; say --format csv, libsvm, npy or npz",
                 s->path);
        return EXIT_USAGE;
    }
    meter_begin(&s->meter, s->client->quiet);
    interrupt_watch();
    const enum exit_code code = s->total >= 0 ? put_file(s, ret) : send_file(s, NULL, ret);
    meter_end(&s->meter);
    return code;
}

enum exit_code upload_file(struct client *c, const struct args *args, const char *path,
                           struct json **ret)
{
    const bool standard = strcmp(path, "-") == 0;
    struct stat st;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file || fstat(fileno(file), &st) < 0 || S_ISDIR(st.st_mode)) {
        complain("%s: %s", path, file ? "is not a file" : strerror(errno));
        if (file && !standard) {
            fclose(file);
        }
        return EXIT_LOCAL;
    }
    const bool sized = S_ISREG(st.st_mode) && !standard;
    struct sending s = {.client = c,
                        .args = args,
                        .path = path,
                        .file = file,
                        .total = sized ? (int64_t)st.st_size : -1};
    const enum exit_code code = upload(&s, ret);
    if (!standard) {
        fclose(file);
    }
    return code;
}
