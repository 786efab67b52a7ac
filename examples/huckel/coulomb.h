/*
 * The Coulomb matrix of a molecule (Rupp, Tkatchenko, Müller, von Lilienfeld, Phys. Rev. Lett.
 * 108, 058301, 2012): C_ii = 0.5 Z^2.4 and C_ij = Z^2 / d_ij, for the carbons only (Z = 6). d_ij is
 * the number of bonds between two carbons times 1.40 angstrom. Two ways to make it independent of
 * how the atoms are numbered:
 *
 *   spectrum  its eigenvalues, the largest magnitude first (the paper's choice);
 *   matrix    its lower triangle, atoms sorted by the norm of their row; ties go to the atom with
 *             the stronger couplings to those already placed.
 *
 * Molecules smaller than max_atoms are padded with zeros.
 */
#pragma once

#include <stdint.h>

#include "molecule.h"

/* Entries of the lower triangle, diagonal included, of a matrix for at most `atoms` atoms. */
#define COULOMB_ENTRIES(atoms) ((atoms) * ((atoms) + 1) / 2)

/* Fills max_atoms numbers. Returns 0, or -1 if LAPACK failed. */
int coulomb_spectrum(const struct molecule *m, int max_atoms, double *ret);

/* Fills COULOMB_ENTRIES(max_atoms) numbers, C_ij with j <= i at i (i + 1) / 2 + j. */
void coulomb_triangle(const struct molecule *m, int max_atoms, double *ret);

/* A number that isomorphic molecules share: equal numbers are taken for the same molecule. */
uint64_t coulomb_fingerprint(const struct molecule *m);
