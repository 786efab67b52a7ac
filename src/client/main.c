#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"

#define DEFAULT_URL "http://127.0.0.1:8080"
#define KEY_MAX_BYTES 4096

static void print_overview(FILE *to)
{
    fprintf(to,
            "usage: krr COMMAND …\n\n"
            "Trains kernel ridge regression models on a krrd server and predicts with them.\n\n");
    for (const struct command *c = commands; c->name; c++) {
        fprintf(to, "  %-12s %s\n", c->name, c->summary);
    }
    fprintf(to,
            "\n`krr COMMAND --help` has its options. $KRR_URL names the server (default %s),\n"
            "$KRR_KEY has the API key.\n",
            DEFAULT_URL);
}

static const struct command *find_command(const char *name)
{
    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
    }
    return NULL;
}

/* `krr -u URL jobs`: options of every command may stand before it. Puts the command's name in front
 * of them; true: there is none, and --help is among the options. */
static bool command_first(int argc, char **argv)
{
    int at = 1;
    bool help = false;
    for (int n = 1; at < argc && n > 0; at += n) {
        n = args_common_words(argv[at], &help);
    }
    if (at > 1 && at < argc) {
        char *name = argv[at];
        memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
        argv[1] = name;
    }
    return help && at >= argc;
}

/* The first line of --key-file, else $KRR_KEY; mem_free. */
static enum exit_code find_key(const struct args *a, char **ret)
{
    const char *path = args_get(a, "key-file");
    const char *set = getenv("KRR_KEY");
    size_t size = 0;
    struct err err;
    *ret = NULL;
    if (path && file_read_all(path, KEY_MAX_BYTES, ret, &size, &err) < 0) {
        complain("%s: %s", path, err.detail);
        return EXIT_LOCAL;
    }
    if (path) {
        (*ret)[strcspn(*ret, "\r\n")] = '\0';
    } else if (set && *set) {
        *ret = mem_strdup(set);
    }
    return EXIT_DONE;
}

static enum exit_code run(const struct command *command, const struct args *args)
{
    const char *url = args_get(args, "url") ? args_get(args, "url") : getenv("KRR_URL");
    cleanup_mem char *key = NULL;
    struct err err;
    struct client c = {.json = args_has(args, "json"), .quiet = args_has(args, "quiet")};
    enum exit_code code = find_key(args, &key);
    if (code != EXIT_DONE) {
        return code;
    }
    const struct http_options o = {
        .url = url && *url ? url : DEFAULT_URL, .key = key, .ca_file = args_get(args, "cacert")};
    if (http_new(&o, &c.http, &err) < 0) {
        return api_no_answer(&err);
    }
    code = command->run(&c, args);
    http_free(c.http);
    return code;
}

int main(int argc, char **argv)
{
    const bool help = command_first(argc, argv) || argc == 1;
    const char *word = argc > 1 ? argv[1] : "";
    const struct command *command = find_command(word);
    struct args args;
    if (help || strcmp(word, "--version") == 0) {
        help ? print_overview(stdout) : (void)puts("krr " KRRD_VERSION);
        return argc > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (!command) {
        complain(word[0] == '-' ? "a command is expected, not %s; `krr --help` lists them"
                                : "there is no command %s; `krr --help` lists them",
                 word);
        return EXIT_USAGE;
    }
    if (!args_parse(command, argc - 1, argv + 1, &args)) {
        return EXIT_USAGE;
    }
    if (args.help) {
        args_print_help(command, stdout);
        return EXIT_DONE;
    }
    return run(command, &args);
}
