/*
 * A device whose context breaks, as an illegal access breaks that of a GPU: for the tests of what
 * the daemon makes of it. The backend is real but for two operations (inner products of columns,
 * and copies to the host), which fail from the moment on that they find the file `trigger`; they
 * remove it, so that one process breaks.
 */
#pragma once

#include <stdbool.h>

#include "engine/backend.h"

struct faulty {
    struct backend_ops ops;         /* what the backend gets */
    const struct backend_ops *real; /* what it had */
    const char *trigger;
    bool broken;
};

/* *f and the path live as long as the backend is used; faulty_restore before it is closed. */
void faulty_install(struct faulty *f, struct backend *be, const char *trigger);
void faulty_restore(struct faulty *f, struct backend *be);
