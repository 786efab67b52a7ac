/* The daemon's whole state, built top-down in main.c and freed in reverse. No globals beside it. */
#pragma once

#include "base/id.h"
#include "base/log.h"
#include "server/config.h"

struct http;
struct store;
struct pool;
struct trainer;
struct serving;
struct subscribers;

struct app {
    struct config config;
    struct log log;
    struct id_source ids;
    void *loop;                      /* uv_loop_t */
    struct store *store;
    struct http *http;
    struct pool *pool;               /* pool.h: worker processes */
    struct trainer *trainer;         /* trainer.h: queue -> training workers -> store */
    struct serving *serving;         /* serving.h: loaded models, predictions */
    struct subscribers *subscribers; /* subscribers.h: SSE listeners by job */
    bool draining;
};

/* Paths inside the data directory, into caller's memory. */
#define APP_PATH_MAX 4096
void app_dataset_path(const struct app *app, const char *dataset_id, char ret[APP_PATH_MAX]);

/* handlers.h lists the handler functions; routes.c the const route table. */
