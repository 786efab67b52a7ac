#include "engine/methods/restricted/sign_columns.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

static int numbers_of(const struct sign_columns *c)
{
    return c->signs.block * c->signs.copies;
}

int sign_columns_init(struct sign_columns *c, uint64_t seed, int64_t n, int64_t d,
                      struct rule_sketch signs, int parts, struct err *err)
{
    *c = (struct sign_columns){.seed = seed,
                               .d = d,
                               .signs = signs,
                               .parts = parts,
                               .most = n < SIGN_COLUMNS_MOST ? n : SIGN_COLUMNS_MOST};
    const size_t rows = (size_t)(c->most + 2 * signs.block); /* blocks may be cut at both ends */
    c->index = mem_array(rows * (size_t)signs.copies, sizeof(*c->index));
    c->sign = mem_array(rows * (size_t)signs.copies, sizeof(*c->sign));
    c->flip = mem_array(rows, sizeof(*c->flip));
    return c->index == NULL || c->sign == NULL || c->flip == NULL ? err_no_memory(err) : 0;
}

void sign_columns_deinit(struct sign_columns *c)
{
    c->index = mem_free(c->index);
    c->sign = mem_free(c->sign);
    c->flip = mem_free(c->flip);
}

/* The first row of a band, and the first band of a part. */
static int64_t band_begin(const struct sign_columns *c, int64_t band)
{
    return band * c->d / numbers_of(c);
}

static int64_t part_begin(const struct sign_columns *c, int part)
{
    return (int64_t)part * numbers_of(c) / c->parts;
}

int64_t sign_columns_rows(const struct sign_columns *c, int part)
{
    return band_begin(c, part_begin(c, part + 1)) - band_begin(c, part_begin(c, part));
}

/* The numbers of a block, from `at` on: their rows, where the part has their bands, and signs. */
static void draw_block(struct sign_columns *c, int part, struct rng *rng, int64_t at)
{
    const int64_t low = part_begin(c, part), high = part_begin(c, part + 1);
    for (int64_t k = 0; k < numbers_of(c); k++) {
        const int64_t begin = band_begin(c, k), rows = band_begin(c, k + 1) - begin;
        const uint64_t draw = rng_u64(rng);
        /* Bands are far shorter than 2^32. */
        const int64_t row = begin + (int64_t)(((draw >> 32) * (uint64_t)rows) >> 32);
        c->index[at + k] = k >= low && k < high ? row - band_begin(c, low) : -1;
        c->sign[at + k] = (draw & 1) != 0 ? 1 : -1;
        if (k % c->signs.copies == 0) {
            c->flip[(at + k) / c->signs.copies] = (draw & 2) != 0 ? 1 : -1;
        }
    }
}

struct sign_sketch sign_columns_draw(struct sign_columns *c, int part, int64_t first, int64_t count)
{
    const int64_t z = c->signs.block, begin = first / z * z;
    struct rng rng = rng_new(c->seed, RNG_SKETCH);
    rng.position = (uint64_t)(begin * c->signs.copies);
    for (int64_t at = 0; begin + at < first + count; at += z) {
        draw_block(c, part, &rng, at * c->signs.copies);
    }
    return (struct sign_sketch){.rows = sign_columns_rows(c, part),
                                .block = c->signs.block,
                                .copies = c->signs.copies,
                                .lead = (int)(first - begin),
                                .index = c->index,
                                .sign = c->sign,
                                .flip = c->flip,
                                .scale = 1.0 / sqrt((double)numbers_of(c))};
}

/* v <- H v of z numbers. */
static void mix(double *v, int z)
{
    for (int half = 1; half < z; half *= 2) {
        for (int j = 0; j < z / 2; j++) {
            double *a = v + j / half * 2 * half + j % half, *b = a + half;
            const double sum = *a + *b;
            *b = *a - *b;
            *a = sum;
        }
    }
}

void sign_sketch_multiply(const struct sign_sketch *phi, const double *y, int64_t count,
                          double *ret)
{
    const int z = phi->block, copies = phi->copies;
    const int64_t *index = phi->index;
    const signed char *sign = phi->sign;
    for (int64_t at = 0; at < phi->lead + count; at += z) {
        double v[SIGN_NUMBERS_MAX];
        for (int j = 0; j < z; j++) {
            const int64_t i = at + j - phi->lead;
            v[j] = i >= 0 && i < count ? y[i] * phi->flip[at + j] : 0.0;
        }
        mix(v, z);
        for (int k = 0; k < z * copies; k++, index++, sign++) {
            if (*index >= 0) {
                ret[*index] += phi->scale * *sign * v[k / copies];
            }
        }
    }
}
