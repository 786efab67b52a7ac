/* Telling the service manager (sd_notify(3)), where one asked for it by NOTIFY_SOCKET. */
#pragma once

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1". Without a service manager, or where it does not listen,
 * nothing happens. */
void notify_send(const char *state);

/* Milliseconds from one "WATCHDOG=1" to the next, half of what the manager waits; 0: it does not
 * ask this process for any. */
uint64_t notify_watchdog_ms(void);
