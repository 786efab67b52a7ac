/* What krr-load is asked to do. */
#pragma once

#include <stdint.h>

struct load_options {
    const char *host, *path, *format; /* json, npy or npy32 */
    int port;
    int64_t connections, rows, d, distinct, seed;
    double seconds, warm_up_s;
};

/* Ends the program with a message where something is wrong. */
struct load_options load_options_read(int argc, char **argv);
