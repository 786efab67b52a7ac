#include "client/interrupt.h"

#include <signal.h>

/* A signal handler has no other way to tell anybody. */
static volatile sig_atomic_t seen;

static void on_signal(int number)
{
    (void)number;
    seen = 1;
}

void interrupt_watch(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &a, NULL);
}

bool interrupt_seen(void)
{
    return seen != 0;
}
