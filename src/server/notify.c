#include "server/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') {
        to.sun_path[0] = '\0'; /* an abstract name, which no NUL ends */
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return;
    }
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    const ssize_t sent =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, size);
    (void)sent; /* A manager that does not listen has nobody to be told. */
    close(fd);
}

uint64_t notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid())) {
        return 0;
    }
    const unsigned long long interval = strtoull(usec, NULL, 10) / 2000;
    return interval > 86400000 ? 86400000 : interval;
}
