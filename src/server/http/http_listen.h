/* The listening socket. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* A non-blocking socket that is bound to a numeric IPv4 or IPv6 address ("localhost" is 127.0.0.1):
 * the port is ours, and whoever connects is refused until http_listen. -ERR_INVALID: not an
 * address; -ERR_CONFLICT: the port is taken. */
int http_bind(const char *address, int port, int *ret_fd, struct err *err);
/* Takes connections from now on; *ret_port is the port. -ERR_CONFLICT: another took it first. */
int http_listen(int fd, int *ret_port, struct err *err);

/* Whether the address can be reached from this machine alone. */
bool http_address_is_loopback(const char *address);
