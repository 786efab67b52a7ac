#include "cpu/cpu_window.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "cpu/cpu_fft.h"
#include "cpu/cpu_oracle.h"

#define BLOCK 16         /* places along an axis: no less than a line of a window */
#define SHAPE 2.5        /* of the window, for each of its places: beta */
#define OVERSAMPLED 1.25 /* places, by what the spectrum alone would want */
/* In kernel values, whose float64 ones take twice as long: of a number, and of each of the lines it
 * is spread over and gathered from. */
#define POINT_COST 900.0
#define LINE_COST_F32 60.0
#define LINE_COST_F64 30.0

_Static_assert(BLOCK >= WINDOW_ROW, "blocks of one color keep apart");

/* Errors of products are some 5 eps and what windows of that width lose. */
static double eps_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1e-11 : 1e-16;
}

static int width_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 10 : 14;
}

/* ---- the window ---- */

/* The modified Bessel function I_0. */
static double bessel(double x)
{
    double sum = 1.0, term = 1.0;
    for (int k = 1; term > 1e-18 * sum; k++) {
        term *= x * x / 4.0 / ((double)k * k);
        sum += term;
    }
    return sum;
}

/* At so many places from its middle. */
static double window_at_place(double beta, int width, double x)
{
    const double y = 2.0 * x / width, rest = 1.0 - y * y;
    return rest < 0.0 ? 0.0 : bessel(beta * sqrt(rest)) / bessel(beta);
}

/* Its Fourier transform; frequency is in radians a place, below 2 beta / width. */
static double window_spectrum(double beta, int width, double frequency)
{
    const double half = frequency * width / 2.0, rest = sqrt(beta * beta - half * half);
    return width * sinh(rest) / rest / bessel(beta);
}

/* term[t] of place k: the polynomial through the window at `terms` Chebyshev nodes. */
static void fit_place(struct window *w, double beta, int k)
{
    const int n = w->terms;
    double before[WINDOW_TERMS] = {0.0}, power[WINDOW_TERMS] = {1.0}; /* of T_{j-1}, T_j */
    for (int j = 0; j < n; j++) {
        double share = 0.0;
        for (int i = 0; i < n; i++) {
            const double angle = M_PI * (i + 0.5) / n, s = cos(angle);
            const double x = (s + 1.0) / 2.0 + k - w->width / 2.0;
            share += cos(j * angle) * window_at_place(beta, w->width, x);
        }
        share *= (j == 0 ? 1.0 : 2.0) / n;
        double next[WINDOW_TERMS] = {0.0};
        for (int t = 0; t < n; t++) {
            w->term[t][k] += share * power[t];
            const double raised = t > 0 ? power[t - 1] : 0.0;
            next[t] = j == 0 ? raised : 2.0 * raised - before[t];
        }
        memcpy(before, power, sizeof before);
        memcpy(power, next, sizeof power);
    }
}

static void fit_window(struct window *w, double beta, int width)
{
    *w = (struct window){.width = width, .terms = width + 4};
    for (int k = 0; k < width; k++) {
        fit_place(w, beta, k);
    }
}

/* ---- the places ---- */

struct range {
    double least, most;
};

static struct range range_of(struct points *const *sets, int count, enum dtype dtype, int64_t j)
{
    struct range r = {INFINITY, -INFINITY};
    for (int s = 0; s < count; s++) {
        const struct rows X = points_rows(sets[s]);
        for (int64_t i = 0; X.dtype == dtype && i < X.n; i++) {
            const double x = rows_at(&X, i, j);
            r.least = x < r.least ? x : r.least;
            r.most = x > r.most ? x : r.most;
        }
    }
    return r;
}

/* What an axis is laid out with, in the points' own units. */
struct layout {
    double step, beyond; /* the gaussian's values are lost beyond that */
    int width;
    double most; /* places */
};

/* One axis more; false: that is too much. */
static bool add_axis(struct grid *g, int64_t *extent, double *places, int64_t feature,
                     struct range r, const struct layout *l)
{
    const double steps = ceil((r.most - r.least) / l->step);
    const double length = steps + 1.0 + fmax(WINDOW_ROW, ceil(l->beyond / l->step));
    *places *= length;
    if (g->dims == CLOUD_DIMS || !(*places <= l->most)) {
        return false;
    }
    extent[g->dims] = fft_length((int64_t)length);
    g->feature[g->dims] = feature;
    g->step[g->dims] = l->step;
    g->origin[g->dims] = r.least;
    g->size[g->dims++] = (int64_t)steps + 1 + WINDOW_ROW;
    return true;
}

/* Along the first two axes: blocks are as long as there are places along the third. */
static void cut_blocks(struct cloud *c)
{
    for (int k = 0; k < 2; k++) {
        c->blocks[k] = k < c->torus.grid.dims ? ceil_div(c->torus.grid.size[k], BLOCK) : 1;
    }
}

