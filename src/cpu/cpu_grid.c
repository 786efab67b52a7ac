#include "cpu/cpu_grid.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_fft.h"
#include "cpu/cpu_oracle.h"
#include "engine/grid.h"

/* Kernel values that take the time of a place and log2 of the places, there and back, with a
 * margin; of a single line, which has one thread where tiles have several, as if they had four: the
 * way is not to depend on how many there are. */
#define PLACE_COST 16.0
#define LINE_COST 64.0

/* The torus of a grid. Sets of points share it. */
struct torus {
    int sets; /* that use it */
    struct grid grid;
    int64_t extent[GRID_DIMS], places;
    struct fft *fft[GRID_DIMS];
    double *spectrum; /* [places], divided by their number */
    double *numbers;  /* [places] complex: of the product at hand */
    double *scratch;  /* [threads] lines */
    int threads;
    int64_t longest, bytes;
};

/* ---- lines ---- */

/* Lines along `axis` are counted over places before it within the grid, since beyond there is
 * nothing on the way there, and nothing wanted on the way back, and over all places behind it. */
struct lines {
    int64_t before, length, behind;
};

static struct lines lines_along(const struct torus *t, int axis)
{
    struct lines l = {.before = 1, .length = t->extent[axis], .behind = 1};
    for (int k = 0; k < axis; k++) {
        l.before *= t->grid.size[k];
    }
    for (int k = axis + 1; k < t->grid.dims; k++) {
        l.behind *= t->extent[k];
    }
    return l;
}

/* The place where the lines begin that have number `before` of those before the axis. */
static int64_t first_place(const struct torus *t, int axis, int64_t before)
{
    int64_t place = 0, stride = t->places;
    int64_t size = 1, rest = before;
    for (int k = 0; k < axis; k++) {
        size *= t->grid.size[k];
    }
    for (int k = 0; k < axis; k++) {
        size /= t->grid.size[k];
        stride /= t->extent[k];
        place += rest / size * stride;
        rest %= size;
    }
    return place;
}

static void transform_axis(const struct torus *t, int axis, bool back)
{
    const struct lines l = lines_along(t, axis);
#pragma omp parallel for num_threads(t->threads) if (l.before * l.behind > 1)
    for (int64_t i = 0; i < l.before * l.behind; i++) {
        const int64_t place = first_place(t, axis, i / l.behind) + i % l.behind;
        double *scratch = t->scratch + 2 * t->longest * omp_get_thread_num();
        fft_line(t->fft[axis], back, t->numbers + 2 * place, l.behind, scratch);
    }
}

static void transform(const struct torus *t, bool back)
{
    const int dims = t->grid.dims;
    for (int k = 0; k < dims; k++) {
        transform_axis(t, back ? k : dims - 1 - k, back);
    }
}

/* ---- the kernel's spectrum ---- */

/* Of the two places that are as far apart as place `at` of the torus and the first one, by the
 * shorter way. Points are scaled (cpu_points.c). */
static double value_at(const struct torus *t, const struct points *p, int64_t at)
{
    double x[GRID_DIMS];
    const double origin[GRID_DIMS] = {0.0};
    for (int k = t->grid.dims - 1; k >= 0; k--) {
        const int64_t i = at % t->extent[k], other = t->extent[k] - i;
        x[k] = (double)(i < other ? i : other) * t->grid.step[k] / p->scale;
        at /= t->extent[k];
    }
    const struct kernel unit = {.id = p->kernel.id, .d = t->grid.dims, .bandwidth = 1.0};
    return kernel_eval(&unit, x, origin);
}

/* The spectrum of a symmetric function is real. Here every line counts: the grid is the torus. */
static void make_spectrum(struct torus *t, const struct points *p)
{
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < t->places; i++) {
        t->numbers[2 * i] = value_at(t, p, i);
        t->numbers[2 * i + 1] = 0.0;
    }
    const struct grid grid = t->grid;
    memcpy(t->grid.size, t->extent, sizeof t->grid.size);
    transform(t, false);
    t->grid = grid;
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < t->places; i++) {
        t->spectrum[i] = t->numbers[2 * i] / (double)t->places;
    }
}

/* ---- products ---- */

/* Whether it is no slower than so many kernel values. */
static bool pays(const struct torus *t, double values)
{
    const double cost = t->grid.dims == 1 ? LINE_COST : PLACE_COST;
    return cost * (double)t->places * log2((double)t->places) <= values;
}

bool grid_applies(const struct view *P, const struct view *Q)
{
    const struct points *p = P->points, *q = Q->points;
    return p->torus != NULL && p->torus == q->torus && P->index == NULL && Q->index == NULL &&
           P->count == p->n && Q->count == q->n && pays(p->torus, (double)p->n * (double)q->n);
}

/* Columns j and, where there is one, j + 1 of V. */
static void spread(const struct torus *t, const struct points *q, const struct mat *V, int64_t j)
{
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < 2 * t->places; i++) {
        t->numbers[i] = 0.0;
    }
    for (int64_t i = 0; i < q->n; i++) {
        double *const number = t->numbers + 2 * q->places[i];
        number[0] += mat_at(V, i, j);
        number[1] += j + 1 < V->cols ? mat_at(V, i, j + 1) : 0.0;
    }
}

static void gather(const struct torus *t, const struct points *p, double a, double b,
                   const struct mat *Y, int64_t j)
{
    const int64_t columns = min_i64(2, Y->cols - j);
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t c = 0; c < columns; c++) {
            const double product = a * t->numbers[2 * p->places[i] + c];
            mat_set(Y, i, j + c, b == 0.0 ? product : product + b * mat_at(Y, i, j + c));
        }
    }
}

