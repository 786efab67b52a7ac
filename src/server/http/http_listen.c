#include "server/http/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t size;
};

static bool address_read(const char *text, int port, struct address *ret)
{
    const char *numeric = strcmp(text, "localhost") == 0 ? "127.0.0.1" : text;
    *ret = (struct address){.size = 0};
    if (inet_pton(AF_INET, numeric, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons((uint16_t)port);
        ret->size = sizeof(ret->v4);
    } else if (inet_pton(AF_INET6, numeric, &ret->v6.sin6_addr) == 1) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons((uint16_t)port);
        ret->size = sizeof(ret->v6);
    }
    return ret->size > 0;
}

bool http_address_is_loopback(const char *text)
{
    struct address a;
    if (!address_read(text, 0, &a)) {
        return false;
    }
    return a.any.sa_family == AF_INET ? ntohl(a.v4.sin_addr.s_addr) >> 24 == 127
                                      : IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr);
}

static int bound_port(int fd, int *ret)
{
    struct address a = {.size = sizeof(a.v6)};
    if (getsockname(fd, &a.any, &a.size) != 0) {
        return -1;
    }
    *ret = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return 0;
}

int http_bind(const char *text, int port, int *ret_fd, struct err *err)
{
    struct address a;
    if (!address_read(text, port, &a)) {
        return err_set(err, ERR_INVALID, "\"%s\" is not a numeric IPv4 or IPv6 address.", text);
    }
    const int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return err_errno(err, "open a socket");
    }
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &a.any, a.size) != 0) {
        const int rc = errno == EADDRINUSE
                           ? err_set(err, ERR_CONFLICT, "Port %d of %s is in use.", port, text)
                           : err_errno(err, "listen on the address");
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

int http_listen(int fd, int *ret_port, struct err *err)
{
    if (bound_port(fd, ret_port) == 0 && listen(fd, SOMAXCONN) == 0) {
        return 0;
    }
    return errno == EADDRINUSE ? err_set(err, ERR_CONFLICT, "Port %d is in use.", *ret_port)
                               : err_errno(err, "listen on the address");
}
