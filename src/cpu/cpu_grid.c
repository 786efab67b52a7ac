#include "cpu/cpu_grid.h"

#include <math.h>

#include "base/mem.h"
#include "cpu/cpu_kronecker.h"
#include "cpu/cpu_oracle.h"
#include "cpu/cpu_torus.h"

#define LEAST_COST 16.0 /* of a place, in kernel values: grids with more places never pay */

/* The places of a grid, and how vectors over them are multiplied. Sets of points share it. */
struct lattice {
    int sets; /* that use it */
    bool by_axes;
    struct torus torus;         /* unless by_axes */
    struct kronecker kronecker; /* if so */
    int64_t places;
    int64_t each, apart; /* steps from a place, and from a column, to the next, in `numbers` */
    double *numbers;     /* [places], two columns: of the product at hand */
    double cost;         /* of a product, in kernel values */
    int threads;
    int64_t bytes;
};

/* ---- products ---- */

bool grid_applies(const struct view *P, const struct view *Q)
{
    const struct points *p = P->points, *q = Q->points;
    return p->lattice != NULL && p->lattice == q->lattice && P->index == NULL && Q->index == NULL &&
           P->count == p->n && Q->count == q->n && p->lattice->cost <= (double)p->n * (double)q->n;
}

/* Columns j and, where there is one, j + 1 of V. */
static void spread(const struct lattice *l, const struct points *q, const struct mat *V, int64_t j)
{
#pragma omp parallel for num_threads(l->threads)
    for (int64_t i = 0; i < 2 * l->places; i++) {
        l->numbers[i] = 0.0;
    }
    for (int64_t i = 0; i < q->n; i++) {
        double *const number = l->numbers + l->each * q->places[i];
        number[0] += mat_at(V, i, j);
        number[l->apart] += j + 1 < V->cols ? mat_at(V, i, j + 1) : 0.0;
    }
}

static void gather(const struct lattice *l, const struct points *p, double a, double b,
                   const struct mat *Y, int64_t j)
{
    const int64_t columns = min_i64(2, Y->cols - j);
#pragma omp parallel for num_threads(l->threads)
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t c = 0; c < columns; c++) {
            const double product = a * l->numbers[l->each * p->places[i] + l->apart * c];
            mat_set(Y, i, j + c, b == 0.0 ? product : product + b * mat_at(Y, i, j + c));
        }
    }
}

static int multiply(struct backend *be, const struct lattice *l, int64_t columns, struct err *err)
{
    if (l->by_axes) {
        return kronecker_multiply(&l->kronecker, be, l->numbers, columns, err);
    }
    torus_multiply(&l->torus, l->numbers);
    return 0;
}

int grid_product(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
                 double b, const struct mat *Y, struct err *err)
{
    const bool fits =
        V->rows == Q.count && Y->rows == P.count && V->cols == Y->cols && V->cols >= 1;
    int r = cpu__expect(fits, "kmv", err);
    const struct lattice *l = P.points->lattice;
    for (int64_t j = 0; r == 0 && j < V->cols; j += 2) {
        r = be->stop != NULL ? be->stop(be->stop_context, err) : 0;
        if (r == 0) {
            spread(l, Q.points, V, j);
            r = multiply(be, l, min_i64(2, V->cols - j), err);
        }
        if (r == 0) {
            gather(l, P.points, a, b, Y, j);
        }
    }
    return r;
}

/* ---- the lattice ---- */

static void lattice_free(struct lattice *l)
{
    torus_deinit(&l->torus);
    kronecker_deinit(&l->kronecker);
    mem_free(l->numbers);
    mem_free(l);
}

static struct rows rows_of(const struct points *p)
{
    return (struct rows){.dtype = p->dtype, .n = p->n, .d = p->ld, .data = p->data};
}

void grid_forget(struct backend *be, struct points *p)
{
    if (p->lattice != NULL) {
        cpu__account(be, -p->n * (int64_t)sizeof *p->places);
        p->places = mem_free(p->places);
        if (--p->lattice->sets == 0) {
            cpu__account(be, -p->lattice->bytes);
            lattice_free(p->lattice);
        }
        p->lattice = NULL;
    }
}

static int settle(struct backend *be, struct points *p, struct lattice *l, struct err *err)
{
    p->places = mem_array((size_t)p->n, sizeof *p->places);
    if (p->places == NULL) {
        return err_no_memory(err);
    }
    const struct rows X = rows_of(p);
#pragma omp parallel for num_threads(be->threads)
    for (int64_t i = 0; i < p->n; i++) {
        p->places[i] = l->by_axes ? grid_axes_place(&l->kronecker.axes, &X, i)
                                  : grid_place(&l->torus.grid, &X, i, l->torus.extent);
    }
    cpu__account(be, p->n * (int64_t)sizeof *p->places);
    p->lattice = l;
    l->sets++;
    return 0;
}