static void multiply(const struct torus *t)
{
#pragma omp parallel for num_threads(t->threads)
    for (int64_t i = 0; i < t->places; i++) {
        t->numbers[2 * i] *= t->spectrum[i];
        t->numbers[2 * i + 1] *= t->spectrum[i];
    }
}

int grid_product(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
                 double b, const struct mat *Y, struct err *err)
{
    const bool fits =
        V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols && V->cols >= 1;
    int r = cpu__expect(fits, "kmv", err);
    const struct torus *t = P.points->torus;
    for (int64_t j = 0; r == 0 && j < V->cols; j += 2) {
        r = be->stop != NULL ? be->stop(be->stop_context, err) : 0;
        if (r == 0) {
            spread(t, Q.points, V, j);
            transform(t, false);
            multiply(t);
            transform(t, true);
            gather(t, P.points, a, b, Y, j);
        }
    }
    return r;
}

/* ---- the torus ---- */

static void torus_free(struct torus *t)
{
    for (int k = 0; k < GRID_DIMS; k++) {
        fft_free(t->fft[k]);
    }
    mem_free(t->spectrum);
    mem_free(t->numbers);
    mem_free(t->scratch);
    mem_free(t);
}

static void measure(struct torus *t, int threads)
{
    t->places = 1;
    int64_t lines = 0;
    for (int k = 0; k < t->grid.dims; k++) {
        t->extent[k] = fft_length(2 * t->grid.size[k] - 1);
        t->longest = t->extent[k] > t->longest ? t->extent[k] : t->longest;
        t->places *= t->extent[k];
        lines += t->extent[k];
    }
    t->threads = t->places > t->longest ? threads : 1; /* a line has one */
    const int64_t number = (int64_t)sizeof(double);
    t->bytes = number * (3 * t->places + 2 * t->threads * t->longest + 4 * lines);
}

static int make_room(struct torus *t, struct err *err)
{
    t->spectrum = mem_aligned((size_t)t->places, sizeof(double));
    t->numbers = mem_aligned((size_t)t->places, 2 * sizeof(double));
    t->scratch = mem_aligned((size_t)(t->threads * t->longest), 2 * sizeof(double));
    bool room = t->spectrum != NULL && t->numbers != NULL && t->scratch != NULL;
    for (int k = 0; room && k < t->grid.dims; k++) {
        t->fft[k] = fft_new(t->extent[k]);
        room = t->fft[k] != NULL;
    }
    return room ? 0 : err_no_memory(err);
}

static struct rows rows_of(const struct points *p)
{
    return (struct rows){.dtype = p->dtype, .n = p->n, .d = p->ld, .data = p->data};
}

void grid_forget(struct backend *be, struct points *p)
{
    if (p->torus != NULL) {
        cpu__account(be, -p->n * (int64_t)sizeof *p->places);
        p->places = mem_free(p->places);
        if (--p->torus->sets == 0) {
            cpu__account(be, -p->torus->bytes);
            torus_free(p->torus);
        }
        p->torus = NULL;
    }
}

static int settle(struct backend *be, struct points *p, struct torus *t, struct err *err)
{
    p->places = mem_array((size_t)p->n, sizeof *p->places);
    if (p->places == NULL) {
        return err_no_memory(err);
    }
    const struct rows X = rows_of(p);
#pragma omp parallel for num_threads(be->threads)
    for (int64_t i = 0; i < p->n; i++) {
        p->places[i] = grid_place(&t->grid, &X, i, t->extent);
    }
    cpu__account(be, p->n * (int64_t)sizeof *p->places);
    p->torus = t;
    t->sets++;
    return 0;
}

/* NULL: the sets lie on no grid that pays and has room. */
static int find_torus(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                      struct torus **ret, struct err *err)
{
    struct rows rows[POINTS_GRID_SETS];
    for (int s = 0; s < count; s++) {
        rows[s] = rows_of(sets[s]);
    }
    struct torus *t = mem_zalloc(sizeof *t);
    if (t == NULL) {
        return err_no_memory(err);
    }
    const double n = (double)sets[0]->n;
    const double most = fmin(n * n / PLACE_COST, (double)bytes / (3 * sizeof(double)));
    int r = grid_find(rows, count, sets[0]->d, (int64_t)fmin(most / 2, 0x1p52), &t->grid, err);
    if (r == 0 && t->grid.dims > 0) {
        measure(t, be->threads);
    }
    if (r < 0 || t->grid.dims == 0 || t->bytes > bytes || !pays(t, n * n)) {
        torus_free(t);
        *ret = NULL;
        return r;
    }
    *ret = t;
    return 0;
}

int cpu__points_grid(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                     struct grid *ret, struct err *err)
{
    *ret = (struct grid){.dims = 0};
    for (int s = 0; s < count; s++) {
        grid_forget(be, sets[s]);
    }
    struct torus *t = NULL;
    const bool distance = count > 0 && kernel_uses_distance(sets[0]->kernel.id);
    int r = distance ? find_torus(be, sets, count, bytes, &t, err) : 0;
    if (r < 0 || t == NULL) {
        return r;
    }
    cpu__account(be, t->bytes);
    t->sets = 1; /* this function, until it is done */
    r = make_room(t, err);
    for (int s = 0; r == 0 && s < count; s++) {
        r = settle(be, sets[s], t, err);
    }
    if (r == 0) {
        make_spectrum(t, sets[0]);
        *ret = t->grid;
    }
    for (int s = 0; r < 0 && s < count; s++) {
        grid_forget(be, sets[s]);
    }
    if (--t->sets == 0) {
        cpu__account(be, -t->bytes);
        torus_free(t);
    }
    return r;
}
