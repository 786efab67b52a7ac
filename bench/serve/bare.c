/*
 * krr-bare: the least that libmicrohttpd does for a POST: reads the body and answers 200 with a
 * text that stays the same. What krrd needs beyond it is krrd's own. In one thread, as krrd, and
 * driven from outside over epoll, as krrd does it. Prints its port; ends when standard input does.
 */
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **context)
{
    static const char text[] =
        "{\"model\":\"bare\",\"version\":1,\"predictions\":[0.12345678901234567]}";
    static char mark;
    (void)cls;
    (void)url;
    (void)method;
    (void)version;
    (void)data;
    if (*context == NULL) {
        *context = &mark;
        return MHD_YES;
    }
    if (*size > 0) {
        *size = 0;
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof text - 1, (void *)(size_t)text, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    const enum MHD_Result rc = MHD_queue_response(mhd, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return rc;
}

int main(void)
{
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_access, NULL, MHD_OPTION_CONNECTION_LIMIT,
                         1024U, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info) {
        fputs("krr-bare: it did not start\n", stderr);
        return 1;
    }
    printf("%d\n", (int)info->port);
    fflush(stdout);
    info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd watched[] = {{.fd = info->epoll_fd, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};
    while (watched[1].revents == 0) {
        MHD_UNSIGNED_LONG_LONG ms = 0;
        const bool timed = MHD_get_timeout(daemon, &ms) == MHD_YES;
        poll(watched, 2, !timed ? -1 : ms < INT_MAX ? (int)ms : INT_MAX);
        MHD_run(daemon);
    }
    MHD_stop_daemon(daemon);
    return 0;
}
