/* Polynomials that stand for a function between -1 and 1. */
#pragma once

enum { POLYNOMIAL_TERMS = 48 };

typedef double polynomial_of(const void *context, double s);

/* term[t] of s^t, t = 0 .. n - 1, n <= POLYNOMIAL_TERMS: through f at n Chebyshev nodes. */
void polynomial_fit(polynomial_of *f, const void *context, int n, double *term);
