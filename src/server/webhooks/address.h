/*
 * Where a webhook may go: to public addresses, and to those of the networks that the operator has
 * allowed. Judged is the address that is about to be connected to, whatever a name resolved to
 * before. IPv6 forms that lead to an IPv4 address (mapped, 6to4, NAT64) are judged by that.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

#define ADDRESS_NETWORKS_MAX 32

struct address_network {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d */
    int bits;
};

struct address_list {
    struct address_network networks[ADDRESS_NETWORKS_MAX];
    int count;
};

/* "10.0.0.0/8,::1/128,192.0.2.7"; "" is empty. -ERR_INVALID names what is none. */
int address_list_parse(const char *text, struct address_list *ret, struct err *err);

/* Whether `to` is public or in the list; no family but IPv4 and IPv6 is. */
bool address_allowed(const struct sockaddr *to, const struct address_list *also);

/* The same of a host as it stands in a URL, "127.0.0.1" or "[::1]"; a name is not judged here. */
bool address_host_allowed(const char *host, size_t len, const struct address_list *also);
