/*
 * Discrete Fourier transforms of lines of complex numbers in float64, by KISS FFT, as many lines
 * side by side as a vector has lanes. Complex numbers lie as (real, imaginary) pairs of doubles.
 * What happens to a line does not depend on those beside it.
 *
 * cpu/grid/fft_lines.cpp is compiled once for each instruction set (struct tile_isa), from one
 * text, and once for lines that come alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FFT_LANES 8 /* most of any */

struct fft; /* of the loops that made it */

struct fft_loops {
    int lanes;
    /* NULL: there is no memory. `length` is one of fft_length. It takes 2 `lanes` doubles for each
     * number of a line. */
    struct fft *(*make)(int64_t length);
    struct fft *(*free)(struct fft *f); /* takes and returns NULL */
    /* In place `count` lines, 1 to `lanes`, number k of one at `line[i] + 2 * k * stride`; without
     * a factor, so that there and back multiplies by the length. Lines that are adjacent in memory
     * (line[i] + 2 is line[i + 1]) or of stride 1 take the least. `scratch` is 64-byte aligned and
     * has 4 `lanes` doubles for each number of a line. Several threads may use one f. */
    void (*lines)(const struct fft *f, bool back, double *const *line, int count, int64_t stride,
                  double *scratch);
    /* There, number k of line i times factor[i + k * stride], and back. */
    void (*convolve)(const struct fft *f, double *const *line, int count, int64_t stride,
                     const double *factor, double *scratch);
};

extern const struct fft_loops fft_loops_single; /* of one lane, on any processor */

/* The least length from n on that has no prime factors but 2, 3 and 5. */
int64_t fft_length(int64_t n);

#ifdef __cplusplus
}
#endif
