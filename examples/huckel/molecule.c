#include "molecule.h"

#include <string.h>

/* Attempts to find a place for the next step before the molecule is given up. */
#define GROW_ATTEMPTS 200

static bool bonded(const struct molecule *m, int a, int b)
{
    for (int k = 0; k < m->degree[a]; k++) {
        if (m->neighbours[a][k] == b)
            return true;
    }
    return false;
}

static int add_atom(struct molecule *m)
{
    m->degree[m->atoms] = 0;
    return m->atoms++;
}

static void add_bond(struct molecule *m, int a, int b)
{
    m->neighbours[a][m->degree[a]++] = b;
    m->neighbours[b][m->degree[b]++] = a;
}

/* Adds `count` atoms in a row, the first bonded to `from`; returns the last one. */
static int add_chain(struct molecule *m, int from, int count, uint32_t *ret_atoms)
{
    for (int k = 0; k < count; k++) {
        int atom = add_atom(m);
        if (from >= 0)
            add_bond(m, from, atom);
        *ret_atoms |= UINT32_C(1) << atom;
        from = atom;
    }
    return from;
}

struct molecule molecule_chain(int atoms)
{
    struct molecule m = {.atoms = 0};
    uint32_t unused = 0;
    add_chain(&m, -1, atoms, &unused);
    return m;
}

struct molecule molecule_ring(int atoms)
{
    struct molecule m = molecule_chain(atoms);
    add_bond(&m, 0, atoms - 1);
    m.ring_atoms[m.rings++] = (UINT32_C(1) << atoms) - 1;
    return m;
}

static bool share_a_ring(const struct molecule *m, int a, int b)
{
    const uint32_t both = (UINT32_C(1) << a) | (UINT32_C(1) << b);
    for (int r = 0; r < m->rings; r++) {
        if ((m->ring_atoms[r] & both) == both)
            return true;
    }
    return false;
}

static int pick_atom(struct rng *rng, const struct molecule *m)
{
    return (int)rng_below(rng, m->atoms);
}

static int pick_neighbour(struct rng *rng, const struct molecule *m, int atom)
{
    return m->neighbours[atom][rng_below(rng, m->degree[atom])];
}

/*
 * A random walk of `bonds` steps whose ends have a free bond, whose inner atoms have none, and
 * which does not turn back. For more than one bond the ends must lie in different rings, or the
 * new ring would cross an old one. False when the draw does not fit.
 */
static bool pick_bay(struct rng *rng, const struct molecule *m, int bonds, int ret[4])
{
    ret[0] = pick_atom(rng, m);
    for (int k = 1; k <= bonds; k++) {
        ret[k] = pick_neighbour(rng, m, ret[k - 1]);
        if (k >= 2 && ret[k] == ret[k - 2])
            return false;
        if (k < bonds && m->degree[ret[k]] != 3)
            return false;
    }
    const int first = ret[0];
    const int last = ret[bonds];
    if (first == last || m->degree[first] != 2 || m->degree[last] != 2)
        return false;
    return bonds == 1 || (!share_a_ring(m, first, last) && !bonded(m, first, last));
}

/* Closes a ring of `size` over a path of one to three bonds; adds size - bonds - 1 atoms. */
static bool fuse_ring(struct rng *rng, struct molecule *m, int size, int atoms_left)
{
    const int bonds = 1 + (int)rng_below(rng, 3);
    const int fresh = size - bonds - 1;
    int path[4];
    if (fresh > atoms_left || m->rings == MOLECULE_MAX_RINGS || !pick_bay(rng, m, bonds, path))
        return false;
    uint32_t ring = 0;
    for (int k = 0; k <= bonds; k++)
        ring |= UINT32_C(1) << path[k];
    const int end = add_chain(m, path[0], fresh, &ring);
    add_bond(m, end, path[bonds]);
    m->ring_atoms[m->rings++] = ring;
    return true;
}

