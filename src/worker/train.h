/*
 * One training order from start to end: open the data, fit, hand the model's bytes out. The outside
 * (frames to the daemon, or lines on stdout) is injected, so both ways run the same code.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "engine/backend.h"
#include "wire/order.h"

struct train_output {
    void *context;
    /* type "metrics" or "message"; data is borrowed and may be NULL. */
    int (*event)(void *context, const char *type, const char *level, const char *message,
                 const struct json *data, struct err *err);
    int (*model)(void *context, const void *data, size_t size, struct err *err);
    bool (*cancelled)(void *context);
    bool (*paused)(void *context);
};

/* The file of the model that the order's spec begins with. */
struct train_start {
    const void *data; /* NULL: none came */
    size_t size;
    enum err_code failure; /* why it did not arrive, else OK */
    /* The data are not looked at any more; NULL: nobody wants to know. */
    void (*taken)(void *context);
    void *context;
};

/*
 * Runs the order. *ret_done is the DONE object
 *   {"job","reason","result":{…}|null,"error":{"code","detail","pointer"}|null,
 *    "model":{…model_describe…}|null,"bytes":n,"sha256":"…"}
 * and is made for every outcome, failures of the job included; a negative return means that the
 * output itself failed (the daemon is gone), that memory for the answer was lacking, or
 * -ERR_DEVICE: the device reported an error, and nothing that this process does with it can be
 * trusted any more.
 */
int train_run(struct backend *be, const struct order *order, struct train_start start,
              const struct train_output *output, struct json **ret_done, struct err *err);
