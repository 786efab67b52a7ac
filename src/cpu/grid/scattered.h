/*
 * Products of all points with all points, of few features, wherever they lie: by a cloud
 * (cpu/grid/window.h). The spectrum of a gaussian ends; that of a Matern kernel does not, so that
 * its near part (cpu/grid/split.h) is taken from pairs that are near (cpu/grid/near.h) and the far
 * one goes by the cloud. The finer the cloud's places, the fewer pairs are near: what takes least
 * is chosen.
 */
#pragma once

#include "cpu/grid/near.h"
#include "cpu/grid/split.h"
#include "cpu/grid/window.h"

struct scattered {
    struct cloud cloud; /* torus.grid.dims = 0: there is none */
    bool splits;
    struct split split;
    struct near near;
    double near_share; /* of all pairs */
    double zone;       /* cloud_layout */
    double *column;    /* [places], of the product at hand */
    const struct backend *be;
    int64_t bytes; /* once prepared */
};

/* One set of points in the orders of both. */
struct scattered_set {
    struct cloud_order order;
    struct near_set near;
    int64_t bytes;
};

/* Around all sets of the type, with at most `most` places. */
void scattered_measure(struct scattered *s, struct points *const *sets, int count, enum dtype dtype,
                       int64_t most, const struct backend *be);
/* Of a product of p rows with q, beside that of the torus, in kernel values. */
double scattered_cost(const struct scattered *s, double p, double q);
int64_t scattered_set_bytes(const struct scattered *s, int64_t n);

/* numbers: room for [places] complex ones. */
int scattered_prepare(struct scattered *s, const struct points *p, double *numbers,
                      struct err *err);
struct scattered_set *scattered_settle(const struct scattered *s, const struct tile_isa *isa,
                                       const struct points *p, struct err *err);
struct scattered_set *scattered_set_free(struct scattered_set *set);
void scattered_deinit(struct scattered *s);

/* Column j + c of V to part c of complex numbers [places], 0 where V has none. */
void scattered_spread(const struct scattered *s, const struct tile_isa *isa, const struct points *q,
                      const struct mat *V, int64_t j, int c, double *numbers);
/* Column j + c of Y <- b Y + a times what points gather of part c. */
void scattered_gather(const struct scattered *s, const struct tile_isa *isa, const struct points *p,
                      double a, const double *numbers, double b, const struct mat *Y, int64_t j,
                      int c);
/* Y += a times what near pairs add. */
void scattered_near(const struct scattered *s, const struct tile_isa *isa, const struct points *p,
                    const struct points *q, double a, const struct mat *V, const struct mat *Y);