/* Hangs a new ring of `size` on a free bond. */
static bool link_ring(struct rng *rng, struct molecule *m, int size, int atoms_left)
{
    const int atom = pick_atom(rng, m);
    if (size > atoms_left || m->rings == MOLECULE_MAX_RINGS || m->degree[atom] == 3)
        return false;
    uint32_t ring = 0;
    const int first = m->atoms;
    const int last = add_chain(m, atom, size, &ring);
    add_bond(m, first, last);
    m->ring_atoms[m->rings++] = ring;
    return true;
}

/* Hangs one carbon (methylene) or two (vinyl) on a free bond. */
static bool attach_chain(struct rng *rng, struct molecule *m, int atoms_left)
{
    const int atom = pick_atom(rng, m);
    const int length = rng_uniform(rng) < 0.25 ? 1 : 2;
    if (length > atoms_left || m->degree[atom] == 3)
        return false;
    uint32_t unused = 0;
    add_chain(m, atom, length, &unused);
    return true;
}

/* Five, six or seven; six-membered rings are the common ones. */
static int pick_ring_size(struct rng *rng)
{
    const double u = rng_uniform(rng);
    return u < 0.65 ? 6 : u < 0.85 ? 5 : 7;
}

static bool grow_step(struct rng *rng, struct molecule *m, int atoms_left)
{
    const double u = rng_uniform(rng);
    if (u < 0.5)
        return fuse_ring(rng, m, pick_ring_size(rng), atoms_left);
    if (u < 0.65)
        return link_ring(rng, m, pick_ring_size(rng), atoms_left);
    return attach_chain(rng, m, atoms_left);
}

bool molecule_grow(struct rng *rng, int atoms, struct molecule *ret)
{
    const int ring = pick_ring_size(rng);
    const bool start_with_ring = ring <= atoms && rng_uniform(rng) < 0.8;
    struct molecule m = start_with_ring ? molecule_ring(ring) : molecule_chain(4);
    for (int attempt = 0; m.atoms < atoms && attempt < GROW_ATTEMPTS; attempt++)
        (void)grow_step(rng, &m, atoms - m.atoms);
    if (m.atoms != atoms || !molecule_has_kekule_structure(&m))
        return false;
    *ret = m;
    return true;
}

/*
 * Matches the lowest unmatched atom with each free neighbour in turn. Exponential at worst, but a
 * molecule has few branch points: most of the draws are forced by atoms with one free neighbour.
 */
static bool match_rest(const struct molecule *m, uint32_t matched)
{
    int atom = 0;
    while (atom < m->atoms && (matched >> atom & 1))
        atom++;
    if (atom == m->atoms)
        return true;
    for (int k = 0; k < m->degree[atom]; k++) {
        const int other = m->neighbours[atom][k];
        const uint32_t pair = (UINT32_C(1) << atom) | (UINT32_C(1) << other);
        if (!(matched >> other & 1) && match_rest(m, matched | pair))
            return true;
    }
    return false;
}

bool molecule_has_kekule_structure(const struct molecule *m)
{
    return m->atoms % 2 == 0 && match_rest(m, 0);
}

static void distances_from(const struct molecule *m, int start, int *ret_distance)
{
    int queue[MOLECULE_MAX_ATOMS];
    int head = 0;
    int tail = 0;
    for (int i = 0; i < m->atoms; i++)
        ret_distance[i] = -1;
    ret_distance[start] = 0;
    queue[tail++] = start;
    while (head < tail) {
        const int atom = queue[head++];
        for (int k = 0; k < m->degree[atom]; k++) {
            const int other = m->neighbours[atom][k];
            if (ret_distance[other] >= 0)
                continue;
            ret_distance[other] = ret_distance[atom] + 1;
            queue[tail++] = other;
        }
    }
}

void molecule_distances(const struct molecule *m, int ret[MOLECULE_MAX_ATOMS][MOLECULE_MAX_ATOMS])
{
    for (int i = 0; i < m->atoms; i++)
        distances_from(m, i, ret[i]);
}
