/* The listening socket. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* A bound, listening, non-blocking socket for a numeric IPv4 or IPv6 address ("localhost" is
 * 127.0.0.1). -ERR_INVALID: not an address; -ERR_CONFLICT: the port is taken. */
int http_listen(const char *address, int port, int *ret_fd, int *ret_port, struct err *err);

/* Whether the address can be reached from this machine alone. */
bool http_address_is_loopback(const char *address);
