/*
 * Discrete Fourier transforms of lines of complex numbers in float64, by KISS FFT. Complex numbers
 * lie as (real, imaginary) pairs of doubles.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fft;

/* The least length from n on that has no prime factors but 2, 3 and 5. */
int64_t fft_length(int64_t n);
/* NULL: there is no memory. `length` is one of fft_length. */
struct fft *fft_new(int64_t length);
struct fft *fft_free(struct fft *f); /* takes and returns NULL */
/* In place, number k of the line at `line[2 * k * stride]`; without a factor, so that there and
 * back multiplies by the length. `scratch` has room for a line. Several threads may use one f. */
void fft_line(const struct fft *f, bool back, double *line, int64_t stride, double *scratch);

#ifdef __cplusplus
}
#endif
