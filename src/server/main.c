/* krrd: the daemon. */
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/app.h"

enum { EXIT_USAGE = 2 };

static int print_text(char *text)
{
    const int rc = text != NULL && fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? 0 : 1;
    mem_free(text);
    return rc;
}

static int serve(struct config *config)
{
    struct app app;
    struct err err;
    int rc = app_open(&app, config, &err);
    rc = rc == 0 ? app_run(&app, &err) : rc;
    if (rc != 0) {
        log_msg(&app.log, LOG_ERROR, "server.failed", "code", err_name(err.code), "detail",
                err.detail, NULL);
        fprintf(stderr, "krrd: %s\n", err.detail);
    }
    if (!app_close(&app)) {
        log_msg(&app.log, LOG_WARNING, "server.stopped_early", NULL);
        _exit(rc == 0 ? 0 : 1);
    }
    if (app.log.fd != STDERR_FILENO) {
        close(app.log.fd);
    }
    return rc == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct config config;
    struct err err;
    if (config_read(argc, argv, &config, &err) != 0) {
        fprintf(stderr, "krrd: %s\n", err.detail);
        return EXIT_USAGE;
    }
    int rc = 0;
    if (config.help) {
        rc = print_text(config_usage());
    } else if (config.version) {
        rc = puts("krrd " KRRD_VERSION) >= 0 ? 0 : 1;
    } else if (config.print_config) {
        rc = print_text(config_print(&config));
        putchar('\n');
    } else {
        rc = serve(&config);
    }
    config_deinit(&config);
    return rc;
}
