/*
 * Products of small matrices by a warp (src/gpu/matrix.cuh), as tensor cores make them: products of
 * numbers are exact; some of them are added at once to what is there, each cut off at a few bits
 * below the last one of the largest, and the sum is cut off to float32 (Fasi, Higham, Mikaitis,
 * Pranesh: Numerical behavior of NVIDIA tensor cores, 2021). How many at once, in which order, and
 * how many bits differs between devices and is not specified: it is drawn once.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <string.h>

#include "cudasim/sim.h"

#define ROWS 16
#define COLS 8
#define K_MAX 16

/* ---- float16 ---- */

uint16_t sim_float16_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const float size = fabsf(x);
    if (!(size < 65520.0F)) {
        return (uint16_t)(sign | (isnan(x) ? 0x7e00u : 0x7c00u));
    }
    int exponent = size > 0 ? ilogbf(size) : -14;
    exponent = exponent < -14 ? -14 : exponent;
    const float units = nearbyintf(ldexpf(size, 10 - exponent)); /* of the last place */
    /* 1024 of them are 1 in the exponent, which is 0 below the least normal number. */
    return (uint16_t)(sign | (uint16_t)((uint32_t)(exponent + 14) * 1024u + (uint32_t)units));
}

float sim_float16_value(uint16_t bits)
{
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    const uint32_t normal = (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    float size = (float)fraction * 0x1p-24F;
    if (exponent > 0) {
        memcpy(&size, &normal, sizeof size);
    }
    return (bits & 0x8000u) != 0 ? -size : size;
}

/* ---- sums ---- */

/* What is drawn: numbers added at once, bits kept below the last of the largest, and the order. */
static struct {
    int together, bits, order[K_MAX];
} way;

static void draw_way(void)
{
    if (way.together != 0) {
        return;
    }
    way.together = 4 << sim_random() % 3;
    way.bits = (int)(sim_random() % 3);
    for (int i = 0; i < K_MAX; i++) {
        const int other = (int)(sim_random() % (uint64_t)(i + 1));
        way.order[i] = way.order[other];
        way.order[other] = i;
    }
}

/* The float32 of `x`, towards 0. */
static float cut_off(double x)
{
    const float nearest = (float)x;
    return fabs((double)nearest) > fabs(x) ? nextafterf(nearest, 0.0F) : nearest;
}

static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The exponent of a normal number. */
static int exponent_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 52 & 2047) - 1023;
}

/* Each number in whole units of the last bit that is kept. */
static float add_at_once(float sum, const double *products, int count)
{
    double largest = fabs((double)sum), total = sum;
    for (int i = 0; i < count; i++) {
        const double size = fabs(products[i]);
        largest = size > largest ? size : largest;
        total += products[i];
    }
    if (largest == 0.0 || !isfinite(total)) {
        return (float)total;
    }
    const int last = exponent_of(largest) - 23 - way.bits;
    const double per_unit = power_of_two(-last);
    int64_t units = (int64_t)((double)sum * per_unit);
    for (int i = 0; i < count; i++) {
        units += (int64_t)(products[i] * per_unit);
    }
    return cut_off((double)units * power_of_two(last));
}

void sim_order_numbers(const float *numbers, int k, double *ret)
{
    int count = 0;
    draw_way();
    for (int i = 0; i < K_MAX; i++) {
        if (way.order[i] < k) {
            ret[count++] = (double)numbers[way.order[i]];
        }
    }
}

float sim_inner_product(float sum, const double *a, const double *b, int k)
{
    double products[K_MAX];
    for (int i = 0; i < k; i++) {
        products[i] = a[i] * b[i];
    }
    for (int i = 0; i < k; i += way.together) {
        sum = add_at_once(sum, products + i, k - i < way.together ? k - i : way.together);
    }
    return sum;
}

/* ---- what lanes hold ---- */

/* Rows of A and columns of B. */
struct matrices {
    float a[ROWS][K_MAX], b[COLS][K_MAX];
    int k;
};

/* Number i of the register's, 0 or 1. */
static float number_of(uint32_t bits, bool float16, int i)
{
    if (float16) {
        return sim_float16_value((uint16_t)(bits >> 16 * i));
    }
    bits &= 0xffffe000u;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A register's numbers, those of lane `t` of 4 in the first or second half of k. */
static void place_numbers(uint32_t bits, int t, int half, struct matrices *m, float *ret)
{
    const bool float16 = m->k == 16;
    const int each = float16 ? 2 : 1;
    for (int i = 0; i < each; i++) {
        ret[half * m->k / 2 + t * each + i] = number_of(bits, float16, i);
    }
}

/* Returns what columns of B are mistaken by: 1 on a device that is broken so. */
static int begin_product(void)
{
    if (sim_capability(sim_working_device()) < 80) {
        sim_fault("a product of matrices on a device of compute capability below 8.0");
    }
    if (sim_has_fault("mma-trap")) {
        sim_break(cudaErrorIllegalInstruction);
    }
    return sim_has_fault("mma") ? 1 : 0;
}

void sim_add_product(int k, struct sim_matrix *const lanes[SIM_WARP])
{
    struct matrices m = {.k = k};
    const int broken = begin_product();
    for (int lane = 0; lane < SIM_WARP; lane++) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            place_numbers(lanes[lane]->a[i], t, i / 2, &m, m.a[g + i % 2 * 8]);
        }
        for (int i = 0; i < 2; i++) {
            place_numbers(lanes[lane]->b[i], t, i, &m, m.b[g ^ broken]);
        }
    }
    for (int lane = 0; lane < SIM_WARP; lane++) {
        for (int i = 0; i < 4; i++) {
            float *c = &lanes[lane]->c[i];
            double a[K_MAX], b[K_MAX];
            sim_order_numbers(m.a[lane / 4 + i / 2 * 8], k, a);
            sim_order_numbers(m.b[lane % 4 * 2 + i % 2], k, b);
            *c = sim_inner_product(*c, a, b, k);
        }
    }
}

/* Rounded as multiply-adds are, in an order that is drawn. */
void sim_add_product_f64(struct sim_matrix_f64 *const lanes[SIM_WARP])
{
    const int broken = begin_product() | (sim_has_fault("dmma") ? 1 : 0);
    draw_way();
    for (int lane = 0; lane < SIM_WARP; lane++) {
        for (int i = 0; i < 4; i++) {
            const int first = lane / 4 * 4, column = (lane % 4 * 2 + i % 2) ^ broken;
            double *c = &lanes[lane]->c[i];
            for (int k = 0; k < K_MAX; k++) {
                const int t = way.order[k];
                *c = t < 4 ? fma(lanes[first + t]->a[i / 2], lanes[column * 4 + t]->b, *c) : *c;
            }
        }
    }
}
