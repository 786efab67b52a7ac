/* A training order in a file. */
#pragma once

#include "wire/order.h"

int bench_order_read(const char *path, struct order **ret, struct err *err);
