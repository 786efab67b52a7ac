#include "client/upload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"
#include "client/interrupt.h"
#include "client/show.h"

const struct option_row upload_options[] = {
    {"target", 't', "COLUMN", "target column, by name or number; may be repeated (default: last)"},
    {"name", 0, "NAME", "what the data set is called (default: the file's name)"},
    {"format", 0, "FORMAT", "csv, libsvm, npy or npz (default: by the file's name)"},
    {"task", 0, "TASK", "regression or classification (default: by the target's values)"},
    {"one-hot", 0, NULL, "text columns become one column a value"},
    {.name = NULL},
};

struct sending {
    struct meter meter;
    int64_t total; /* bytes; -1: unknown */
    double began;
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

static bool on_sent(void *context, int64_t sent)
{
    struct sending *s = context;
    char now[SHOW_CELL], all[SHOW_CELL], rate[SHOW_CELL], line[4 * SHOW_CELL];
    const double seconds = clock_monotonic_s() - s->began;
    show_bytes((double)sent, now);
    show_bytes((double)s->total, all);
    show_bytes(seconds > 0 ? (double)sent / seconds : 0, rate);
    if (s->total >= 0 && sent >= s->total) {
        snprintf(line, sizeof line, "%s sent; the server reads it in", all);
        meter_show(&s->meter, -1, line);
    } else if (s->total > 0) {
        snprintf(line, sizeof line, "%s of %s  %s/s", now, all, rate);
        meter_show(&s->meter, (double)sent / (double)s->total, line);
    } else {
        snprintf(line, sizeof line, "%s sent  %s/s", now, rate);
        meter_show(&s->meter, -1, line);
    }
    return !interrupt_seen();
}

static void write_path(struct buf *ret, const struct args *args, const char *path,
                       const char *format)
{
    const char *slash = strrchr(path, '/');
    const char *name = args_get(args, "name");
    buf_str(ret, "/v1/datasets");
    api_query_add(ret, "format", format);
    api_query_add(ret, "name", name ? name : slash ? slash + 1 : path);
    api_query_add(ret, "task", args_get(args, "task"));
    api_query_add(ret, "one_hot", args_has(args, "one-hot") ? "true" : NULL);
    for (int i = 0; i < args->value_count; i++) {
        if (strcmp(args->values[i].name, "target") == 0) {
            api_query_add(ret, "target", args->values[i].value);
        }
    }
}

static enum exit_code send_file(struct client *c, const struct args *args, const char *path,
                                FILE *file, int64_t size, struct json **ret)
{
    const char *asked = args_get(args, "format");
    const char *format = asked ? asked : guess_format(path);
    const size_t len = strlen(path);
    const bool packed = len > 3 && strcasecmp(path + len - 3, ".gz") == 0;
    const char *const headers[] = {packed ? "Content-Encoding: gzip" : NULL, NULL};
    struct sending s = {.total = size, .began = clock_monotonic_s()};
    struct buf url = BUF_INIT;
    struct http_reply reply = {.status = 0};
    if (!format) {
        complain("what %s holds cannot be told by its name; say --format csv, libsvm, npy or npz",
                 path);
        return EXIT_USAGE;
    }
    write_path(&url, args, path, format);
    meter_begin(&s.meter, c->quiet);
    interrupt_watch();
    const struct http_ask ask = {.method = "POST",
                                 .path = url.data,
                                 .content_type = type_of(format),
                                 .accept = "application/json",
                                 .headers = headers,
                                 .file = file,
                                 .file_size = size,
                                 .progress = on_sent,
                                 .context = &s};
    enum exit_code code = url.failed ? EXIT_LOCAL : api_call(c, &ask, &reply);
    meter_end(&s.meter);
    if (code == EXIT_DONE) {
        code = api_parse(&reply, ret);
    }
    http_reply_deinit(&reply);
    buf_deinit(&url);
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
    enum exit_code code = send_file(c, args, path, file, sized ? (int64_t)st.st_size : -1, ret);
    if (!standard) {
        fclose(file);
    }
    return code;
}
