#include "coulomb.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symmetric.h"

#define N MOLECULE_MAX_ATOMS
#define CARBON_CHARGE 6.0
#define BOND_ANGSTROM 1.40
#define REFINEMENTS 4 /* rounds in which atoms learn about the neighbours of their neighbours */

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x < y) - (x > y);
}

static int descending_magnitude(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a);
    const double y = fabs(*(const double *)b);
    return (x < y) - (x > y);
}

static int ascending_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void coulomb_matrix(const struct molecule *m, double ret[N][N])
{
    const double z = CARBON_CHARGE;
    int bonds[N][N];
    molecule_distances(m, bonds);
    for (int i = 0; i < m->atoms; i++) {
        for (int j = 0; j < m->atoms; j++)
            ret[i][j] = i == j ? 0.5 * pow(z, 2.4) : z * z / (bonds[i][j] * BOND_ANGSTROM);
    }
}

/* The norm of a row, summed from large to small so that equal rows have equal bits. */
static double row_norm(const double *row, int n)
{
    double sorted[N];
    memcpy(sorted, row, sizeof(double) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(double), descending);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += sorted[i] * sorted[i];
    return sqrt(sum);
}

/* True when atom a comes before atom b, given those placed already. */
static bool comes_first(double c[N][N], const double *norm, const int *placed, int count, int a,
                        int b)
{
    if (norm[a] != norm[b])
        return norm[a] > norm[b];
    for (int k = 0; k < count; k++) {
        const int p = placed[k];
        if (c[a][p] != c[b][p])
            return c[a][p] > c[b][p];
    }
    return false;
}

static void sort_atoms(double c[N][N], int n, int *ret_order)
{
    double norm[N];
    bool used[N] = {false};
    for (int i = 0; i < n; i++)
        norm[i] = row_norm(c[i], n);
    for (int count = 0; count < n; count++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            if (!used[i] && (best < 0 || comes_first(c, norm, ret_order, count, i, best)))
                best = i;
        }
        used[best] = true;
        ret_order[count] = best;
    }
}

void coulomb_triangle(const struct molecule *m, int max_atoms, double *ret)
{
    double c[N][N];
    int order[N];
    coulomb_matrix(m, c);
    sort_atoms(c, m->atoms, order);
    memset(ret, 0, sizeof(double) * (size_t)COULOMB_ENTRIES(max_atoms));
    for (int i = 0; i < m->atoms; i++) {
        for (int j = 0; j <= i; j++)
            ret[i * (i + 1) / 2 + j] = c[order[i]][order[j]];
    }
}

int coulomb_spectrum(const struct molecule *m, int max_atoms, double *ret)
{
    double c[N][N];
    double packed[N * N];
    double values[N] = {0};
    coulomb_matrix(m, c);
    for (int i = 0; i < m->atoms; i++)
        memcpy(packed + i * m->atoms, c[i], sizeof(double) * (size_t)m->atoms);
    if (symmetric_eigen(m->atoms, packed, values) != 0)
        return -1;
    qsort(values, (size_t)m->atoms, sizeof(double), descending_magnitude);
    memcpy(ret, values, sizeof(double) * (size_t)max_atoms);
    return 0;
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A hash of n words that does not depend on their order; sorts them. */
static uint64_t hash_of_set(uint64_t *words, int n)
{
    qsort(words, (size_t)n, sizeof(uint64_t), ascending_u64);
    uint64_t h = (uint64_t)n;
    for (int i = 0; i < n; i++)
        h = mix(h * 31 + words[i]);
    return h;
}

uint64_t coulomb_fingerprint(const struct molecule *m)
{
    int bonds[N][N];
    uint64_t colour[N];
    uint64_t next[N];
    uint64_t seen[N];
    molecule_distances(m, bonds);
    for (int i = 0; i < m->atoms; i++)
        colour[i] = (uint64_t)m->degree[i];
    for (int round = 0; round < REFINEMENTS; round++) {
        for (int i = 0; i < m->atoms; i++) {
            for (int j = 0; j < m->atoms; j++)
                seen[j] = mix(colour[j] * 64 + (uint64_t)bonds[i][j]);
            next[i] = mix(colour[i] ^ hash_of_set(seen, m->atoms));
        }
        memcpy(colour, next, sizeof(colour));
    }
    return hash_of_set(colour, m->atoms);
}
