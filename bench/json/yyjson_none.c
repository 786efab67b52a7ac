#include "bench/json/contender.h"

const struct contender *const contender_yyjson = NULL;
