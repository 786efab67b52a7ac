/*
 * Driving an edge-triggered epoll descriptor from the loop. `run` is called when the descriptor is
 * readable and when the delay that http_loop_wake asked for is over: libmicrohttpd needs both, or
 * large transfers stall.
 */
#pragma once

#include "base/err.h"

struct http_loop;

struct http_loop_ops {
    void (*run)(void *context);
    void (*sweep)(void *context);  /* once a second */
    void (*closed)(void *context); /* after http_loop_close, when no callback can come any more */
};

/* `loop` is a uv_loop_t. */
int http_loop_open(void *loop, int fd, const struct http_loop_ops *ops, void *context,
                   struct http_loop **ret, struct err *err);
/* The next run comes after delay_ms at the latest; negative: only when the descriptor says so. */
void http_loop_wake(struct http_loop *l, long delay_ms);
/* Frees it from within the loop, which must run once more. */
/* A sweep in delay_ms, unless one comes earlier. */
void http_loop_alarm(struct http_loop *l, long delay_ms);
void http_loop_close(struct http_loop *l);
