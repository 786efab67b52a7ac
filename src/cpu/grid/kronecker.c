#include "cpu/grid/kronecker.h"

#include <string.h>

#include "base/mem.h"

/* Kernel values that take the time of a multiplication, and of what a place takes besides along
 * each axis, with a margin. */
#define MULTIPLY_COST 1.0
#define STEP_COST 16.0

int kronecker_find(const struct rows *sets, int count, int64_t features, int64_t most,
                   struct kronecker *ret, struct err *err)
{
    *ret = (struct kronecker){.bytes = 0};
    const int r = grid_find_axes(sets, count, features, most, &ret->axes, err);
    int64_t numbers = 2 * ret->axes.places;
    for (int k = 0; k < ret->axes.dims; k++) {
        numbers += ret->axes.size[k] * (ret->axes.size[k] + 1);
    }
    ret->bytes = numbers * (int64_t)sizeof(double);
    return r;
}

double kronecker_cost(const struct kronecker *k)
{
    double each = 0.0;
    for (int a = 0; a < k->axes.dims; a++) {
        each += MULTIPLY_COST * (double)k->axes.size[a] + STEP_COST;
    }
    return each * (double)k->axes.places;
}

/* One feature's factor of the kernel. Points are scaled (cpu/points.c). */
static void fill(const struct points *p, const double *values, int64_t size, double *ret)
{
    const struct kernel unit = {.id = p->kernel.id, .d = 1, .bandwidth = 1.0};
    for (int64_t i = 0; i < size; i++) {
        for (int64_t j = 0; j < size; j++) {
            const double apart = (values[i] - values[j]) / p->scale;
            ret[i * size + j] = kernel_eval(&unit, &apart, &(double){0.0});
        }
    }
}

int kronecker_prepare(struct kronecker *k, const struct points *p, struct err *err)
{
    k->other = mem_aligned((size_t)k->axes.places, 2 * sizeof(double));
    bool room = k->other != NULL;
    for (int a = 0; room && a < k->axes.dims; a++) {
        const int64_t size = k->axes.size[a];
        k->factors[a] = mem_array((size_t)(size * size), sizeof(double));
        room = k->factors[a] != NULL;
        if (room) {
            fill(p, k->axes.values[a], size, k->factors[a]);
        }
    }
    return room ? 0 : err_no_memory(err);
}

static struct mat matrix(double *data, int64_t rows, int64_t cols)
{
    return (struct mat){.dtype = DTYPE_F64, .rows = rows, .cols = cols, .ld = rows, .data = data};
}

/* Lines along an axis whose places are `behind` apart, in `blocks` blocks one after the other. The
 * factor is symmetric. */
static int multiply_axis(struct backend *be, const struct mat *K, int64_t blocks, int64_t behind,
                         double *from, double *to, struct err *err)
{
    const int64_t size = K->rows, block = size * behind;
    if (behind == 1) {
        const struct gemm_batch b = {
            .count = 1, .A = *K, .B = matrix(from, size, blocks), .C = matrix(to, size, blocks)};
        return cpu__gemm_batch(be, &b, err);
    }
    const struct gemm_batch b = {.count = blocks,
                                 .A = matrix(from, behind, size),
                                 .B = *K,
                                 .C = matrix(to, behind, size),
                                 .next_A = block,
                                 .next_C = block};
    return cpu__gemm_batch(be, &b, err);
}

int kronecker_multiply(const struct kronecker *k, struct backend *be, double *numbers,
                       int64_t columns, struct err *err)
{
    double *from = numbers, *to = k->other;
    int64_t blocks = columns, behind = k->axes.places;
    int r = 0;
    for (int a = 0; r == 0 && a < k->axes.dims; a++) {
        const struct mat K = matrix(k->factors[a], k->axes.size[a], k->axes.size[a]);
        behind /= K.rows;
        r = multiply_axis(be, &K, blocks, behind, from, to, err);
        blocks *= K.rows;
        double *const swap = from;
        from = to;
        to = swap;
    }
    if (from != numbers) {
        memcpy(numbers, from, (size_t)(columns * k->axes.places) * sizeof *numbers);
    }
    return r;
}

void kronecker_deinit(struct kronecker *k)
{
    for (int a = 0; a < GRID_DIMS; a++) {
        k->factors[a] = mem_free(k->factors[a]);
    }
    k->other = mem_free(k->other);
    grid_axes_deinit(&k->axes);
}
