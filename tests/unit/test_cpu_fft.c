/* Fourier transforms of lines side by side (cpu/grid/fft.h), of every instruction set, against the
 * sums that define them. */
#include "cpu/grid/fft.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/tile/tile.h"
#include "support/assert.h"

static const int64_t lengths[] = {1, 2, 3, 4, 5, 8, 30, 36, 100};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], LONGEST = 100 };

/* How lines lie: side by side along the last axis, along another, or with gaps between them. */
enum layout { ALONG, BESIDE, APART, LAYOUTS };

struct sample {
    const struct fft_loops *loops;
    int64_t length, stride;
    enum layout layout;
    bool back;
    int count;
    double complex numbers[3 * FFT_LANES * LONGEST], before[3 * FFT_LANES * LONGEST];
    double *line[FFT_LANES];
    double *scratch;
};

static int64_t first_of(const struct sample *s, int line)
{
    return s->layout == ALONG    ? line * (s->length + 1)
           : s->layout == BESIDE ? line
                                 : line + line / 2;
}

static void lay(struct sample *s, struct rng *rng)
{
    s->stride = s->layout == ALONG ? 1 : 2 * FFT_LANES;
    for (int i = 0; i < 3 * FFT_LANES * LONGEST; i++) {
        s->numbers[i] = rng_normal(rng) + I * rng_normal(rng);
    }
    memcpy(s->before, s->numbers, sizeof s->before);
    for (int i = 0; i < s->count; i++) {
        s->line[i] = (double *)(s->numbers + first_of(s, i));
    }
}

static void transform(struct sample *s, bool back)
{
    struct fft *f = s->loops->make(s->length);
    assert_non_null(f);
    s->loops->lines(f, back, s->line, s->count, s->stride, s->scratch);
    assert_null(s->loops->free(f));
}

static double complex defined(const struct sample *s, int line, int64_t m)
{
    const double sign = s->back ? 2.0 : -2.0;
    double complex sum = 0.0;
    for (int64_t k = 0; k < s->length; k++) {
        const double turn = sign * M_PI * (double)(k * m % s->length) / (double)s->length;
        sum += s->before[first_of(s, line) + k * s->stride] * cexp(I * turn);
    }
    return sum;
}

/* Every number of the lines is right, and nothing else has changed. */
static void check_lines(struct sample *s)
{
    const double most = 8.0 * DBL_EPSILON * (double)s->length;
    for (int i = 0; i < s->count; i++) {
        for (int64_t m = 0; m < s->length; m++) {
            double complex *at = s->numbers + first_of(s, i) + m * s->stride;
            assert_true(cabs(*at - defined(s, i, m)) <= most);
            *at = s->before[at - s->numbers];
        }
    }
    assert_memory_equal(s->numbers, s->before, sizeof s->before);
}

/* There and back is the length; a line's bits are those that it has alone. */
static void check_return(struct sample *s, struct rng *rng)
{
    static double complex together[3 * FFT_LANES * LONGEST];
    lay(s, rng);
    transform(s, s->back);
    memcpy(together, s->numbers, sizeof together);
    memcpy(s->numbers, s->before, sizeof together);
    const int count = s->count;
    double *const first = s->line[0];
    s->count = 1;
    for (int i = count - 1; i >= 0; i--) {
        s->line[0] = (double *)(s->numbers + first_of(s, i));
        transform(s, s->back);
    }
    assert_memory_equal(s->numbers, together, sizeof together);
    s->count = count;
    s->line[0] = first;
    transform(s, !s->back);
    const double most = 16.0 * DBL_EPSILON * (double)s->length;
    for (int64_t k = 0; k < s->length; k++) {
        const int64_t at = first_of(s, count - 1) + k * s->stride;
        assert_true(cabs(s->numbers[at] / (double)s->length - s->before[at]) <= most);
    }
}

/* There, times factors and back is that, step by step, to the bit. */
static void check_convolution(struct sample *s, struct rng *rng)
{
    static double complex steps[3 * FFT_LANES * LONGEST];
    double factor[FFT_LANES + 2 * FFT_LANES * LONGEST];
    for (int i = 0; i < FFT_LANES + 2 * FFT_LANES * LONGEST; i++) {
        factor[i] = rng_normal(rng);
    }
    lay(s, rng);
    transform(s, false);
    for (int64_t at = 0; at < s->count * s->length; at++) {
        const int64_t i = at / s->length, place = at % s->length * s->stride;
        s->numbers[first_of(s, (int)i) + place] *= factor[i + place];
    }
    transform(s, true);
    memcpy(steps, s->numbers, sizeof steps);
    memcpy(s->numbers, s->before, sizeof steps);
    struct fft *f = s->loops->make(s->length);
    s->loops->convolve(f, s->line, s->count, s->stride, factor, s->scratch);
    s->loops->free(f);
    assert_memory_equal(s->numbers, steps, sizeof steps);
}

static void check_loops(struct sample *s, struct rng *rng)
{
    const int cases = LENGTHS * LAYOUTS * 2 * s->loops->lanes;
    for (int c = 0; c < cases; c++) {
        s->length = lengths[c % LENGTHS];
        s->layout = (enum layout)(c / LENGTHS % LAYOUTS);
        s->back = c / LENGTHS / LAYOUTS % 2;
        s->count = 1 + c / LENGTHS / LAYOUTS / 2;
        lay(s, rng);
        transform(s, s->back);
        check_lines(s);
        check_return(s, rng);
        check_convolution(s, rng);
    }
}

static void test_every_instruction_set(void **state)
{
    (void)state;
    struct rng rng = rng_new(1, RNG_TEST);
    struct sample *s = mem_zalloc(sizeof *s);
    s->scratch = mem_aligned(4 * FFT_LANES * LONGEST, sizeof(double));
    s->loops = &fft_loops_single;
    assert_int_equal(s->loops->lanes, 1);
    check_loops(s, &rng);
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        s->loops = tile_isa_list(i)->fft;
        assert_true(s->loops->lanes > 1 && s->loops->lanes <= FFT_LANES);
        check_loops(s, &rng);
    }
    mem_free(s->scratch);
    mem_free(s);
}

static void test_lengths(void **state)
{
    (void)state;
    static const int64_t found[][2] = {{1, 1}, {7, 8}, {31, 32}, {33, 36}, {1081, 1125}};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fft_length(found[i][0]), found[i][1]);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    if (allocator_is_replaced()) {
        skip();
    }
    const int64_t length = (int64_t)1 << 50;
    assert_null(fft_loops_single.make(length));
    for (int i = 0; tile_isa_list(i) != NULL; i++) {
        assert_null(tile_isa_list(i)->fft->make(length));
        assert_null(tile_isa_list(i)->fft->free(NULL));
    }
}

TEST_MAIN(cmocka_unit_test(test_every_instruction_set), cmocka_unit_test(test_lengths),
          cmocka_unit_test(test_no_memory))
