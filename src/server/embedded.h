/* Files that are part of the program; the arrays are written by tools/embed-file and
 * tools/embed-web. */
#pragma once

#include <stddef.h>

extern const unsigned char embedded_openapi[];
extern const size_t embedded_openapi_size;

/* What one representation of a file consists of. */
struct embedded_body {
    const unsigned char *data; /* NULL: there is no such representation */
    size_t size;
    const char *tag; /* its entity tag, quotes included */
};

/* The dashboard: the files of web/ and the chart library. */
struct embedded_file {
    const char *name; /* NULL ends the table */
    const char *type; /* Content-Type */
    struct embedded_body plain, gzip;
};
extern const struct embedded_file embedded_web[];
