/* krr completion: a bash function made of the tables that the program itself goes by. */
#include <stdio.h>

#include "client/args.h"

static void print_options(const struct option_row *rows)
{
    for (; rows && rows->name; rows++) {
        printf(" --%s", rows->name);
    }
}

enum exit_code cmd_completion(struct client *c, const struct args *args)
{
    (void)c, (void)args;
    printf("_krr() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (const struct command *k = commands; k->name; k++) {
        printf("    %s) options='", k->name);
        print_options(k->options);
        print_options(common_options);
        printf("' ;;\n");
    }
    printf("    esac\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
           "        COMPREPLY=($(compgen -W '");
    for (const struct command *k = commands; k->name; k++) {
        printf("%s ", k->name);
    }
    printf("' -- \"$word\"))\n"
           "    elif [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -F _krr krr\n");
    return EXIT_DONE;
}
