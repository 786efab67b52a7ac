/*
 * Random conjugated hydrocarbons: connected graphs of sp2 carbons with at most three neighbours
 * each, grown from a ring or a chain by the steps that organic chemists draw. A ring of 5, 6 or 7
 * is fused onto a bond (naphthalene, azulene), or closed over a bay of two or three bonds
 * (phenalene, pyrene), a ring is linked by a single bond (biphenyl), a vinyl or methylene group is
 * attached (styrene, fulvene). Each finished molecule has a Kekulé structure: its double bonds
 * can be drawn so that every carbon has exactly one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define MOLECULE_MAX_ATOMS 32
#define MOLECULE_MAX_RINGS 16

struct molecule {
    int atoms;
    int degree[MOLECULE_MAX_ATOMS];
    int neighbours[MOLECULE_MAX_ATOMS][3];
    int rings;
    uint32_t ring_atoms[MOLECULE_MAX_RINGS]; /* bit i: atom i belongs to the ring */
};

/* A chain of `atoms` carbons: ethylene, butadiene, hexatriene for 2, 4, 6. */
struct molecule molecule_chain(int atoms);

/* One ring of `atoms` carbons: benzene for 6. */
struct molecule molecule_ring(int atoms);

/*
 * Grows a random molecule of exactly `atoms` carbons (even, 4 .. MOLECULE_MAX_ATOMS). False when
 * the growth ended in a graph without a Kekulé structure or could not reach the size; draw again.
 */
bool molecule_grow(struct rng *rng, int atoms, struct molecule *ret);

/* True when the double bonds can be placed so that each carbon has exactly one. */
bool molecule_has_kekule_structure(const struct molecule *m);

/* Number of bonds on the shortest path between each two atoms. */
void molecule_distances(const struct molecule *m, int ret[MOLECULE_MAX_ATOMS][MOLECULE_MAX_ATOMS]);
