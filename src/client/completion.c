/* krr completion: a bash function made of the tables that the program itself goes by. */
#include <stdio.h>
#include <string.h>

#include "client/args.h"

/* What is no list of words: names that the server knows, files, and what nobody can guess. */
#define FILES "@files"
#define NOTHING "@nothing"

static void print_names(const struct option_row *rows)
{
    for (; rows && rows->name; rows++) {
        printf(" --%s", rows->name);
    }
}

/* What an option's value, or a command's operand, may be, by what the usage line calls it. */
static const char *kind_of(const char *value)
{
    static const struct {
        const char *begin, *kind;
    } kinds[] = {{"FILE", FILES},
                 {"[FILE", FILES},
                 {"MODEL", "@models"},
                 {"[MODEL", "@models"},
                 {"JOB", "@jobs"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(value, kinds[i].begin, strlen(kinds[i].begin)) == 0) {
            return kinds[i].kind;
        }
    }
    return NOTHING;
}

static const char *kind_of_option(const struct option_row *row)
{
    if (strcmp(row->name, "model") == 0) {
        return "@models";
    }
    return strcmp(row->name, "dataset") == 0 ? "@datasets" : kind_of(row->value);
}

/* `train:--solver | train:-s) what='auto pcg' ;;`, of options with a value. */
static void print_values(const char *command, const struct option_row *rows)
{
    for (const struct option_row *r = rows; r && r->name; r++) {
        if (!r->value) {
            continue;
        }
        printf("    %s:--%s", command, r->name);
        if (r->letter) {
            printf(" | %s:-%c", command, r->letter);
        }
        printf(") what='");
        if (!r->choice) {
            printf("%s", kind_of_option(r));
        }
        for (int i = 0; r->choice && r->choice(i); i++) {
            printf("%s%s", i > 0 ? " " : "", r->choice(i));
        }
        printf("' ;;\n");
    }
}

/* Of the operands: every kind among them. */
static void print_operands(const struct command *k)
{
    printf("        %s) what='", k->name);
    for (const char *word = k->operands; *word; word += strcspn(word, " "), word += *word == ' ') {
        printf("%s ", kind_of(word));
    }
    printf("' ;;\n");
}

static void print_commands(void)
{
    for (const struct command *k = commands; k->name; k++) {
        printf("%s%s", k == commands ? "" : " ", k->name);
    }
}

static const char head[] =
    /* The first column of a list, without its heading. Options that name another server would have
     * to be taken along: then nothing is asked. */
    "_krr_ask() {\n"
    "    case \" ${COMP_WORDS[*]} \" in *' -u'* | *' -'[!-]u* | *' --url'* | *' --key-file'* | "
    "*' --cacert'*) return ;; esac\n"
    "    timeout 2 krr \"$1\" --limit 100 2>/dev/null | awk 'NR > 1 { print $1 }'\n"
    "}\n"
    "_krr() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local options= what= one command= i\n"
    /* bash takes "=" for a word of its own. */
    "    [ \"$word\" != = ] || word=\n"
    "    [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}\n";

static const char tail[] =
    "    COMPREPLY=()\n"
    "    for one in $what; do\n"
    "        case $one in\n"
    "        " NOTHING ") ;;\n"
    "        " FILES ")\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$word\")\n"
    "            ;;\n"
    "        @*) COMPREPLY+=($(compgen -W \"$(_krr_ask \"${one#@}\")\" -- \"$word\")) ;;\n"
    "        *) COMPREPLY+=($(compgen -W \"$one\" -- \"$word\")) ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "complete -F _krr krr\n";

/* $command: the first word that is one and no value of an option, before the cursor. */
static void print_search(void)
{
    printf("    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case ${COMP_WORDS[i-1]} in =");
    for (const struct option_row *r = common_options; r->name; r++) {
        if (r->value) {
            printf(" | --%s", r->name);
        }
        if (r->value && r->letter) {
            printf(" | -%c | -[!-]*%c", r->letter, r->letter);
        }
    }
    printf(") continue ;; esac\n"
           "        case ' ");
    print_commands();
    printf(" ' in *\" ${COMP_WORDS[i]} \"*) command=${COMP_WORDS[i]} && break ;; esac\n"
           "    done\n");
}

/* $options, of the command, or of every one where there is none yet. */
static void print_options(void)
{
    printf("    case $command in\n");
    for (const struct command *k = commands; k->name; k++) {
        printf("    %s) options='", k->name);
        print_names(k->options);
        print_names(common_options);
        printf("' ;;\n");
    }
    printf("    *) options='");
    print_names(common_options);
    printf("' ;;\n"
           "    esac\n");
}

/* $what: values of the option before the cursor, else operands, options, or commands. */
static void print_offer(void)
{
    printf("    case $command:$before in\n");
    for (const struct command *k = commands; k->name; k++) {
        print_values(k->name, k->options);
        print_values(k->name, common_options);
    }
    print_values("", common_options);
    printf("    *)\n"
           "        case $command in\n");
    for (const struct command *k = commands; k->name; k++) {
        print_operands(k);
    }
    printf("        *) what='");
    print_commands();
    printf("' ;;\n"
           "        esac\n"
           "        [[ $word != -* ]] || what=$options\n"
           "    esac\n");
}

enum exit_code cmd_completion(struct client *c, const struct args *args)
{
    (void)c, (void)args;
    printf("%s", head);
    print_search();
    print_options();
    print_offer();
    printf("%s", tail);
    return EXIT_DONE;
}
