/*
 * Hückel molecular orbitals with bond lengths that follow the bond orders.
 *
 * The Hamiltonian of the pi electrons has alpha on its diagonal and, for each bond, the resonance
 * integral beta(r) = beta_0 exp((1.40 - r) / 0.3106) with r in angstrom. The length of a bond
 * follows from its order, r = 1.50 - 0.15 p (Longuet-Higgins and Salem, Proc. R. Soc. A 251, 172,
 * 1959), which a few rounds of diagonalisation settle. With zero rounds this is the textbook
 * method. All energies are in eV.
 */
#pragma once

#include "molecule.h"

#define HUCKEL_ALPHA (-6.6) /* carbon 2p */
#define HUCKEL_BETA (-2.7)  /* neighbours 1.40 angstrom apart, as in benzene */
#define HUCKEL_ROUNDS 8     /* rounds of bond length relaxation in the data set */

struct orbitals {
    double homo; /* highest occupied level */
    double gap;  /* to the lowest empty level, the smallest over all rounds */
};

/*
 * The frontier levels after `rounds` of bond length relaxation. Where the gap vanishes, two ways to
 * fill the orbitals are equally good and the bond orders are a matter of rounding: reject such
 * molecules. Returns 0, or -1 if LAPACK failed.
 */
int orbitals_solve(const struct molecule *m, int rounds, struct orbitals *ret);
