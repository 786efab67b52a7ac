/*
 * huckel: writes a table of random conjugated hydrocarbons, one molecule a line: features from its
 * Coulomb matrix and the HOMO energy in eV. See README.md.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coulomb.h"
#include "sample.h"
#include "selftest.h"

struct options {
    int64_t molecules;
    int64_t max_atoms;
    int64_t seed;
    const char *output; /* NULL: stdout */
    bool matrix;        /* the sorted matrix instead of its spectrum */
    bool self_test;
};

static const char usage[] =
    "Usage: huckel --molecules N [--max-atoms M] [--seed S] [--features KIND] [--output FILE.csv]\n"
    "       huckel --self-test\n"
    "\n"
    "Writes N distinct conjugated hydrocarbons as CSV: features from the Coulomb matrix and the\n"
    "energy of the highest occupied orbital in eV (homo_ev).\n"
    "\n"
    "  --molecules N     1 .. 200000\n"
    "  --max-atoms M     6 .. 32 carbons, default 24\n"
    "  --seed S          default 0; the same seed gives the same file\n"
    "  --features KIND   spectrum (default): the Coulomb matrix's eigenvalues, M columns;\n"
    "                    matrix: its lower triangle with sorted rows, M (M + 1) / 2 columns\n"
    "  --output FILE     default: standard output\n"
    "  --self-test       compare with levels known in closed form\n";

static int parse_number(const char *name, const char *text, int64_t min, int64_t max, int64_t *ret)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max) {
        fprintf(stderr, "huckel: --%s must be a whole number from %" PRId64 " to %" PRId64 "\n",
                name, min, max);
        return -1;
    }
    *ret = value;
    return 0;
}

static int parse_features(const char *text, bool *ret_matrix)
{
    if (strcmp(text, "spectrum") != 0 && strcmp(text, "matrix") != 0) {
        fputs("huckel: --features must be spectrum or matrix\n", stderr);
        return -1;
    }
    *ret_matrix = strcmp(text, "matrix") == 0;
    return 0;
}

static int parse_option(int key, const char *value, struct options *o)
{
    switch (key) {
    case 'n':
        return parse_number("molecules", value, 1, SAMPLE_MAX_COUNT, &o->molecules);
    case 'm':
        return parse_number("max-atoms", value, SAMPLE_MIN_ATOMS, MOLECULE_MAX_ATOMS,
                            &o->max_atoms);
    case 's':
        return parse_number("seed", value, 0, INT64_MAX, &o->seed);
    case 'f':
        return parse_features(value, &o->matrix);
    case 'o':
        o->output = value;
        return 0;
    case 't':
        o->self_test = true;
        return 0;
    case 'h':
        fputs(usage, stdout);
        exit(0);
    default:
        fputs(usage, stderr);
        return -1;
    }
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option table[] = {
        {"molecules", required_argument, NULL, 'n'},
        {"max-atoms", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 's'},
        {"features", required_argument, NULL, 'f'},
        {"output", required_argument, NULL, 'o'},
        {"self-test", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int key; (key = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (parse_option(key, optarg, o) != 0)
            return -1;
    }
    if (optind < argc || (!o->self_test && o->molecules == 0)) {
        fputs(usage, stderr);
        return -1;
    }
    return 0;
}

static void write_header(FILE *out, const struct options *o)
{
    for (int i = 0; i < o->max_atoms; i++) {
        if (!o->matrix)
            fprintf(out, "coulomb_%d,", i);
        for (int j = 0; o->matrix && j <= i; j++)
            fprintf(out, "c_%d_%d,", i, j);
    }
    fputs("homo_ev\n", out);
}

static int write_rows(FILE *out, const struct options *o, const struct sample *s)
{
    const int max_atoms = (int)o->max_atoms;
    const int columns = o->matrix ? COULOMB_ENTRIES(max_atoms) : max_atoms;
    double features[COULOMB_ENTRIES(MOLECULE_MAX_ATOMS)];
    for (int64_t i = 0; i < s->count; i++) {
        if (o->matrix)
            coulomb_triangle(&s->molecules[i], max_atoms, features);
        else if (coulomb_spectrum(&s->molecules[i], max_atoms, features) != 0)
            return -1;
        for (int k = 0; k < columns; k++)
            fprintf(out, "%.9g,", features[k]);
        fprintf(out, "%.9g\n", s->homo[i]);
    }
    return ferror(out) ? -1 : 0;
}

static int write_table(const struct options *o, const struct sample *s)
{
    FILE *out = o->output ? fopen(o->output, "w") : stdout;
    if (!out) {
        fprintf(stderr, "huckel: cannot write %s: %s\n", o->output, strerror(errno));
        return -1;
    }
    write_header(out, o);
    const int status = write_rows(out, o, s);
    if (fclose(out) != 0 || status != 0) {
        fprintf(stderr, "huckel: writing the table failed\n");
        return -1;
    }
    return 0;
}

static int run(const struct options *o)
{
    struct sample s;
    const int status = sample_draw((uint64_t)o->seed, o->molecules, (int)o->max_atoms, &s);
    if (status > 0) {
        fprintf(stderr,
                "huckel: there are not %" PRId64 " different molecules to be found with at most "
                "%" PRId64 " atoms; ask for fewer, or raise --max-atoms\n",
                o->molecules, o->max_atoms);
        return 1;
    }
    if (status < 0) {
        fprintf(stderr, "huckel: not enough memory, or LAPACK failed\n");
        return 1;
    }
    const int written = write_table(o, &s);
    sample_deinit(&s);
    return written == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct options o = {.max_atoms = 24};
    if (parse_options(argc, argv, &o) != 0)
        return 2;
    if (o.self_test)
        return selftest_run() == 0 ? 0 : 1;
    return run(&o);
}
