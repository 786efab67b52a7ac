#include "cpu/grid/torus.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/grid/fft.h"
#include "cpu/oracle.h"

/* Kernel values that take the time of a place and log2 of the places, there and back, with a
 * margin; of a single line, which has one thread where tiles have several, as if they had four: the
 * way is not to depend on how many there are. */
#define PLACE_COST 12.0
#define LINE_COST 64.0

void torus_measure(struct torus *t, const struct grid *g, const struct backend *be)
{
    int64_t extent[GRID_DIMS];
    for (int k = 0; k < g->dims; k++) {
        extent[k] = fft_length(2 * g->size[k] - 1);
    }
    torus_lay(t, g, extent, be);
}

/* Numbers that a thread has. */
static int64_t scratch_of(const struct torus *t)
{
    return 4 * t->loops->lanes * t->longest;
}

void torus_lay(struct torus *t, const struct grid *g, const int64_t *extent,
               const struct backend *be)
{
    *t = (struct torus){.grid = *g, .places = 1};
    int64_t lines = 0;
    for (int k = 0; k < g->dims; k++) {
        t->extent[k] = extent[k];
        t->longest = t->extent[k] > t->longest ? t->extent[k] : t->longest;
        t->places *= t->extent[k];
        lines += t->extent[k];
    }
    const int64_t beside = t->places / t->longest;
    t->loops = beside == 1 ? &fft_loops_single : cpu_isa(be)->fft;
    /* No more than the longest lines are groups, so that scratch is 4 times the numbers at most. */
    const int64_t groups = beside / t->loops->lanes;
    t->threads = groups > 1 ? (int)min_i64(be->threads, groups) : 1;
    t->bytes = (int64_t)sizeof(double) *
               (t->places + t->threads * scratch_of(t) + 2 * t->loops->lanes * lines);
}

double torus_cost(const struct torus *t)
{
    const double cost = t->grid.dims == 1 ? LINE_COST : PLACE_COST;
    return cost * (double)t->places * log2((double)t->places);
}

/* ---- lines ---- */

/* Lines along `axis` are counted over places before it within the grid, since beyond there is
 * nothing on the way there, and nothing wanted on the way back, and over all places behind it. */
struct lines {
    const struct torus *torus;
    int axis;
    int64_t before[GRID_DIMS], behind; /* of a line: where it is along the axes before, and among
                                          those behind */
    int64_t count, stride;             /* of all, and within each: also how many are behind */
};

static struct lines lines_along(const struct torus *t, int axis)
{
    struct lines l = {.torus = t, .axis = axis, .count = 1, .stride = 1};
    for (int k = axis + 1; k < t->grid.dims; k++) {
        l.stride *= t->extent[k];
    }
    for (int k = 0; k < axis; k++) {
        l.count *= t->grid.size[k];
    }
    l.count *= l.stride;
    return l;
}

static void go_to_line(struct lines *l, int64_t line)
{
    l->behind = line % l->stride;
    line /= l->stride;
    for (int k = l->axis - 1; k >= 0; k--) {
        l->before[k] = line % l->torus->grid.size[k];
        line /= l->torus->grid.size[k];
    }
}

static void go_to_next_line(struct lines *l)
{
    if (++l->behind < l->stride) {
        return;
    }
    l->behind = 0;
    for (int k = l->axis - 1; k >= 0 && ++l->before[k] == l->torus->grid.size[k]; k--) {
        l->before[k] = 0;
    }
}

static int64_t first_place(const struct lines *l)
{
    int64_t place = 0;
    for (int k = 0; k < l->axis; k++) {
        place = place * l->torus->extent[k] + l->before[k];
    }
    return place * l->torus->extent[l->axis] * l->stride + l->behind;
}

/* What becomes of lines: one transform, or, along the first axis, there, times the spectrum and
 * back. */
enum step { THERE, BACK, CONVOLVE };

/* As many lines as go side by side, from number `first` on. */
static void transform_group(struct lines l, int64_t first, enum step step, double *numbers)
{
    const struct torus *t = l.torus;
    const int count = (int)min_i64(t->loops->lanes, l.count - first);
    double *line[FFT_LANES], *scratch = t->scratch + scratch_of(t) * omp_get_thread_num();
    go_to_line(&l, first);
    for (int i = 0; i < count; i++) {
        line[i] = numbers + 2 * first_place(&l);
        go_to_next_line(&l);
    }
    if (step == CONVOLVE) {
        t->loops->convolve(t->fft[0], line, count, l.stride, t->spectrum + first, scratch);
    } else {
        t->loops->lines(t->fft[l.axis], step == BACK, line, count, l.stride, scratch);
    }
}

static void transform_axis(const struct torus *t, int axis, enum step step, double *numbers)
{
    const struct lines l = lines_along(t, axis);
    const int lanes = t->loops->lanes;
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < l.count; i += lanes) {
        transform_group(l, i, step, numbers);
    }
}

/* ---- the kernel's spectrum ---- */

/* How many steps place `at` is from the first one along each axis, by the shorter way; returns
 * whether that is the place's own. */
