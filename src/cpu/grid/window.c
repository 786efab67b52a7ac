#include "cpu/grid/window.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "cpu/grid/fft.h"
#include "cpu/grid/polynomial.h"
#include "cpu/oracle.h"

#define BLOCK 16  /* places along an axis: no less than a line of a window */
#define SHAPE 2.5 /* of the window, for each of its places: beta */
/* In kernel values, whose float64 ones take twice as long: of a number, and of each of the lines it
 * is spread over and gathered from. */
#define POINT_COST 900.0
#define LINE_COST_F32 60.0
#define LINE_COST_F64 30.0

_Static_assert(WINDOW_TERMS <= (int)POLYNOMIAL_TERMS, "fit_window fits them");
_Static_assert(BLOCK >= WINDOW_ROW, "blocks of one color keep apart");

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

/* A place of a window. */
struct window_place {
    double beta;
    int width, place;
};

static double weight_of_place(const void *context, double s)
{
    const struct window_place *p = context;
    return window_at_place(p->beta, p->width, (s + 1.0) / 2.0 + p->place - p->width / 2.0);
}

static void fit_window(struct window *w, double beta, int width)
{
    *w = (struct window){.width = width, .terms = width + 4};
    for (int k = 0; k < width; k++) {
        const struct window_place place = {.beta = beta, .width = width, .place = k};
        double term[WINDOW_TERMS];
        polynomial_fit(weight_of_place, &place, w->terms, term);
        for (int t = 0; t < w->terms; t++) {
            w->term[t][k] = term[t];
        }
    }
}

/* ---- the places ---- */

/* Of a feature in all sets of the type. */
static void range_of(struct points *const *sets, int count, enum dtype dtype, int64_t j,
                     double *ret_least, double *ret_most)
{
    *ret_least = INFINITY;
    *ret_most = -INFINITY;
    for (int s = 0; s < count; s++) {
        const struct rows X = points_rows(sets[s]);
        for (int64_t i = 0; X.dtype == dtype && i < X.n; i++) {
            const double x = rows_at(&X, i, j);
            *ret_least = x < *ret_least ? x : *ret_least;
            *ret_most = x > *ret_most ? x : *ret_most;
        }
    }
}

struct cloud_ranges cloud_ranges(struct points *const *sets, int count, enum dtype dtype)
{
    struct cloud_ranges r = {.dims = 0};
    for (int64_t j = 0; j < sets[0]->d; j++) {
        double least, most;
        range_of(sets, count, dtype, j, &least, &most);
        if (most > least && r.dims == CLOUD_DIMS) {
            return (struct cloud_ranges){.dims = 0};
        }
        if (most > least) {
            r.feature[r.dims] = j;
            r.least[r.dims] = least;
            r.most[r.dims++] = most;
        }
    }
    return r;
}

/* Of an axis of so many steps: around the torus no point is as near to another as values count, or
 * it is twice as long as the points and the zone in which distances turn. */
static double places_along(const struct cloud_layout *l, double steps)
{
    const double beyond = ceil(l->beyond / l->step);
    const double turning = fmin(2.0 * steps, fmax(steps + beyond, 2.0 * beyond)) + l->zone;
    return 1.0 + fmax(steps + WINDOW_ROW, l->zone > 0.0 ? turning : steps + beyond);
}

/* One axis more; false: that is too much. */
static bool add_axis(struct grid *g, int64_t *extent, double *places, const struct cloud_ranges *r,
                     const struct cloud_layout *l)
{
    const int k = g->dims++;
    const double steps = ceil((r->most[k] - r->least[k]) / l->step);
    const double length = places_along(l, steps);
    *places *= length;
    if (!(*places <= (double)l->most)) {
        return false;
    }
    extent[k] = fft_length((int64_t)length);
    g->feature[k] = r->feature[k];
    g->step[k] = l->step;
    g->origin[k] = r->least[k];
    g->size[k] = (int64_t)steps + 1 + WINDOW_ROW;
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

void cloud_lay(struct cloud *c, const struct cloud_ranges *r, enum dtype dtype,
               const struct cloud_layout *l, const struct backend *be)
{
    struct grid g = {.dims = 0, .scattered = true};
    int64_t extent[GRID_DIMS];
    double places = 1.0;
    *c = (struct cloud){.dtype = dtype, .beta = SHAPE * width_of(dtype)};
    bool fits = r->dims > 0;
    while (fits && g.dims < r->dims) {
        fits = add_axis(&g, extent, &places, r, l);
    }
    if (fits) {
        torus_lay(&c->torus, &g, extent, be);
        cut_blocks(c);
    }
}

double cloud_point_cost(enum dtype dtype, int dims)
{
    const double lines = pow(width_of(dtype), dims - 1);
    return POINT_COST + (dtype == DTYPE_F32 ? LINE_COST_F32 : LINE_COST_F64) * lines;
}

/* ---- the spectrum ---- */

/* Of one axis, for each frequency of the torus: 1 by the window's spectrum squared, times that of
 * a gaussian of so many places unless sigma is 0; 0 beyond what the layout leaves room for. */
static void axis_spectrum(const struct cloud *c, int64_t extent, double sigma, double *ret)
{
    const double pi = M_PI, share = sigma > 0.0 ? sigma * sqrt(2.0 * pi) / (double)extent : 1.0;
    for (int64_t m = 0; m < extent; m++) {
        const double frequency =
            2.0 * pi * (double)(m <= extent / 2 ? m : m - extent) / (double)extent;
        const bool counts = fabs(frequency) <= pi / CLOUD_OVERSAMPLED;
        const double window =
            counts ? window_spectrum(c->beta, width_of(c->dtype), frequency) : 1.0;
        ret[m] = counts ? share * exp(-0.5 * pow(frequency * sigma, 2.0)) / (window * window) : 0.0;
    }
}

static void free_axes(double *axes[GRID_DIMS])
{
    for (int k = 0; k < GRID_DIMS; k++) {
        axes[k] = mem_free(axes[k]);
    }
}

static int make_axes(const struct cloud *c, double sigma, double *axes[GRID_DIMS], struct err *err)
{
    const struct torus *t = &c->torus;
    for (int k = 0; k < t->grid.dims; k++) {
        axes[k] = mem_array((size_t)t->extent[k], sizeof(double));
        if (axes[k] == NULL) {
            free_axes(axes);
            return err_no_memory(err);
        }
        axis_spectrum(c, t->extent[k], sigma, axes[k]);
    }
    return 0;
}

int cloud_prepare_gaussian(struct cloud *c, double sigma, struct err *err)
{
    double *axes[GRID_DIMS] = {NULL};
    int r = make_axes(c, sigma, axes, err);
    r = r == 0 ? torus_prepare_product(&c->torus, axes, err) : r;
    free_axes(axes);
    fit_window(&c->window, c->beta, width_of(c->dtype));
    return r;
}

int cloud_prepare(struct cloud *c, torus_function *f, const void *context, double *numbers,
                  struct err *err)
{
    double *axes[GRID_DIMS] = {NULL};
    int r = make_axes(c, 0.0, axes, err);
    r = r == 0 ? torus_prepare_function(&c->torus, f, context, numbers, err) : r;
    if (r == 0) {
        torus_weigh(&c->torus, axes);
    }
    free_axes(axes);
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
