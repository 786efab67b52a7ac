/* Files that are part of the program; the arrays are written by tools/embed-file. */
#pragma once

#include <stddef.h>

extern const unsigned char embedded_openapi[];
extern const size_t embedded_openapi_size;
