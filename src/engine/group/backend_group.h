/*
 * Several devices of one kind as one backend. The first, the lead, holds the matrices and does all
 * dense algebra and column operations; points are held by every device, and products with a kernel
 * matrix are divided by P's rows, a range of them for each device. Weights and results travel by
 * way of the host: n t numbers a product, where the product itself has n^2 kernel values.
 *
 * A row of kmv has the same bits as on one device, but for P and Q the same view, where one device
 * may use the symmetry and several do not. Sums over P (kmtkv, ksketch) are added in the order of
 * the devices, so that their bits depend on how many there are. Where devices can, each keeps the
 * kernel values of its share of a product. Blocks of kernel values would
 * travel longer than they take to compute: the lead computes them.
 *
 * A long product is divided into rounds, each of some rows of every device's share. Between two of
 * them, when all devices are done with the first, be->stop is asked. Rounds depend on the shape and
 * the number of devices alone.
 */
#pragma once

#include "engine/backend.h"

#define BACKEND_GROUP_MAX 8

/* Kernel values from which on a product is divided: below, the lead is done before the others have
 * the weights. */
#define BACKEND_GROUP_VALUES ((int64_t)1 << 26)
/* A device's share of a round has so many times as many values, tenths of a second of a GPU's:
 * beside them the wait between two rounds is little. */
#define BACKEND_GROUP_ROUND ((int64_t)1 << 10)

/* Takes the members over, 1 to BACKEND_GROUP_MAX, unless it fails. Products of `least_values` are
 * divided. */
int backend_group_new(struct backend *const *members, int count, int64_t least_values,
                      struct backend **ret, struct err *err);
