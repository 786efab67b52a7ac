/*
 * Sums of squares over the whole range of double. Squares below 1e-154 underflow and those above
 * 1e154 overflow, so numbers are multiplied by a power of two before they are squared, which brings
 * the largest of them near 1 (as LAPACK's lassq): exactly, so that ordinary numbers keep their
 * digits.
 */
#pragma once

struct squares {
    double sum;   /* of the squares of numbers times squares_factor(exponent) */
    int exponent; /* of 2; any where the sum is 0 */
};

/* 2^exponent is just above the largest magnitude; 0 for a largest one of 0, or one that is not
 * finite. Not below -1000, so that the factor is a number. */
int squares_exponent(double largest);
double squares_factor(int exponent); /* 2^-exponent */

struct squares squares_add(struct squares a, struct squares b);
double squares_root_mean(struct squares s, double count); /* of the numbers as they were */
double squares_ratio(struct squares a, struct squares b); /* b.sum > 0 */
