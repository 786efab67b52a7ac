/* krrd: the daemon. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/app.h"
#include "server/operate.h"

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

/* "backup FILE" or "check" before the options: *argc and *argv then begin with them. */
enum command { COMMAND_SERVE, COMMAND_BACKUP, COMMAND_CHECK };

static int read_command(int *argc, char ***argv, enum command *ret, const char **ret_file,
                        struct err *err)
{
    const char *word = *argc > 1 ? (*argv)[1] : "";
    int words = 0;
    if (strcmp(word, "check") == 0) {
        *ret = COMMAND_CHECK;
        words = 1;
    } else if (strcmp(word, "backup") == 0) {
        if (*argc < 3 || (*argv)[2][0] == '-' || (*argv)[2][0] == '\0') {
            return err_set(err, ERR_INVALID, "Name the file: krrd backup FILE.");
        }
        *ret = COMMAND_BACKUP;
        *ret_file = (*argv)[2];
        words = 2;
    }
    *argc -= words;
    *argv += words;
    return 0;
}

static int do_command(enum command command, const char *file, struct config *config)
{
    switch (command) {
    case COMMAND_BACKUP:
        return operate_backup(config, file);
    case COMMAND_CHECK:
        return operate_check(config);
    case COMMAND_SERVE:
        break;
    }
    return serve(config);
}

int main(int argc, char **argv)
{
    struct config config;
    struct err err;
    enum command command = COMMAND_SERVE;
    const char *file = NULL;
    if (read_command(&argc, &argv, &command, &file, &err) < 0 ||
        config_read(argc, argv, &config, &err) != 0) {
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
        rc = do_command(command, file, &config);
    }
    config_deinit(&config);
    return rc;
}
