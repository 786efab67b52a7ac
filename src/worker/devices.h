/* Which devices this program can run on, told to whoever started it. */
#pragma once

#include "base/err.h"
#include "engine/backend.h"

/* One line on standard output: {"devices": ["cuda:0", "cpu"], "detail": text or null}, the devices
 * in the providers' order, the text saying why a kind that this program knows has none. */
int devices_print(const struct backend_provider *const *providers, struct err *err);
