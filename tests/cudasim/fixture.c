#include "cudasim/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

cudaStream_t stream_new(void)
{
    cudaStream_t stream = NULL;
    ok(cudaSetDevice(0));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

int stream_setup(void **state)
{
    *state = stream_new();
    return 0;
}

int stream_teardown(void **state)
{
    return cudaStreamDestroy(*state);
}

void *device_bytes(cudaStream_t stream, const void *bytes, size_t count)
{
    void *data = NULL;
    ok(cudaMalloc(&data, count));
    if (bytes != NULL) {
        ok(cudaMemcpyAsync(data, bytes, count, cudaMemcpyHostToDevice, stream));
        ok(cudaStreamSynchronize(stream));
    }
    return data;
}

void get(cudaStream_t stream, void *to, const void *from, size_t bytes)
{
    ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
}

float *counted(cudaStream_t stream, int64_t n)
{
    float x[1024];
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(i + 1);
    }
    return device_bytes(stream, x, (size_t)n * sizeof *x);
}

void assert_fault(void (*program)(cudaStream_t), const char *sentence)
{
    int ends[2];
    char said[2048] = "";
    size_t length = 0;
    ssize_t got = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)signal(SIGABRT, SIG_DFL);
        program(stream_new());
        _exit(0);
    }
    (void)close(ends[1]);
    while (length < sizeof said - 1 &&
           (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0) {
        length += (size_t)got;
    }
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    said[length] = '\0';
    assert_contains(said, sentence);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}
