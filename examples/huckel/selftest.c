#include "selftest.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "coulomb.h"
#include "orbitals.h"
#include "sample.h"

#define TOLERANCE_EV 1e-10

static bool report(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok    " : "FAILED", what);
    return good;
}

/* HOMO = alpha + x beta_0 after `rounds` of bond length relaxation. */
static bool check_homo(const char *name, struct molecule m, int rounds, double x)
{
    struct orbitals levels = {.homo = NAN};
    const int status = orbitals_solve(&m, rounds, &levels);
    const double expected = HUCKEL_ALPHA + x * HUCKEL_BETA;
    const bool good = status == 0 && fabs(levels.homo - expected) < TOLERANCE_EV;
    printf("%s HOMO of %s, %d rounds: %.12f eV, expected %.12f eV\n", good ? "ok    " : "FAILED",
           name, rounds, levels.homo, expected);
    return good;
}

/* Levels of a chain of n: alpha + 2 beta cos(k pi / (n + 1)); of a ring: alpha + 2 beta cos(2 pi k
 * / n). */
static int check_levels(void)
{
    const double pi = acos(-1);
    int failed = 0;
    failed += !check_homo("ethylene", molecule_chain(2), 0, 1);
    failed += !check_homo("butadiene", molecule_chain(4), 0, (sqrt(5) - 1) / 2);
    failed += !check_homo("octatetraene", molecule_chain(8), 0, 2 * cos(4 * pi / 9));
    failed += !check_homo("benzene", molecule_ring(6), 0, 1);
    /* Bond order 2/3 means 1.40 angstrom: benzene stays; ethylene's bond shrinks to 1.35. */
    failed += !check_homo("benzene", molecule_ring(6), HUCKEL_ROUNDS, 1);
    failed += !check_homo("ethylene", molecule_chain(2), HUCKEL_ROUNDS, exp(0.05 / 0.3106));
    return failed;
}

static bool check_kekule(void)
{
    const struct molecule odd = molecule_chain(5);
    const struct molecule benzene = molecule_ring(6);
    return molecule_has_kekule_structure(&benzene) && !molecule_has_kekule_structure(&odd);
}

/* C of ethylene has 0.5 6^2.4 on the diagonal and 36 / 1.40 beside it: eigenvalues a + b, a - b. */
static bool check_spectrum(void)
{
    const struct molecule ethylene = molecule_chain(2);
    const double a = 0.5 * pow(6, 2.4);
    const double b = 36 / 1.40;
    double spectrum[4];
    return coulomb_spectrum(&ethylene, 4, spectrum) == 0 && fabs(spectrum[0] - (a + b)) < 1e-10 &&
           fabs(spectrum[1] - (a - b)) < 1e-10 && spectrum[2] == 0 && spectrum[3] == 0;
}

/* The same molecule with its atoms numbered backwards. */
static struct molecule renumbered(const struct molecule *m)
{
    struct molecule r = *m;
    for (int i = 0; i < m->atoms; i++) {
        const int image = m->atoms - 1 - i;
        r.degree[image] = m->degree[i];
        for (int k = 0; k < m->degree[i]; k++)
            r.neighbours[image][k] = m->atoms - 1 - m->neighbours[i][k];
    }
    return r;
}

static bool check_numbering(const struct sample *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        const struct molecule r = renumbered(&s->molecules[i]);
        struct orbitals levels;
        if (coulomb_fingerprint(&r) != coulomb_fingerprint(&s->molecules[i]))
            return false;
        if (orbitals_solve(&r, HUCKEL_ROUNDS, &levels) != 0 ||
            fabs(levels.homo - s->homo[i]) > 1e-8)
            return false;
    }
    return true;
}

static bool check_structure(const struct sample *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        const struct molecule *m = &s->molecules[i];
        int distances[MOLECULE_MAX_ATOMS][MOLECULE_MAX_ATOMS];
        molecule_distances(m, distances);
        for (int a = 0; a < m->atoms; a++) {
            if (m->degree[a] < 1 || m->degree[a] > 3 || distances[0][a] < 0)
                return false;
        }
        if (!molecule_has_kekule_structure(m))
            return false;
    }
    return true;
}

static bool same_rows(const struct sample *a, const struct sample *b)
{
    return a->count == b->count && memcmp(a->homo, b->homo, sizeof(double) * (size_t)a->count) == 0;
}

static int check_samples(void)
{
    struct sample first = {.count = 0};
    struct sample again = {.count = 0};
    struct sample other = {.count = 0};
    int failed = 1;
    if (sample_draw(7, 300, 18, &first) == 0 && sample_draw(7, 300, 18, &again) == 0 &&
        sample_draw(8, 300, 18, &other) == 0) {
        failed = 0;
        failed += !report(check_structure(&first), "each molecule is connected, degree 1 to 3");
        failed += !report(check_numbering(&first), "numbering changes neither HOMO nor identity");
        failed += !report(same_rows(&first, &again), "the same seed gives the same molecules");
        failed += !report(!same_rows(&first, &other), "another seed gives others");
    }
    sample_deinit(&first);
    sample_deinit(&again);
    sample_deinit(&other);
    return failed;
}

int selftest_run(void)
{
    int failed = check_levels();
    failed += !report(check_kekule(), "benzene has a Kekulé structure, five carbons have none");
    failed += !report(check_spectrum(), "the Coulomb spectrum of ethylene is a + b, a - b, 0, 0");
    failed += check_samples();
    printf("%d checks failed\n", failed);
    return failed;
}
