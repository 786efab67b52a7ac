/* Settings that contradict each other, or say what nobody can mean. */
#pragma once

#include "server/config.h"

/* -ERR_INVALID names the flag. Files are not looked at. */
int config_check(const struct config *c, struct err *err);
