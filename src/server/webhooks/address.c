#include "server/webhooks/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- networks ---- */

static struct in6_addr map_ipv4(const uint8_t bytes[4])
{
    struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(a.s6_addr + 12, bytes, 4);
    return a;
}

static bool within(const struct in6_addr *a, const struct address_network *n)
{
    const int whole = n->bits / 8, rest = n->bits % 8;
    if (memcmp(a->s6_addr, n->address.s6_addr, (size_t)whole) != 0) {
        return false;
    }
    const int mask = 0xff00 >> rest & 0xff;
    return rest == 0 || (a->s6_addr[whole] & mask) == (n->address.s6_addr[whole] & mask);
}

/* "10.0.0.0/8"; without a slash, the one address. */
static int parse_network(const char *text, size_t len, struct address_network *ret)
{
    char copy[64];
    uint8_t bytes[4];
    if (len == 0 || len >= sizeof copy) {
        return -1;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *slash = strchr(copy, '/');
    char *end = NULL;
    const long given = slash ? strtol(slash + 1, &end, 10) : -1;
    if (slash && (slash[1] < '0' || slash[1] > '9' || *end != '\0')) {
        return -1;
    }
    if (slash) {
        *slash = '\0';
    }
    const bool four = inet_pton(AF_INET, copy, bytes) == 1;
    if (four) {
        ret->address = map_ipv4(bytes);
    } else if (inet_pton(AF_INET6, copy, &ret->address) != 1) {
        return -1;
    }
    const long most = four ? 32 : 128;
    const long bits = slash ? given : most;
    if (bits > most) {
        return -1;
    }
    ret->bits = (int)bits + (four ? 96 : 0);
    return 0;
}

int address_list_parse(const char *text, struct address_list *ret, struct err *err)
{
    *ret = (struct address_list){.count = 0};
    for (const char *at = text; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        if (ret->count == ADDRESS_NETWORKS_MAX ||
            parse_network(at, len, &ret->networks[ret->count]) < 0) {
            return err_set(err, ERR_INVALID,
                           "--webhook-allow: expected up to %d networks such as 10.0.0.0/8 or "
                           "fd00::/8, separated by commas; found \"%.80s\".",
                           ADDRESS_NETWORKS_MAX, at);
        }
        ret->count++;
        at += len + (at[len] == ',');
    }
    return 0;
}

/* ---- what is public ---- */

/* IANA's registry of special IPv4 addresses, with multicast and what is reserved. */
static const char *const special_ipv4[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",
};
/* Of the global unicast addresses, 2000::/3, those that are not: Teredo, ORCHID, documentation. */
static const char *const special_ipv6[] = {"2001::/23", "2001:db8::/32", "3fff::/20"};

static bool in_one_of(const struct in6_addr *a, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct address_network n;
        if (parse_network(texts[i], strlen(texts[i]), &n) < 0 || within(a, &n)) {
            return true;
        }
    }
    return false;
}

/* The IPv4 address that an IPv6 one leads to, mapped; or itself. */
static struct in6_addr behind(const struct in6_addr *a)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    if (memcmp(a->s6_addr, nat64, sizeof nat64) == 0) {
        return map_ipv4(a->s6_addr + 12);
    }
    if (a->s6_addr[0] == 0x20 && a->s6_addr[1] == 0x02) { /* 6to4 */
        return map_ipv4(a->s6_addr + 2);
    }
    return *a;
}

static bool is_public(const struct in6_addr *a)
{
    if (IN6_IS_ADDR_V4MAPPED(a)) {
        return !in_one_of(a, special_ipv4, sizeof special_ipv4 / sizeof special_ipv4[0]);
    }
    const bool global = (a->s6_addr[0] & 0xe0) == 0x20;
    return global && !in_one_of(a, special_ipv6, sizeof special_ipv6 / sizeof special_ipv6[0]);
}

static bool judge(const struct in6_addr *a, const struct address_list *also)
{
    const struct in6_addr real = behind(a);
    for (int i = 0; i < also->count; i++) {
        if (within(&real, &also->networks[i])) {
            return true;
        }
    }
    return is_public(&real);
}

bool address_allowed(const struct sockaddr *to, const struct address_list *also)
{
    if (to->sa_family == AF_INET) {
        struct sockaddr_in four;
        uint8_t bytes[4];
        memcpy(&four, to, sizeof four);
        memcpy(bytes, &four.sin_addr, sizeof bytes);
        const struct in6_addr a = map_ipv4(bytes);
        return judge(&a, also);
    }
    if (to->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, to, sizeof six);
        return judge(&six.sin6_addr, also);
    }
    return false;
}

bool address_host_allowed(const char *host, size_t len, const struct address_list *also)
{
    struct address_network n;
    const bool bracketed = len > 2 && host[0] == '[' && host[len - 1] == ']';
    if (bracketed) {
        return parse_network(host + 1, len - 2, &n) == 0 && judge(&n.address, also);
    }
    return memchr(host, '/', len) != NULL || parse_network(host, len, &n) < 0 ||
           judge(&n.address, also);
}
