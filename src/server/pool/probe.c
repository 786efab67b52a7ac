#include "server/pool/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"

#define ANSWER_MAX 16384
#define PATIENCE_S 60.0 /* a driver that wakes up takes seconds */
#define CUDA_MAX 64

/* Reads until the other end closes: the bytes, or an error. */
static int read_all(int fd, char *ret, size_t size, struct err *err)
{
    const double end = clock_monotonic_s() + PATIENCE_S;
    size_t len = 0;
    while (len < size) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        const double left = end - clock_monotonic_s();
        const int r = poll(&ready, 1, left > 0.0 ? (int)(1e3 * left) : 0);
        if (r == 0) {
            return err_set(err, ERR_DEVICE, "It did not tell of its GPUs within %g s.", PATIENCE_S);
        }
        const ssize_t n = r > 0 ? read(fd, ret + len, size - len) : -1;
        if (n < 0 && errno != EINTR) {
            return err_errno(err, "read what the CUDA worker program says");
        }
        if (n == 0) {
            return (int)len;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    return err_set(err, ERR_DEVICE, "It says more of its GPUs than anybody asked.");
}

static int start(const char *program, int fd, pid_t *ret, struct err *err)
{
    char *args[] = {(char *)(uintptr_t)program, "--devices", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    const int r = posix_spawn(ret, program, &actions, NULL, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r == 0 ? 0 : err_set(err, ERR_NOT_FOUND, "It cannot be started: %s.", strerror(r));
}

/* Its whole answer, which it ends by ending itself. */
static int ask(const char *program, char ret[ANSWER_MAX], struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return err_errno(err, "make a pipe");
    }
    pid_t pid;
    int r = start(program, ends[1], &pid, err);
    close(ends[1]);
    if (r == 0) {
        r = read_all(ends[0], ret, ANSWER_MAX, err);
        if (r < 0) {
            kill(pid, SIGKILL);
        }
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    close(ends[0]);
    return r;
}

/* Of those, a GPU; other devices are none of ours. */
static void add(const char *device, uint64_t *to)
{
    for (int i = 0; device != NULL && i < CUDA_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "cuda:%d", i);
        *to |= (uint64_t)(strcmp(name, device) == 0) << i;
    }
}

/* {"devices": ["cuda:0", ..., "cpu"], "detail": what the GPUs lack, or null}. */
static int read_answer(const char *text, size_t len, uint64_t *ret, struct err *err)
{
    struct json *answer cleanup_json = NULL;
    struct err ignored;
    const bool parsed = json_parse(text, len, &answer, &ignored) == 0;
    const struct json *devices = parsed ? json_get(answer, "devices") : NULL;
    uint64_t found = 0;
    if (devices == NULL) {
        return err_set(err, ERR_DEVICE, "It ended without telling of its GPUs.");
    }
    for (const struct json *d = json_first(devices); d != NULL; d = json_next(d)) {
        add(json_string(d), &found);
    }
    const char *detail = json_string(json_get(answer, "detail"));
    *ret = found;
    return found != 0
               ? 0
               : err_set(err, ERR_UNSUPPORTED, "%s", detail != NULL ? detail : "It finds no GPU.");
}

int probe_cuda(const char *program, uint64_t *ret, struct err *err)
{
    char answer[ANSWER_MAX];
    const int r = ask(program, answer, err);
    return r < 0 ? r : read_answer(answer, (size_t)r, ret, err);
}
