/* How a model is named on the command line: NAME, NAME@VERSION, NAME:ALIAS. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* Appends "/v1/models/NAME", with "/versions/V" or "/aliases/A". false: a part is empty. */
bool model_name_path(const char *text, struct buf *ret);