static int64_t block_count(const struct cloud *c)
{
    return c->blocks[0] * c->blocks[1];
}

void cloud_measure(struct cloud *c, struct points *const *sets, int count, enum dtype dtype,
                   int64_t most, int threads)
{
    const double reach = sqrt(-2.0 * log(eps_of(dtype))), sigma = sets[0]->scale;
    const struct layout l = {.step = M_PI * sigma / (OVERSAMPLED * reach),
                             .beyond = reach * sigma,
                             .width = width_of(dtype),
                             .most = (double)most};
    struct grid g = {.dims = 0, .scattered = true};
    int64_t extent[GRID_DIMS];
    double places = 1.0;
    *c = (struct cloud){.dtype = dtype, .sigma = sigma / l.step, .beta = SHAPE * l.width};
    bool fits = sets[0]->kernel.id == KERNEL_GAUSSIAN;
    for (int64_t j = 0; fits && j < sets[0]->d; j++) {
        const struct range r = range_of(sets, count, dtype, j);
        fits = !(r.most > r.least) || add_axis(&g, extent, &places, j, r, &l);
    }
    if (fits && g.dims > 0) {
        torus_lay(&c->torus, &g, extent, threads);
        cut_blocks(c);
    }
}

double cloud_point_cost(const struct cloud *c)
{
    const double lines = pow(width_of(c->dtype), c->torus.grid.dims - 1);
    return POINT_COST + (c->dtype == DTYPE_F32 ? LINE_COST_F32 : LINE_COST_F64) * lines;
}

/* ---- the spectrum ---- */

/* Of one axis, for each frequency of the torus: the gaussian's, by the window's squared. */
static void axis_spectrum(const struct cloud *c, int64_t extent, double *ret)
{
    const double pi = M_PI, share = c->sigma * sqrt(2.0 * pi) / (double)extent;
    for (int64_t m = 0; m < extent; m++) {
        const double frequency =
            2.0 * pi * (double)(m <= extent / 2 ? m : m - extent) / (double)extent;
        const double rest = exp(-0.5 * pow(frequency * c->sigma, 2.0));
        const bool counts = rest > 1e-2 * eps_of(c->dtype);
        const double window =
            counts ? window_spectrum(c->beta, width_of(c->dtype), frequency) : 1.0;
        ret[m] = counts ? share * rest / (window * window) : 0.0;
    }
}

int cloud_prepare(struct cloud *c, struct err *err)
{
    const struct torus *t = &c->torus;
    double *axes[GRID_DIMS] = {NULL};
    int r = 0;
    for (int k = 0; r == 0 && k < t->grid.dims; k++) {
        axes[k] = mem_array((size_t)t->extent[k], sizeof(double));
        r = axes[k] != NULL ? 0 : err_no_memory(err);
        if (r == 0) {
            axis_spectrum(c, t->extent[k], axes[k]);
        }
    }
    r = r == 0 ? torus_prepare_product(&c->torus, axes, err) : r;
    for (int k = 0; k < t->grid.dims; k++) {
        mem_free(axes[k]);
    }
    fit_window(&c->window, c->beta, width_of(c->dtype));
    return r;
}

void cloud_deinit(struct cloud *c)
{
    torus_deinit(&c->torus);
}

/* ---- points ---- */

/* Where a point's window begins along an axis, and its s there (struct window): places are those of
 * windows' middles, moved by half a width. Neither operation can lead beyond the ends of the range,
 * however far that lies from the origin. */
static int64_t begin_of(const struct cloud *c, const struct rows *X, int64_t i, int axis,
                        double *ret_s)
{
    const struct grid *g = &c->torus.grid;
    const double at = (rows_at(X, i, g->feature[axis]) - g->origin[axis]) / g->step[axis];
    const double first = ceil(at);
    *ret_s = 2.0 * (first - at) - 1.0;
    return (int64_t)first;
}

/* The window of a point; returns the number of its first place. */
static int64_t window_of(const struct cloud *c, const struct rows *X, int64_t i,
                         struct window_at *ret)
{
    const struct torus *t = &c->torus;
    const int dims = t->grid.dims;
    int64_t place = 0, stride = 1;
    *ret = (struct window_at){.lines = {1, 1}};
    for (int k = dims - 1; k >= 0; k--) {
        const int slot = k - dims + CLOUD_DIMS;
        place += stride * begin_of(c, X, i, k, &ret->s[slot]);
        if (slot < 2) {
            ret->lines[slot] = c->window.width;
            ret->stride[slot] = stride;
        }
        stride *= t->extent[k];
    }
    return place;
}

