#include "client/args.h"

#include <getopt.h>
#include <string.h>

#include "base/mem.h"

/* Codes of options without a letter begin here. */
#define LONG_ONLY 256

/* Where the words of --help begin, and where lines of choices end. */
enum { HELP_COLUMN = 31, HELP_WIDTH = 100 };

const struct option_row common_options[] = {
    {"url", 'u', "URL", "the server (default: $KRR_URL, else http://127.0.0.1:8080)", NULL},
    {"key-file", 0, "FILE", "API key in its first line (default: $KRR_KEY)", NULL},
    {"cacert", 0, "FILE", "certificates to trust for https (default: the system's)", NULL},
    {"json", 'j', NULL, "JSON on standard output", NULL},
    {"quiet", 'q', NULL, "no progress on standard error", NULL},
    {"help", 'h', NULL, "this text", NULL},
    {.name = NULL},
};

static int count_rows(const struct option_row *rows)
{
    int n = 0;
    while (rows && rows[n].name) {
        n++;
    }
    return n;
}

/* The row by its place in the common options and then the command's own. */
static const struct option_row *row_at(const struct command *c, int index)
{
    const int common = count_rows(common_options);
    return index < common ? &common_options[index] : &c->options[index - common];
}

static const struct option_row *row_by_code(const struct command *c, int count, int code)
{
    if (code >= LONG_ONLY) {
        return row_at(c, code - LONG_ONLY);
    }
    for (int i = 0; i < count; i++) {
        if (row_at(c, i)->letter == code) {
            return row_at(c, i);
        }
    }
    return NULL;
}

static void fill_tables(const struct command *c, int count, struct option *ret_long,
                        char *ret_short)
{
    for (int i = 0; i < count; i++) {
        const struct option_row *row = row_at(c, i);
        ret_long[i] = (struct option){.name = row->name,
                                      .has_arg = row->value ? required_argument : no_argument,
                                      .val = row->letter ? row->letter : LONG_ONLY + i};
        if (row->letter) {
            *ret_short++ = row->letter;
        }
        if (row->letter && row->value) {
            *ret_short++ = ':';
        }
    }
    ret_long[count] = (struct option){.name = NULL};
    *ret_short = '\0';
}

static bool keep(struct args *a, const struct option_row *row)
{
    if (a->value_count == ARGS_MAX_VALUES) {
        fprintf(stderr, "krr %s: more than %d options\n", a->command->name, ARGS_MAX_VALUES);
        return false;
    }
    a->values[a->value_count].name = row->name;
    a->values[a->value_count].value = row->value ? optarg : "";
    a->value_count++;
    a->help = a->help || strcmp(row->name, "help") == 0;
    return true;
}

static bool check_operands(const struct args *a)
{
    const struct command *c = a->command;
    if (a->help || (a->operand_count >= c->min_operands && a->operand_count <= c->max_operands)) {
        return true;
    }
    fprintf(stderr, "krr %s: %s; usage: krr %s %s\n", c->name,
            a->operand_count < c->min_operands ? "something is missing" : "too many words", c->name,
            c->operands);
    return false;
}

bool args_parse(const struct command *command, int argc, char **argv, struct args *ret)
{
    const int count = count_rows(common_options) + count_rows(command->options);
    cleanup_mem struct option *longs = mem_zarray((size_t)count + 1, sizeof *longs);
    cleanup_mem char *shorts = mem_zarray(2 * (size_t)count + 1, 1);
    cleanup_mem char *program = mem_zarray(1, 64);
    if (!longs || !shorts || !program) {
        return false;
    }
    fill_tables(command, count, longs, shorts);
    *ret = (struct args){.command = command};
    snprintf(program, 64, "krr %s", command->name);
    char *const own_name = argv[0];
    argv[0] = program; /* what getopt's own messages begin with */
    int code;
    bool ok = true;
    optind = 1;
    while (ok && (code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const struct option_row *row = code == '?' ? NULL : row_by_code(command, count, code);
        ok = row && keep(ret, row);
    }
    argv[0] = own_name;
    ret->operands = argv + optind;
    ret->operand_count = argc - optind;
    return ok && check_operands(ret);
}

/* "--url", "--url=URL", "--json" */
static int common_long(const char *word, bool *help)
{
    const size_t n = strcspn(word, "=");
    for (const struct option_row *r = common_options; r->name; r++) {
        const bool same = strlen(r->name) == n && strncmp(word, r->name, n) == 0;
        if (same && (r->value || word[n] == '\0')) {
            *help = *help || strcmp(r->name, "help") == 0;
            return r->value && word[n] == '\0' ? 2 : 1;
        }
    }
    return 0;
}

/* "j", "ju", "juURL": a value ends the cluster. */
static int common_cluster(const char *letters, bool *help)
{
    for (; *letters; letters++) {
        const struct option_row *r = common_options;
        while (r->name && r->letter != *letters) {
            r++;
        }
        if (!r->name) {
            return 0;
        }
        *help = *help || strcmp(r->name, "help") == 0;
        if (r->value) {
            return letters[1] == '\0' ? 2 : 1;
        }
    }
    return 1;
}

int args_common_words(const char *word, bool *help)
{
    if (word[0] != '-' || word[1] == '\0') {
        return 0;
    }
    return word[1] == '-' ? common_long(word + 2, help) : common_cluster(word + 1, help);
}

const char *args_get(const struct args *a, const char *name)
{
    for (int i = a->value_count; i-- > 0;) {
        if (strcmp(a->values[i].name, name) == 0) {
            return a->values[i].value;
        }
    }
    return NULL;
}

bool args_has(const struct args *a, const char *name)
{
    return args_get(a, name) != NULL;
}

const char *args_operand(const struct args *a, int index)
{
    return index < a->operand_count ? a->operands[index] : NULL;
}

/* ": one, two", from this column on, in lines of HELP_WIDTH. */
static void print_choices(const struct option_row *row, int column, FILE *to)
{
    for (int i = 0; row->choice && row->choice(i); i++) {
        const char *word = row->choice(i);
        const int width = 3 + (int)strlen(word);
        fputs(i > 0 ? "," : ":", to);
        if (column + width > HELP_WIDTH) {
            fprintf(to, "\n%*s", HELP_COLUMN - 1, "");
            column = HELP_COLUMN;
        }
        fprintf(to, " %s", word);
        column += width - 1;
    }
}

static void print_row(const struct option_row *row, FILE *to)
{
    char left[64];
    const int n = row->letter ? snprintf(left, sizeof left, "-%c, --%s", row->letter, row->name)
                              : snprintf(left, sizeof left, "    --%s", row->name);
    if (row->value && n > 0 && (size_t)n < sizeof left) {
        snprintf(left + n, sizeof left - (size_t)n, " %s", row->value);
    }
    fprintf(to, "  %-28s %s", left, row->help);
    print_choices(row, HELP_COLUMN + (int)strlen(row->help), to);
    fputc('\n', to);
}

void args_print_help(const struct command *command, FILE *to)
{
    fprintf(to, "usage: krr %s %s\n\n%s\n\n", command->name, command->operands, command->summary);
    for (const struct option_row *r = command->options; r && r->name; r++) {
        print_row(r, to);
    }
    for (const struct option_row *r = common_options; r->name; r++) {
        print_row(r, to);
    }
}
