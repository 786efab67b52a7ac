/*
 * The one error rule of the project.
 *
 * A function that can fail returns int: 0 for success, a negative -ERR_* for a failure the caller
 * forwards or reports, or a positive value that the function's own header documents as a condition
 * the caller must handle (a solver's stop reason, say). Its last argument is `struct err *err`,
 * filled only on failure; NULL is allowed when nobody wants the story. Outputs are named ret_* and
 * stay untouched on failure.
 *
 * `pointer` is a JSON pointer fragment ("#/kernel/bandwidth"), or empty. `detail` is one or two
 * whole sentences a client may read: no file paths, no SQL, no function names.
 */
#pragma once

#include <stddef.h>

/* code, wire name, sentence */
#define ERR_LIST(X)                                                                                \
    X(OK, "ok", "No error.")                                                                       \
    X(NO_MEMORY, "out_of_memory", "Not enough memory.")                                            \
    X(IO, "io_error", "Reading or writing a file failed.")                                         \
    X(DISK_FULL, "disk_full", "There is no room left on the disk.")                                \
    X(READ_ONLY, "read_only", "The storage is read-only.")                                         \
    X(PARSE, "malformed", "The input is not well-formed.")                                         \
    X(INVALID, "invalid_value", "A value is not allowed here.")                                    \
    X(UNAUTHORIZED, "unauthorized", "An API key is needed.")                                       \
    X(FORBIDDEN, "forbidden", "This is not allowed.")                                              \
    X(NOT_FOUND, "not_found", "There is no such thing.")                                           \
    X(CONFLICT, "conflict", "The present state does not allow this.")                              \
    X(TOO_LARGE, "too_large", "A limit was exceeded.")                                             \
    X(DOES_NOT_FIT, "does_not_fit", "The job needs more memory than a worker has.")                \
    X(UNSUPPORTED, "unsupported", "This is not supported here.")                                   \
    X(BUSY, "busy", "A queue is full; try again later.")                                           \
    X(DEADLINE, "deadline_exceeded", "The answer was not there by the deadline.")                  \
    X(CORRUPT, "corrupt", "Stored data failed a consistency check.")                               \
    X(NOT_POSITIVE_DEFINITE, "not_positive_definite",                                              \
      "The regularized kernel matrix is not positive definite.")                                   \
    X(DIVERGED, "diverged", "The iteration produced infinity or NaN.")                             \
    X(CANCELLED, "cancelled", "Cancelled on request.")                                             \
    X(WORKER_LOST, "worker_lost", "The worker process ended unexpectedly.")                        \
    X(DEVICE, "device_error", "The device reported an error.")                                     \
    X(INTERNAL, "internal_error", "The software contradicted itself.")

enum err_code {
#define X(code, name, sentence) ERR_##code,
    ERR_LIST(X)
#undef X
        ERR_COUNT_
};

struct err {
    enum err_code code;
    char pointer[192];
    char detail[512];
};

/* Fills *err (when not NULL) and returns -code, so that `return err_set(...)` reads well. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a JSON pointer fragment. */
int err_at(struct err *err, enum err_code code, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts `prefix` (e.g. "#/kernel") in front of a pointer that is relative ("#/bandwidth"). */
void err_prefix(struct err *err, const char *prefix);

/* -ERR_NO_MEMORY with its sentence. */
int err_no_memory(struct err *err);

/* -ERR_IO with strerror(errno) and what was being done ("write the data set"); -ERR_DISK_FULL when
 * errno is ENOSPC or EDQUOT, -ERR_READ_ONLY when it is EROFS, -ERR_BUSY when too many files are
 * open. */
int err_errno(struct err *err, const char *doing);

/* "not_found" for ERR_NOT_FOUND; ERR_INTERNAL's name for a code out of range. */
const char *err_name(enum err_code code);
const char *err_sentence(enum err_code code);

/* The code for a wire name, or ERR_INTERNAL. */
enum err_code err_from_name(const char *name);
