#include "cpu/grid/grid.h"

#include <math.h>

#include "base/mem.h"
#include "cpu/grid/kronecker.h"
#include "cpu/grid/scattered.h"
#include "cpu/grid/torus.h"
#include "cpu/oracle.h"

#define ROW_COST 16.0   /* of a row on its way to its place, and of one on its way back */
#define LEAST_COST 16.0 /* of a place, in kernel values: grids with more places never pay */

enum way { BY_TORUS, BY_AXES, BY_WINDOW };

/* The places of a grid, and how vectors over them are multiplied. Sets of points share it. */
struct lattice {
    int sets; /* that use it */
    enum way way;
    struct torus torus;
    struct kronecker kronecker;
    struct scattered scattered;
    int64_t places;
    int64_t each, apart; /* steps from a place, and from a column, to the next, in `numbers` */
    double *numbers;     /* [places], two columns: of the product at hand */
    double cost;         /* of a product, in kernel values; of BY_WINDOW beside its points */
    int threads;
    int64_t bytes;
};

/* ---- products ---- */

static double product_cost(const struct lattice *l, int64_t p, int64_t q)
{
    const bool window = l->way == BY_WINDOW;
    return l->cost + (window ? scattered_cost(&l->scattered, (double)p, (double)q) : 0.0);
}

bool grid_applies(const struct view *P, const struct view *Q)
{
    const struct points *p = P->points, *q = Q->points;
    return p->lattice != NULL && p->lattice == q->lattice && P->index == NULL && Q->index == NULL &&
           P->count == p->n && Q->count == q->n &&
           product_cost(p->lattice, p->n, q->n) <= (double)p->n * (double)q->n;
}

/* Columns j and, where there is one, j + 1 of V. */
static void spread(struct backend *be, const struct lattice *l, const struct points *q,
                   const struct mat *V, int64_t j)
{
    if (l->way == BY_WINDOW) {
        scattered_spread(&l->scattered, cpu_isa(be), q, V, j, 0, l->numbers);
        scattered_spread(&l->scattered, cpu_isa(be), q, V, j, 1, l->numbers);
        return;
    }
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

static void gather(struct backend *be, const struct lattice *l, const struct points *p, double a,
                   double b, const struct mat *Y, int64_t j)
{
    const int columns = j + 1 < Y->cols ? 2 : 1;
    for (int c = 0; l->way == BY_WINDOW && c < columns; c++) {
        scattered_gather(&l->scattered, cpu_isa(be), p, a, l->numbers, b, Y, j, c);
    }
#pragma omp parallel for num_threads(l->threads) if (l->way != BY_WINDOW)
    for (int64_t i = 0; i < (l->way != BY_WINDOW ? p->n : 0); i++) {
        for (int c = 0; c < columns; c++) {
            const double product = a * l->numbers[l->each * p->places[i] + l->apart * c];
            mat_set(Y, i, j + c, b == 0.0 ? product : product + b * mat_at(Y, i, j + c));
        }
    }
}

static int multiply(struct backend *be, const struct lattice *l, int64_t columns, struct err *err)
{
    if (l->way == BY_AXES) {
        return kronecker_multiply(&l->kronecker, be, l->numbers, columns, err);
    }
    torus_multiply(l->way == BY_WINDOW ? &l->scattered.cloud.torus : &l->torus, l->numbers);
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
            spread(be, l, Q.points, V, j);
            r = multiply(be, l, min_i64(2, V->cols - j), err);
        }
        if (r == 0) {
            gather(be, l, P.points, a, b, Y, j);
        }
    }
    if (r == 0 && l->way == BY_WINDOW) {
        scattered_near(&l->scattered, cpu_isa(be), P.points, Q.points, a, V, Y);
    }
    return r;
}

/* ---- the lattice ---- */

static void lattice_free(struct lattice *l)
{
    torus_deinit(&l->torus);
    kronecker_deinit(&l->kronecker);
    scattered_deinit(&l->scattered);
    mem_free(l->numbers);
    mem_free(l);
}

void grid_forget(struct backend *be, struct points *p)
{
    if (p->lattice != NULL) {
        cpu__account(be, -p->lattice_bytes);
        p->places = mem_free(p->places);
        p->scattered = scattered_set_free(p->scattered);
        if (--p->lattice->sets == 0) {
            cpu__account(be, -p->lattice->bytes);
            lattice_free(p->lattice);
        }
        p->lattice = NULL;
    }
}

static int settle_scattered(struct backend *be, struct points *p, const struct lattice *l,
                            struct err *err)
{
    p->scattered = scattered_settle(&l->scattered, cpu_isa(be), p, err);
    if (p->scattered == NULL) {
        return -ERR_NO_MEMORY;
    }
    p->lattice_bytes = p->scattered->bytes;
    return 0;
}