/* Places in the order of blocks and, within each, of their own. */
static int64_t sorting_key(const struct cloud *c, const struct rows *X, int64_t i)
{
    const struct grid *g = &c->torus.grid;
    int64_t block = 0, within = 0;
    double s;
    for (int k = 0; k < g->dims; k++) {
        const int64_t at = begin_of(c, X, i, k, &s);
        block = k < 2 ? block * c->blocks[k] + at / BLOCK : block;
        within = k < 2 ? within * BLOCK + at % BLOCK : within * g->size[k] + at;
    }
    const int64_t across = g->dims == 1 ? BLOCK : BLOCK * BLOCK;
    return block * across * (g->dims == 3 ? g->size[2] : 1) + within;
}

double cloud_keys(const struct cloud *c)
{
    const struct grid *g = &c->torus.grid;
    return (double)block_count(c) * BLOCK * BLOCK * (g->dims == 3 ? (double)g->size[2] : 1.0);
}

static int64_t block_of_key(const struct cloud *c, int64_t key)
{
    const struct grid *g = &c->torus.grid;
    return key / (g->dims == 1 ? BLOCK : BLOCK * BLOCK) / (g->dims == 3 ? g->size[2] : 1);
}

int cloud_sort(const struct cloud *c, const struct points *p, struct cloud_order *ret,
               struct err *err)
{
    const struct rows X = points_rows(p);
    const int64_t n = p->n, blocks = block_count(c);
    ret->row = mem_array((size_t)n, sizeof *ret->row);
    ret->first = mem_zarray((size_t)blocks + 1, sizeof *ret->first);
    if (ret->row == NULL || ret->first == NULL) {
        cloud_order_deinit(ret);
        return err_no_memory(err);
    }
#pragma omp parallel for num_threads(c->torus.threads)
    for (int64_t i = 0; i < n; i++) {
        ret->row[i] = sorting_key(c, &X, i) * n + i;
    }
    sort_i64(ret->row, n);
    for (int64_t i = 0; i < n; i++) {
        ret->first[block_of_key(c, ret->row[i] / n) + 1]++;
        ret->row[i] %= n;
    }
    for (int64_t b = 0; b < blocks; b++) {
        ret->first[b + 1] += ret->first[b];
    }
    return 0;
}

int64_t cloud_order_bytes(const struct cloud *c, int64_t n)
{
    return (n + block_count(c) + 1) * (int64_t)sizeof(int64_t);
}

void cloud_order_deinit(struct cloud_order *o)
{
    o->row = mem_free(o->row);
    o->first = mem_free(o->first);
}

/* ---- products ---- */

#define AHEAD 8 /* points: their rows lie anywhere in memory */

/* Rows of the points and of the column that are used soon. */
static void fetch_ahead(const struct points *p, const struct cloud_order *o, int64_t k,
                        const struct mat *column)
{
    if (k + AHEAD < p->n) {
        const int64_t i = o->row[k + AHEAD];
        __builtin_prefetch(points_row(p, i));
        __builtin_prefetch((const char *)column->data + (size_t)i * dtype_size(column->dtype));
    }
}

static void spread_block(const struct cloud *c, const struct tile_isa *isa, const struct points *q,
                         const struct cloud_order *o, int64_t block, const struct mat *v,
                         double *numbers)
{
    const struct rows X = points_rows(q);
    for (int64_t k = o->first[block]; k < o->first[block + 1]; k++) {
        struct window_at at;
        const int64_t i = o->row[k], place = window_of(c, &X, i, &at);
        fetch_ahead(q, o, k, v);
        isa->spread(&c->window, &at, mat_at(v, i, 0), numbers + place);
    }
}

void cloud_spread(const struct cloud *c, const struct tile_isa *isa, const struct points *q,
                  const struct cloud_order *o, const struct mat *v, double *numbers)
{
#pragma omp parallel for num_threads(c->torus.threads)
    for (int64_t i = 0; i < c->torus.places; i++) {
        numbers[i] = 0.0;
    }
    for (int color = 0; color < 4; color++) {
#pragma omp parallel for num_threads(c->torus.threads) schedule(dynamic)
        for (int64_t b = 0; b < block_count(c); b++) {
            if (b / c->blocks[1] % 2 * 2 + b % c->blocks[1] % 2 == color) {
                spread_block(c, isa, q, o, b, v, numbers);
            }
        }
    }
}

void cloud_gather(const struct cloud *c, const struct tile_isa *isa, const struct points *p,
                  const struct cloud_order *o, double a, const double *numbers, double b,
                  const struct mat *y)
{
    const struct rows X = points_rows(p);
#pragma omp parallel for num_threads(c->torus.threads)
    for (int64_t k = 0; k < p->n; k++) {
        struct window_at at;
        const int64_t i = o->row[k], place = window_of(c, &X, i, &at);
        fetch_ahead(p, o, k, y);
        const double product = a * isa->gather(&c->window, &at, numbers + place);
        mat_set(y, i, 0, b == 0.0 ? product : product + b * mat_at(y, i, 0));
    }
}
