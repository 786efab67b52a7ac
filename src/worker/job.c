#include "worker/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "worker/train.h"

#define ORDER_MAX_BYTES (64u << 20)

/* Ctrl-C asks for a clean cancel, SIGTERM for a checkpoint and an end where the order names a place
 * for one. A signal handler can reach nothing but a static. */
static volatile sig_atomic_t interrupted, paused;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void on_terminate(int number)
{
    (void)number;
    paused = 1;
}

static bool job_paused(void *context)
{
    (void)context;
    return paused != 0;
}

static bool job_cancelled(void *context)
{
    (void)context;
    return interrupted != 0;
}

static int print_line(const struct json *j, struct err *err)
{
    cleanup_mem char *text = json_print(j);
    if (!text) {
        return err_no_memory(err);
    }
    if (printf("%s\n", text) < 0 || fflush(stdout) != 0) {
        return err_errno(err, "write an event");
    }
    return 0;
}

static int job_event(void *context, const char *type, const char *level, const char *message,
                     const struct json *data, struct err *err)
{
    (void)context;
    cleanup_json struct json *j = json_new_object();
    json_set_string(j, "type", type);
    json_set_string(j, "level", level);
    json_set_string(j, "message", message);
    json_set(j, "data", data ? json_copy(data) : json_new_null());
    return j ? print_line(j, err) : err_no_memory(err);
}

static int job_model(void *context, const void *data, size_t size, struct err *err)
{
    const int *fd = context;
    return *fd < 0 ? 0 : file_write_all(*fd, data, size, err);
}

static int read_order(const char *path, struct order **ret, struct err *err)
{
    cleanup_mem char *text = NULL;
    size_t len = 0;
    struct err why;
    int r = file_read_all(path, ORDER_MAX_BYTES, &text, &len, &why);
    if (r < 0) {
        return err_set(err, why.code, "The order: %s", why.detail);
    }
    cleanup_json struct json *j = NULL;
    if (r == 0) {
        r = json_parse(text, len, &j, err);
    }
    return r < 0 ? r : order_read(j, ret, err);
}

/* Prints the DONE object; a job that ended without a model is this program's failure. */
static int finish(const struct json *done, struct err *err)
{
    int r = print_line(done, err);
    const struct json *error = json_get(done, "error");
    if (r == 0 && json_type(error) == JSON_OBJECT) {
        return err_at(err, ERR_INVALID, json_string(json_get(error, "pointer")), "%s",
                      json_string(json_get(error, "detail")));
    }
    return r;
}

static void listen_to_signals(const struct order *order)
{
    const struct sigaction interrupt = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &interrupt, NULL);
    if (order->checkpoint_path) {
        const struct sigaction terminate = {.sa_handler = on_terminate};
        sigaction(SIGTERM, &terminate, NULL);
    }
}

static int run_order(struct backend *be, const struct order *order, struct train_start start,
                     const char *model_path, struct err *err)
{
    int fd = model_path ? open(model_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (model_path && fd < 0) {
        return err_errno(err, "open the model's file");
    }
    listen_to_signals(order);
    const struct train_output output = {
        .context = &fd,
        .event = job_event,
        .model = job_model,
        .cancelled = job_cancelled,
        .paused = job_paused,
    };
    cleanup_json struct json *done = NULL;
    int r = train_run(be, order, start, &output, &done, err);
    if (r == 0) {
        r = finish(done, err);
    }
    if (fd >= 0) {
        close(fd);
    }
    return r;
}

int job_run(struct backend *be, const struct job_files *files, struct err *err)
{
    struct order *order = NULL;
    struct file_map start = {.data = NULL};
    int r = read_order(files->order, &order, err);
    if (r == 0 && files->start) {
        r = file_map_open(files->start, &start, err);
    }
    if (r == 0) {
        const struct train_start given = {.data = start.data, .size = start.size};
        r = run_order(be, order, given, files->model, err);
    }
    file_map_close(&start);
    order_free(order);
    return r;
}