static int settle_places(struct backend *be, struct points *p, const struct lattice *l,
                         struct err *err)
{
    p->places = mem_array((size_t)p->n, sizeof *p->places);
    if (p->places == NULL) {
        return err_no_memory(err);
    }
    const struct rows X = points_rows(p);
#pragma omp parallel for num_threads(be->threads)
    for (int64_t i = 0; i < p->n; i++) {
        p->places[i] = l->way == BY_AXES ? grid_axes_place(&l->kronecker.axes, &X, i)
                                         : grid_place(&l->torus.grid, &X, i, l->torus.extent);
    }
    p->lattice_bytes = p->n * (int64_t)sizeof *p->places;
    return 0;
}

static int settle(struct backend *be, struct points *p, struct lattice *l, struct err *err)
{
    const int r =
        l->way == BY_WINDOW ? settle_scattered(be, p, l, err) : settle_places(be, p, l, err);
    if (r == 0) {
        cpu__account(be, p->lattice_bytes);
        p->lattice = l;
        l->sets++;
    }
    return r;
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
static int try_torus(const struct backend *be, const struct search *s, struct lattice *l,
                     struct err *err)
{
    struct grid g;
    const int r = grid_find(s->rows, s->count, s->features, s->most / 2, &g, err);
    if (r < 0 || g.dims == 0) {
        return r;
    }
    torus_measure(&l->torus, &g, be);
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
    const bool better = r == 0 && k->axes.dims > 0 &&
                        suits(s, kronecker_cost(k), k->axes.places, k->bytes) &&
                        kronecker_cost(k) < l->cost;
    if (better) {
        l->way = BY_AXES;
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

/* Of all points, of few features, that lie anywhere. */
static bool try_window(const struct backend *be, const struct search *s, struct points *const *sets,
                       enum dtype dtype, struct lattice *l)
{
    struct scattered *const w = &l->scattered;
    /* Half as many places leave room for the column and the sets. */
    scattered_measure(w, sets, s->count, dtype, s->most / 2, be);
    const struct torus *t = &w->cloud.torus;
    if (t->grid.dims == 0) {
        return false;
    }
    /* Of a set with itself tiles evaluate half of the pairs, cells all that are near: a margin. */
    const double n = (double)sets[0]->n, margin = w->splits ? 1.5 : 1.0;
    const double cost = margin * (torus_cost(t) + scattered_cost(w, n, n));
    int64_t bytes = w->bytes;
    bool fits = true;
    for (int i = 0; i < s->count; i++) {
        bytes += sets[i]->dtype == dtype ? scattered_set_bytes(w, sets[i]->n) : 0;
        fits &= (double)sets[i]->n * cloud_keys(&w->cloud) < 0x1p62;
    }
    fits = fits && suits(s, cost, t->places, bytes);
    if (fits) {
        l->way = BY_WINDOW;
        l->cost = torus_cost(t);
        l->places = t->places;
        l->each = 2;
        l->apart = 1;
        l->bytes = w->bytes;
    }
    return fits;
}

static struct search search_of(struct points *const *sets, int count, int64_t bytes)
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
        s.rows[i] = points_rows(sets[i]);
    }
    return s;
}

static struct lattice *lattice_new(int threads, struct err *err)
{
    struct lattice *l = mem_zalloc(sizeof *l);
    if (l == NULL) {
        (void)err_no_memory(err);
        return NULL;
    }
    l->cost = INFINITY;
    l->threads = threads;
    return l;
}

/* *ret is l, or NULL where nothing was found that pays and has room. */
static int conclude(struct lattice *l, int r, struct lattice **ret)
{
    const bool found = r == 0 && !isinf(l->cost);
    if (found) {
        l->bytes += 2 * l->places * (int64_t)sizeof(double);
    } else {
        lattice_free(l);
    }
    *ret = found ? l : NULL;
    return r;
}

static int find_grid(struct backend *be, const struct search *s, struct lattice **ret,
                     struct err *err)
{
    struct lattice *l = lattice_new(be->threads, err);
    if (l == NULL) {
        return -ERR_NO_MEMORY;
    }
    int r = try_torus(be, s, l, err);
    r = r == 0 ? try_axes(s, l, err) : r;
    return conclude(l, r, ret);
}

static int find_window(struct backend *be, const struct search *s, struct points *const *sets,
                       enum dtype dtype, struct lattice **ret, struct err *err)
{
    struct lattice *l = lattice_new(be->threads, err);
    if (l == NULL) {
        return -ERR_NO_MEMORY;
    }
    (void)try_window(be, s, sets, dtype, l);
    return conclude(l, 0, ret);
}

/* `n`: points of the first set, whose product with itself evaluates each value once. */
static struct grid grid_of(const struct lattice *l, int64_t n)
{
    const struct grid_axes *a = &l->kronecker.axes;
    struct grid ret = {.dims = a->dims, .kronecker = true};
    for (int k = 0; k < a->dims; k++) {
        ret.feature[k] = a->feature[k];
        ret.size[k] = a->size[k];
    }
    ret = l->way == BY_AXES     ? ret
          : l->way == BY_WINDOW ? l->scattered.cloud.torus.grid
                                : l->torus.grid;
    const double cost = product_cost(l, n, n) + 2.0 * ROW_COST * (double)n;
    ret.share = fmin(cost / ((double)n * (double)n / 2.0), 1.0);
    return ret;
}

static int prepare(struct lattice *l, const struct points *p, struct err *err)
{
    l->numbers = mem_aligned((size_t)l->places, 2 * sizeof(double));
    if (l->numbers == NULL) {
        return err_no_memory(err);
    }
    return l->way == BY_AXES     ? kronecker_prepare(&l->kronecker, p, err)
           : l->way == BY_WINDOW ? scattered_prepare(&l->scattered, p, l->numbers, err)
                                 : torus_prepare(&l->torus, p, l->numbers, err);
}

/* The sets of that type, or all, get the lattice, or it goes. */
static int use(struct backend *be, struct lattice *l, struct points *const *sets, int count,
               struct err *err)
{
    cpu__account(be, l->bytes);
    l->sets = 1; /* this function, until it is done */
    int r = 0;
    const struct points *any = NULL;
    for (int s = 0; r == 0 && s < count; s++) {
        if (l->way != BY_WINDOW || sets[s]->dtype == l->scattered.cloud.dtype) {
            any = sets[s];
            r = settle(be, sets[s], l, err);
        }
    }
    r = r == 0 ? prepare(l, any, err) : r;
    if (--l->sets == 0) {
        cpu__account(be, -l->bytes);
        lattice_free(l);
    }
    return r;
}

/* One for each type that sets are of, or none. Of two types most products are of the one that takes
 * less. */
static int use_windows(struct backend *be, const struct search *s, struct points *const *sets,
                       struct grid *ret, struct err *err)
{
    struct search share = *s;
    int r = 0;
    for (int d = DTYPE_F32; r == 0 && d <= DTYPE_F64; d++) {
        bool any = false;
        for (int i = 0; i < s->count; i++) {
            any |= sets[i]->dtype == (enum dtype)d;
        }
        struct lattice *l = NULL;
        r = any ? find_window(be, &share, sets, (enum dtype)d, &l, err) : 0;
        if (any && l == NULL) {
            ret->dims = 0;
            return r;
        }
        if (any) {
            share.bytes -= l->bytes;
            const double before = ret->dims > 0 ? ret->share : 1.0;
            *ret = grid_of(l, sets[0]->n);
            ret->share = fmin(ret->share, before);
            r = use(be, l, sets, s->count, err);
        }
    }
    return r;
}

/* Of the first set with itself, than by its grid, which leaves nothing out: far less, where the
 * kernel is split. */
static bool window_takes_less(struct backend *be, const struct search *s,
                              struct points *const *sets, const struct lattice *grid)
{
    struct lattice other = {.threads = be->threads};
    const bool exists = try_window(be, s, sets, sets[0]->dtype, &other);
    const double by_grid = product_cost(grid, sets[0]->n, sets[0]->n);
    const double most = other.scattered.splits ? by_grid / 4.0 : by_grid;
    return exists && product_cost(&other, sets[0]->n, sets[0]->n) < most;
}

static void forget_all(struct backend *be, struct points *const *sets, int count)
{
    for (int s = 0; s < count; s++) {
        grid_forget(be, sets[s]);
    }
}

int cpu__points_grid(struct backend *be, struct points *const *sets, int count, int64_t bytes,
                     struct grid *ret, struct err *err)
{
    *ret = (struct grid){.dims = 0};
    forget_all(be, sets, count);
    if (count == 0 || !kernel_uses_distance(sets[0]->kernel.id)) {
        return 0;
    }
    const struct search search = search_of(sets, count, bytes);
    struct lattice *l = NULL;
    int r = find_grid(be, &search, &l, err);
    if (r == 0 && (l == NULL || window_takes_less(be, &search, sets, l))) {
        r = use_windows(be, &search, sets, ret, err);
    }
    if (r < 0 || ret->dims == 0) {
        forget_all(be, sets, count);
    }
    if (r == 0 && l != NULL && ret->dims == 0) {
        *ret = grid_of(l, sets[0]->n);
        r = use(be, l, sets, count, err);
    } else if (l != NULL) {
        lattice_free(l);
    }
    if (r < 0) {
        *ret = (struct grid){.dims = 0};
        forget_all(be, sets, count);
    }
    return r;
}
