#include "orbitals.h"

#include <math.h>
#include <string.h>

#include "symmetric.h"

#define N MOLECULE_MAX_ATOMS

/* Bond orders ret_p[a][k] between atom a and its k-th neighbour: 2 sum over occupied c_a c_b. */
static void bond_orders(const struct molecule *m, const double *c, double ret_p[N][3])
{
    const int n = m->atoms;
    for (int a = 0; a < n; a++) {
        for (int k = 0; k < m->degree[a]; k++) {
            const int b = m->neighbours[a][k];
            double sum = 0;
            for (int orbital = 0; orbital < n / 2; orbital++)
                sum += 2 * c[orbital * n + a] * c[orbital * n + b];
            ret_p[a][k] = sum;
        }
    }
}

static double resonance(double bond_order)
{
    const double r = 1.50 - 0.15 * bond_order;
    return HUCKEL_BETA * exp((1.40 - r) / 0.3106);
}

static void hamiltonian(const struct molecule *m, const double beta[N][3], double *ret_h)
{
    const int n = m->atoms;
    memset(ret_h, 0, sizeof(double) * (size_t)n * (size_t)n);
    for (int a = 0; a < n; a++) {
        ret_h[a * n + a] = HUCKEL_ALPHA;
        for (int k = 0; k < m->degree[a]; k++)
            ret_h[a * n + m->neighbours[a][k]] = beta[a][k];
    }
}

static void relax(const struct molecule *m, const double *c, double ret_beta[N][3])
{
    double order[N][3];
    bond_orders(m, c, order);
    for (int a = 0; a < m->atoms; a++) {
        for (int k = 0; k < m->degree[a]; k++)
            ret_beta[a][k] = resonance(order[a][k]);
    }
}

int orbitals_solve(const struct molecule *m, int rounds, struct orbitals *ret)
{
    double h[N * N];
    double levels[N];
    double beta[N][3];
    struct orbitals found = {.gap = INFINITY};
    for (int a = 0; a < N; a++)
        beta[a][0] = beta[a][1] = beta[a][2] = HUCKEL_BETA;
    for (int round = 0; round <= rounds; round++) {
        if (round > 0)
            relax(m, h, beta);
        hamiltonian(m, beta, h);
        if (symmetric_eigen(m->atoms, h, levels) != 0)
            return -1;
        found.homo = levels[m->atoms / 2 - 1];
        found.gap = fmin(found.gap, levels[m->atoms / 2] - found.homo);
    }
    *ret = found;
    return 0;
}
