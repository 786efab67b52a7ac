/* Ctrl-C: the first is noticed by whoever asks, the second ends the program as always. */
#pragma once

#include <stdbool.h>

void interrupt_watch(void);
bool interrupt_seen(void);