static bool steps_to(const struct torus *t, int64_t at, int64_t *steps)
{
    bool own = true;
    for (int k = t->grid.dims - 1; k >= 0; k--) {
        const int64_t i = at % t->extent[k], other = t->extent[k] - i;
        own &= i <= other;
        steps[k] = i < other ? i : other;
        at /= t->extent[k];
    }
    return own;
}

static int64_t place_at(const struct torus *t, const int64_t *steps)
{
    int64_t place = 0;
    for (int k = 0; k < t->grid.dims; k++) {
        place = place * t->extent[k] + steps[k];
    }
    return place;
}

/* numbers <- the function from the first place to each; it is even along every axis. */
static void evaluate(const struct torus *t, torus_function *f, const void *context, double *numbers)
{
#pragma omp parallel for num_threads(t->threads) schedule(dynamic, 1024)
    for (int64_t i = 0; i < t->places; i++) {
        int64_t steps[GRID_DIMS];
        if (steps_to(t, i, steps)) {
            numbers[2 * i] = f(context, steps);
        }
    }
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < t->places; i++) {
        int64_t steps[GRID_DIMS];
        if (!steps_to(t, i, steps)) {
            numbers[2 * i] = numbers[2 * place_at(t, steps)];
        }
        numbers[2 * i + 1] = 0.0;
    }
}

/* The spectrum of a symmetric function is real. Here every line counts: the grid is the torus. */
static void make_spectrum(struct torus *t, double *numbers)
{
    const struct grid grid = t->grid;
    memcpy(t->grid.size, t->extent, sizeof t->grid.size);
    for (int k = t->grid.dims - 1; k >= 0; k--) {
        transform_axis(t, k, THERE, numbers);
    }
    t->grid = grid;
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < t->places; i++) {
        t->spectrum[i] = numbers[2 * i] / (double)t->places;
    }
}

/* ---- products ---- */

static int make_room(struct torus *t, struct err *err)
{
    t->spectrum = mem_aligned((size_t)t->places, sizeof(double));
    t->scratch = mem_aligned((size_t)(t->threads * scratch_of(t)), sizeof(double));
    bool room = t->spectrum != NULL && t->scratch != NULL;
    for (int k = 0; room && k < t->grid.dims; k++) {
        t->fft[k] = t->loops->make(t->extent[k]);
        room = t->fft[k] != NULL;
    }
    return room ? 0 : err_no_memory(err);
}

int torus_prepare_function(struct torus *t, torus_function *f, const void *context, double *numbers,
                           struct err *err)
{
    const int r = make_room(t, err);
    if (r == 0) {
        evaluate(t, f, context, numbers);
        make_spectrum(t, numbers);
    }
    return r;
}

struct on_grid {
    const struct torus *torus;
    const struct points *points;
};

/* Points are scaled (cpu/points.c). */
static double kernel_on_grid(const void *context, const int64_t *steps)
{
    const struct on_grid *g = context;
    const struct grid *grid = &g->torus->grid;
    const double origin[GRID_DIMS] = {0.0};
    double x[GRID_DIMS];
    for (int k = 0; k < grid->dims; k++) {
        x[k] = (double)steps[k] * grid->step[k] / g->points->scale;
    }
    const struct kernel unit = {.id = g->points->kernel.id, .d = grid->dims, .bandwidth = 1.0};
    return kernel_eval(&unit, x, origin);
}

int torus_prepare(struct torus *t, const struct points *p, double *numbers, struct err *err)
{
    const struct on_grid context = {.torus = t, .points = p};
    return torus_prepare_function(t, kernel_on_grid, &context, numbers, err);
}

int torus_prepare_product(struct torus *t, double *const axes[GRID_DIMS], struct err *err)
{
    const int r = make_room(t, err);
    for (int64_t i = 0; i < (r == 0 ? t->places : 0); i++) {
        t->spectrum[i] = 1.0;
    }
    if (r == 0) {
        torus_weigh(t, axes);
    }
    return r;
}

void torus_weigh(struct torus *t, double *const axes[GRID_DIMS])
{
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < t->places; i++) {
        double product = 1.0;
        for (int64_t k = t->grid.dims - 1, at = i; k >= 0; at /= t->extent[k--]) {
            product *= axes[k][at % t->extent[k]];
        }
        t->spectrum[i] *= product;
    }
}

/* Along the first axis numbers are in the cache from there to back. */
void torus_multiply(const struct torus *t, double *numbers)
{
    for (int k = t->grid.dims - 1; k > 0; k--) {
        transform_axis(t, k, THERE, numbers);
    }
    transform_axis(t, 0, CONVOLVE, numbers);
    for (int k = 1; k < t->grid.dims; k++) {
        transform_axis(t, k, BACK, numbers);
    }
}

void torus_deinit(struct torus *t)
{
    for (int k = 0; k < GRID_DIMS; k++) {
        t->fft[k] = t->fft[k] != NULL ? t->loops->free(t->fft[k]) : NULL;
    }
    t->spectrum = mem_free(t->spectrum);
    t->scratch = mem_free(t->scratch);
}
