/* TLS by GnuTLS, where libmicrohttpd does not do it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* -ERR_INVALID unless the two PEM texts are a certificate and its key. */
int http_tls_check(const char *certificate, const char *key, struct err *err);

/* Sends a few bytes on a session (a gnutls_session_t) that has sent everything before; false where
 * they did not go out whole. */
bool http_tls_send(void *session, const void *data, size_t size);
