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

/* Once on standard error, be it a line of the log or not. */
static void tell_failure(const struct log *log, const struct err *err)
{
    log_msg(log, LOG_ERROR, "server.failed", "code", err_name(err->code), "detail", err->detail,
            NULL);
    if (log->fd != STDERR_FILENO || log->level > LOG_ERROR) {
        fprintf(stderr, "krrd: %s\n", err->detail);
    }
}

static int serve(struct config *config)
{
    struct app app;
    struct err err;
    int rc = app_open(&app, config, &err);
    rc = rc == 0 ? app_run(&app, &err) : rc;
    if (rc != 0) {
        tell_failure(&app.log, &err);
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

/* "backup FILE", "check", "compact" or "key NAME SCOPES" before the options: *argc and *argv then
 * begin with them. */
enum command { COMMAND_SERVE, COMMAND_BACKUP, COMMAND_CHECK, COMMAND_COMPACT, COMMAND_KEY };

/* The words after the command's own. */
struct words {
    const char *first, *second;
};

static int read_command(int *argc, char ***argv, enum command *ret, struct words *ret_words,
                        struct err *err)
{
    static const struct {
        const char *name, *usage;
        enum command command;
        int words;
    } known[] = {{"check", "krrd check", COMMAND_CHECK, 0},
                 {"compact", "krrd compact", COMMAND_COMPACT, 0},
                 {"backup", "krrd backup FILE", COMMAND_BACKUP, 1},
                 {"key", "krrd key NAME SCOPES", COMMAND_KEY, 2}};
    const char *word = *argc > 1 ? (*argv)[1] : "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word, known[i].name) != 0) {
            continue;
        }
        for (int k = 0; k < known[i].words; k++) {
            const char *given = *argc > 2 + k ? (*argv)[2 + k] : "-";
            if (given[0] == '-' || given[0] == '\0') {
                return err_set(err, ERR_INVALID, "Something is missing: %s.", known[i].usage);
            }
            *(k == 0 ? &ret_words->first : &ret_words->second) = given;
        }
        *ret = known[i].command;
        *argc -= 1 + known[i].words;
        *argv += 1 + known[i].words;
        return 0;
    }
    return 0;
}

static int do_command(enum command command, const struct words *words, struct config *config)
{
    switch (command) {
    case COMMAND_BACKUP:
        return operate_backup(config, words->first);
    case COMMAND_KEY:
        return operate_key(config, words->first, words->second);
    case COMMAND_CHECK:
        return operate_check(config);
    case COMMAND_COMPACT:
        return operate_compact(config);
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
    struct words words = {.first = NULL};
    if (read_command(&argc, &argv, &command, &words, &err) < 0 ||
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
        rc = do_command(command, &words, &config);
    }
    config_deinit(&config);
    return rc;
}
