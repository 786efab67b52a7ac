/*
 * The names that a server goes by. A page of another site may have its own name resolve to this
 * machine once it is loaded (DNS rebinding): to the browser the server is then a part of that site,
 * and neither CORS nor the Origin header protects it. The Host header still has the site's name.
 * Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a request with this Host header may be meant for a server with these names: a list with
 * commas between, where ".example.org" is every name below example.org and "*" any name. Numeric
 * addresses, localhost and the names below it, which no foreign DNS server answers for, always may,
 * and so may what has no such header (NULL): browsers send one.
 */
bool http_host_allowed(const char *host, const char *names);

/* Whether these bytes are a host with or without a port, as in RFC 9110, section 7.2: a name or an
 * address, IPv6 in brackets; no user, no path, and not empty. */
bool http_host_valid(const char *host, size_t len);
