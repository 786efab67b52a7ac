#include "sample.h"

#include "base/mem.h"
#include "coulomb.h"
#include "orbitals.h"

#define STREAM 4242       /* of the random numbers, this program's own */
#define MIN_GAP_EV 0.5    /* below it a single closed shell is no fair picture */
#define DRAWS_PER_ROW 500 /* draws before the sizes asked for are called exhausted */

/* Open addressing, a power of two of slots, 0 for empty. */
struct seen {
    uint64_t mask;
    uint64_t *slots;
};

static int seen_init(struct seen *s, int64_t count)
{
    uint64_t size = 64;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    s->mask = size - 1;
    s->slots = mem_zarray(size, sizeof(uint64_t));
    return s->slots ? 0 : -1;
}

/* True when the fingerprint is new; it is remembered. */
static bool seen_add(struct seen *s, uint64_t fingerprint)
{
    const uint64_t key = fingerprint ? fingerprint : 1;
    uint64_t i = key & s->mask;
    while (s->slots[i] != 0) {
        if (s->slots[i] == key)
            return false;
        i = (i + 1) & s->mask;
    }
    s->slots[i] = key;
    return true;
}

/* One draw: 1 and a row more, 0 when the draw was not usable, -1 on failure. */
static int draw_one(struct rng *rng, struct seen *seen, int max_atoms, struct sample *s)
{
    const int sizes = (max_atoms - SAMPLE_MIN_ATOMS) / 2 + 1;
    const int atoms = SAMPLE_MIN_ATOMS + 2 * (int)rng_below(rng, sizes);
    struct molecule m;
    struct orbitals levels;
    if (!molecule_grow(rng, atoms, &m))
        return 0;
    if (orbitals_solve(&m, HUCKEL_ROUNDS, &levels) != 0)
        return -1;
    if (levels.gap < MIN_GAP_EV || !seen_add(seen, coulomb_fingerprint(&m)))
        return 0;
    s->molecules[s->count] = m;
    s->homo[s->count] = levels.homo;
    s->count++;
    return 1;
}

/* Small molecules run out early; without this the first rows would hold most of them. */
static void shuffle(struct rng *rng, struct sample *s)
{
    for (int64_t i = s->count - 1; i > 0; i--) {
        const int64_t j = rng_below(rng, i + 1);
        const struct molecule m = s->molecules[i];
        const double homo = s->homo[i];
        s->molecules[i] = s->molecules[j];
        s->homo[i] = s->homo[j];
        s->molecules[j] = m;
        s->homo[j] = homo;
    }
}

static int fill(struct rng *rng, struct seen *seen, int64_t count, int max_atoms, struct sample *s)
{
    for (int64_t draws = 0; s->count < count; draws++) {
        if (draws > DRAWS_PER_ROW * (count + 100))
            return 1;
        if (draw_one(rng, seen, max_atoms, s) < 0)
            return -1;
    }
    shuffle(rng, s);
    return 0;
}

int sample_draw(uint64_t seed, int64_t count, int max_atoms, struct sample *ret)
{
    struct rng rng = rng_new(seed, STREAM);
    struct seen seen = {.mask = 0};
    struct sample s = {
        .molecules = mem_array((size_t)count, sizeof(struct molecule)),
        .homo = mem_array((size_t)count, sizeof(double)),
    };
    int status = -1;
    if (s.molecules && s.homo && seen_init(&seen, count) == 0)
        status = fill(&rng, &seen, count, max_atoms, &s);
    mem_free(seen.slots);
    if (status == 0)
        *ret = s;
    else
        sample_deinit(&s);
    return status;
}

void sample_deinit(struct sample *s)
{
    s->molecules = mem_free(s->molecules);
    s->homo = mem_free(s->homo);
    s->count = 0;
}