/* What both ways need. */
struct search {
    struct rows rows[POINTS_GRID_SETS];
    int count;
    int64_t features;
    enum kernel_id kernel;
    int64_t most, bytes; /* places that could pay and have room */
    double values;       /* of a product of the first set */
};

static bool suits(const struct search *s, double cost, int64_t places, int64_t bytes)
{
    const int64_t numbers = 2 * places * (int64_t)sizeof(double);
    return cost <= s->values && bytes + numbers <= s->bytes;
}

/* By Fourier transforms; cost stays infinite where there is no such grid. */
static int try_torus(const struct search *s, int threads, struct lattice *l, struct err *err)
{
    struct grid g;
    const int r = grid_find(s->rows, s->count, s->features, s->most / 2, &g, err);
    if (r < 0 || g.dims == 0) {
        return r;
    }
    torus_measure(&l->torus, &g, threads);
    const struct torus *t = &l->torus;
    if (suits(s, torus_cost(t), t->places, t->bytes)) {
        l->cost = torus_cost(t);
        l->places = t->places;
        l->each = 2;
        l->apart = 1;
        l->bytes = t->bytes;
    }
    return 0;
}

/* By a matrix for each feature, where that takes less. */
static int try_axes(const struct search *s, struct lattice *l, struct err *err)
{
    if (!kernel_is_product(s->kernel)) {
        return 0;
    }
    struct kronecker *k = &l->kronecker;
    const int r = kronecker_find(s->rows, s->count, s->features, s->most, k, err);
    l->by_axes = r == 0 && k->axes.dims > 0 &&
                 suits(s, kronecker_cost(k), k->axes.places, k->bytes) &&
                 kronecker_cost(k) < l->cost;
    if (l->by_axes) {
        l->cost = kronecker_cost(k);
        l->places = k->axes.places;
        l->each = 1;
        l->apart = l->places;
        l->bytes = k->bytes;
    } else {
        kronecker_deinit(k);
    }
    return r;
}

/* NULL: the sets lie on no grid that pays and has room. */
static int find_lattice(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                        struct lattice **ret, struct err *err)
{
    const double n = (double)sets[0]->n, number = sizeof(double);
    const double most = fmin(fmin(n * n / LEAST_COST, (double)bytes / (3 * number)), 0x1p52);
    struct search s = {.count = count,
                       .features = sets[0]->d,
                       .kernel = sets[0]->kernel.id,
                       .most = (int64_t)most,
                       .bytes = bytes,
                       .values = n * n};
    for (int i = 0; i < count; i++) {
        s.rows[i] = rows_of(sets[i]);
    }
    *ret = NULL;
    struct lattice *l = mem_zalloc(sizeof *l);
    if (l == NULL) {
        return err_no_memory(err);
    }
    l->cost = INFINITY;
    l->threads = be->threads;
    int r = try_torus(&s, be->threads, l, err);
    r = r == 0 ? try_axes(&s, l, err) : r;
    if (r < 0 || isinf(l->cost)) {
        lattice_free(l);
        return r;
    }
    l->bytes += 2 * l->places * (int64_t)sizeof(double);
    *ret = l;
    return 0;
}

static struct grid grid_of(const struct lattice *l)
{
    const struct grid_axes *a = &l->kronecker.axes;
    struct grid ret = {.dims = a->dims, .kronecker = true};
    for (int k = 0; k < a->dims; k++) {
        ret.feature[k] = a->feature[k];
        ret.size[k] = a->size[k];
    }
    return l->by_axes ? ret : l->torus.grid;
}

static int prepare(struct lattice *l, const struct points *p, struct err *err)
{
    l->numbers = mem_aligned((size_t)l->places, 2 * sizeof(double));
    if (l->numbers == NULL) {
        return err_no_memory(err);
    }
    return l->by_axes ? kronecker_prepare(&l->kronecker, p, err)
                      : torus_prepare(&l->torus, p, l->numbers, err);
}

int cpu__points_grid(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                     struct grid *ret, struct err *err)
{
    *ret = (struct grid){.dims = 0};
    for (int s = 0; s < count; s++) {
        grid_forget(be, sets[s]);
    }
    struct lattice *l = NULL;
    const bool distance = count > 0 && kernel_uses_distance(sets[0]->kernel.id);
    int r = distance ? find_lattice(be, sets, count, bytes, &l, err) : 0;
    if (r < 0 || l == NULL) {
        return r;
    }
    cpu__account(be, l->bytes);
    l->sets = 1; /* this function, until it is done */
    for (int s = 0; r == 0 && s < count; s++) {
        r = settle(be, sets[s], l, err);
    }
    r = r == 0 ? prepare(l, sets[0], err) : r;
    if (r == 0) {
        *ret = grid_of(l);
    }
    for (int s = 0; r < 0 && s < count; s++) {
        grid_forget(be, sets[s]);
    }
    if (--l->sets == 0) {
        cpu__account(be, -l->bytes);
        lattice_free(l);
    }
    return r;
}
