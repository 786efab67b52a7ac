/*
 * The words after `krr COMMAND`: options from a table, and operands. The table is the one truth for
 * parsing, --help and shell completion.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "client/client.h"

#define ARGS_MAX_VALUES 64

struct option_row {
    const char *name;  /* without the dashes */
    char letter;       /* a short form, or 0 */
    const char *value; /* what the value is called; NULL: a flag */
    const char *help;
    /* What the value may be, by place, NULL after the last; a member NULL: what it likes. Help and
     * completion tell. */
    const char *(*choice)(int place);
};

struct args {
    const struct command *command;
    struct {
        const char *name;  /* of its option_row */
        const char *value; /* "" for a flag; borrowed from argv */
    } values[ARGS_MAX_VALUES];
    int value_count;
    char **operands; /* borrowed from argv */
    int operand_count;
    bool help; /* --help was among them */
};

/* Options that every command has: --json and --help among them. */
extern const struct option_row common_options[];

/* How many words the common option, or the cluster of short ones, takes with its value: 1 or 2; 0:
 * it is none. *help becomes true where --help is among them. */
int args_common_words(const char *word, bool *help);
/* argv[0] is the command's name. Complaints go to standard error; false: usage. */
bool args_parse(const struct command *command, int argc, char **argv, struct args *ret);
/* The last value given, or NULL. */
const char *args_get(const struct args *a, const char *name);
bool args_has(const struct args *a, const char *name);
/* The operand, or NULL where there are fewer. */
const char *args_operand(const struct args *a, int index);

void args_print_help(const struct command *command, FILE *to);
