#include "cpu/grid/near.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/grid/polynomial.h"
#include "cpu/oracle.h"
#include "cpu/tile/isa.h"

/* Cells, as shares of the reach: along the last axis, and along those before. */
#define SIDE_LAST 0.25
#define SIDE 0.5
#define CELLS 4 /* a row at most */
#define LAST (NEAR_DIMS - 1)
#define WORST_FIT 64.0 /* of a polynomial, by what it is to lose */
#define NEAR_RUN 240   /* rows whose sum is of the points' type */
/* Of a census: rows that count their distance to so many others. */
#define CENSUS_ROWS 128
#define CENSUS_OTHERS 16384

_Static_assert(NEAR_TERMS <= (int)POLYNOMIAL_TERMS, "near_lay fits them");

/* ---- the function ---- */

struct between {
    double (*f)(const void *context, double r);
    const void *context;
    double reach;
};

static double value_between(const void *context, double s)
{
    const struct between *b = context;
    return b->f(b->context, 0.5 * (s + 1.0) * b->reach);
}

static double polynomial_at(const struct near_function *f, double s)
{
    double sum = 0.0;
    for (int t = f->terms - 1; t >= 0; t--) {
        sum = sum * s + f->term_f64[t];
    }
    return sum;
}

/* Of the nodes of a fit with more of them. */
static bool is_close(const struct near_function *f, const struct between *b, double loss)
{
    bool close = true;
    for (int i = 0; close && i <= 4 * NEAR_TERMS; i++) {
        const double s = cos(M_PI * i / (4.0 * NEAR_TERMS));
        close = fabs(polynomial_at(f, s) - value_between(b, s)) <= loss;
    }
    return close;
}

/* With the fewest terms. */
static bool fit_within(struct near_function *f, const struct between *b, double loss)
{
    bool close = false;
    for (int n = 4; !close && n <= NEAR_TERMS; n += 2) {
        f->terms = n;
        polynomial_fit(value_between, b, n, f->term_f64);
        close = is_close(f, b, loss);
    }
    return close;
}

/* Many terms are larger than what they add up to: then as well as it goes. */
static bool fit(struct near_function *f, const struct between *b, double loss)
{
    f->reach = b->reach;
    f->scale = 2.0 / b->reach;
    bool close = false;
    for (double most = loss; !close && most <= WORST_FIT * loss; most *= 4.0) {
        close = fit_within(f, b, most);
    }
    for (int t = 0; t < f->terms; t++) {
        f->term_f32[t] = (float)f->term_f64[t];
    }
    return close;
}

/* ---- cells ---- */

static int64_t cell_count(const struct near *s)
{
    int64_t count = 1;
    for (int k = 0; k < NEAR_DIMS; k++) {
        count *= s->cells[k];
    }
    return count;
}

/* No more than the rows could fill: `share` of the sides that are wanted. */
static double lay_cells(struct near *s, const double *length, double reach, double share)
{
    double count = 1.0;
    for (int k = 0; k < NEAR_DIMS; k++) {
        s->side[k] = share * reach * (k == LAST ? SIDE_LAST : SIDE);
        s->cells[k] = (int64_t)fmin(length[k] / s->side[k], 0x1p40) + 1;
        count *= (double)s->cells[k];
    }
    return count;
}

bool near_lay(struct near *ret, const struct near_range *range, double reach, double loss,
              int64_t rows, double (*f)(const void *context, double r), const void *context)
{
    const struct between b = {.f = f, .context = context, .reach = reach};
    double length[NEAR_DIMS] = {0.0};
    *ret = (struct near){.dims = range->dims};
    for (int k = 0; k < range->dims; k++) {
        const int axis = NEAR_DIMS - range->dims + k;
        ret->feature[axis] = range->feature[k];
        ret->origin[axis] = range->least[k];
        length[axis] = range->most[k] - range->least[k];
    }
    double share = 1.0;
    while (lay_cells(ret, length, reach, share) > CELLS * (double)rows) {
        share *= 1.5;
    }
    return fit(&ret->function, &b, loss);
}

/* Of a coordinate, along an axis; those beyond the ends count to the cells there. */
static int64_t cell_at(const struct near *s, int axis, double x)
{
    const double at = (x - s->origin[axis]) / s->side[axis];
    const double most = (double)(s->cells[axis] - 1);
    return (int64_t)(at > 0.0 ? at < most ? at : most : 0.0);
}

static int64_t cell_of(const struct near *s, const struct rows *X, int64_t i)
{
    int64_t cell = 0;
    for (int k = NEAR_DIMS - s->dims; k < NEAR_DIMS; k++) {
        cell = cell * s->cells[k] + cell_at(s, k, rows_at(X, i, s->feature[k]));
    }
    return cell;
}

/* ---- sets ---- */

/* At most: the last of each line of cells may have few rows. */
static int64_t most_blocks(const struct near *s, int64_t n, int lanes)
{
    return n / lanes + cell_count(s) / s->cells[LAST] + 1;
}

int64_t near_set_bytes(const struct near *s, enum dtype dtype, int64_t n)
{
    const int64_t indices = n + cell_count(s) + most_blocks(s, n, 1);
    const int64_t numbers = (s->dims + NEAR_COLS) * (n + NEAR_SPARE);
    return indices * (int64_t)sizeof(int64_t) + numbers * (int64_t)dtype_size(dtype);
}

static int make_room(struct near_set *ret, const struct near *s, int lanes, struct err *err)
{
    const size_t size = dtype_size(ret->dtype);
    ret->ld = ret->n + NEAR_SPARE;
    ret->row = mem_array((size_t)ret->n, sizeof(int64_t));
    ret->first = mem_zarray((size_t)cell_count(s) + 1, sizeof(int64_t));
    ret->block = mem_array((size_t)most_blocks(s, ret->n, lanes) + 1, sizeof(int64_t));
    ret->at = mem_zarray((size_t)(s->dims * ret->ld), size);
    ret->weights = mem_zarray((size_t)(NEAR_COLS * ret->ld), size);
    const bool room = ret->row != NULL && ret->first != NULL && ret->block != NULL &&
                      ret->at != NULL && ret->weights != NULL;
    return room ? 0 : err_no_memory(err);
}

void near_set_deinit(struct near_set *s)
{
    s->row = mem_free(s->row);
    s->first = mem_free(s->first);
    s->block = mem_free(s->block);
    s->at = mem_free(s->at);
    s->weights = mem_free(s->weights);
}

/* Of a set's numbers, at or weights: the k-th from row i on. */
static void *number_of(const struct near_set *set, void *numbers, int64_t k, int64_t i)
{
    return (char *)numbers + (size_t)(k * set->ld + i) * dtype_size(set->dtype);
}

static void put(const struct near_set *set, void *numbers, int64_t k, int64_t i, double value)
{
    void *number = number_of(set, numbers, k, i);
    if (set->dtype == DTYPE_F32) {
        *(float *)number = (float)value;
    } else {
        *(double *)number = value;
    }
}

/* Of a row, along an axis. */
static double coordinate(const struct near *s, const struct near_set *set, int axis, int64_t i)
{
    const void *number = number_of(set, set->at, axis - NEAR_DIMS + s->dims, i);
    return set->dtype == DTYPE_F32 ? (double)*(const float *)number : *(const double *)number;
}

/* first[c + 1] - first[c]: rows in cell c. */
static void count_rows(const struct near *s, const struct rows *X, int64_t *first)
{
    for (int64_t i = 0; i < X->n; i++) {
        first[cell_of(s, X, i) + 1]++;
    }
    for (int64_t c = 0; c < cell_count(s); c++) {
        first[c + 1] += first[c];
    }
}

/* Rows cell by cell, in their own order within each. */
static void sort_rows(const struct near *s, const struct rows *X, struct near_set *ret)
{
    const int64_t cells = cell_count(s);
    count_rows(s, X, ret->first);
    for (int64_t i = ret->n - 1; i >= 0; i--) {
        ret->row[--ret->first[cell_of(s, X, i) + 1]] = i;
    }
    /* first[c + 1] is where cell c begins now. */
    memmove(ret->first, ret->first + 1, (size_t)cells * sizeof *ret->first);
    ret->first[cells] = ret->n;
}

static void cut_blocks(const struct near *s, int lanes, struct near_set *ret)
{
    const int64_t line = s->cells[LAST], cells = cell_count(s);
    ret->blocks = 0;
    for (int64_t c = 0; c < cells; c += line) {
        for (int64_t i = ret->first[c]; i < ret->first[c + line]; i += lanes) {
            ret->block[ret->blocks++] = i;
        }
    }
    ret->block[ret->blocks] = ret->n;
}

int near_sort(const struct near *s, const struct tile_loops *loops, const struct points *p,
              struct near_set *ret, struct err *err)
{
    const struct rows X = points_rows(p);
    ret->dtype = p->dtype;
    ret->n = p->n;
    const int r = make_room(ret, s, loops->narrow, err);
    if (r < 0) {
        near_set_deinit(ret);
        return r;
    }
    sort_rows(s, &X, ret);
    cut_blocks(s, loops->narrow, ret);
    for (int k = 0; k < s->dims; k++) {
        for (int64_t i = 0; i < ret->n; i++) {
            put(ret, ret->at, k, i, rows_at(&X, ret->row[i], s->feature[NEAR_DIMS - s->dims + k]));
        }
    }
    return 0;
}

/* ---- products ---- */

/* What a block's rows lie between, and the cells within reach. */
struct box {
    double least[NEAR_DIMS], most[NEAR_DIMS];
    int64_t first[NEAR_DIMS], last[NEAR_DIMS];
};

static void reach_of_box(const struct near *s, struct box *b)
{
    for (int k = 0; k < NEAR_DIMS; k++) {
        b->first[k] = cell_at(s, k, b->least[k] - s->function.reach);
        b->last[k] = cell_at(s, k, b->most[k] + s->function.reach);
    }
}

static struct box box_of(const struct near *s, const struct near_set *p, int64_t first, int64_t end)
{
    struct box b = {.least = {0.0}};
    for (int k = NEAR_DIMS - s->dims; k < NEAR_DIMS; k++) {
        b.least[k] = INFINITY;
        b.most[k] = -INFINITY;
        for (int64_t i = first; i < end; i++) {
            const double at = coordinate(s, p, k, i);
            b.least[k] = at < b.least[k] ? at : b.least[k];
            b.most[k] = at > b.most[k] ? at : b.most[k];
        }
    }
    reach_of_box(s, &b);
    return b;
}

/* Between the box and a cell, along an axis. */
static double gap(const struct near *s, const struct box *b, int axis, int64_t cell)
{
    const double least = s->origin[axis] + (double)cell * s->side[axis];
    const double before = least - b->most[axis], behind = b->least[axis] - least - s->side[axis];
    return fmax(0.0, fmax(cell > 0 ? before : 0.0, cell < s->cells[axis] - 1 ? behind : 0.0));
}

/* A block of rows on its way through the cells around it. */
struct meeting {
    const struct near *near;
    const struct tile_loops *loops;
    const struct near_set *p, *q;
    struct box box;
    struct near_tile tile;
    double totals[NEAR_COLS * TILE_LANES];
};

/* Rows of q; sums of the points' type are added up in float64 after a few. */
static void meet_rows(struct meeting *m, int64_t first, int64_t end)
{
    const int lanes = m->loops->narrow, dims = m->near->dims;
    for (int64_t i = first; i < end; i += NEAR_RUN) {
        for (int k = 0; k < dims; k++) {
            m->tile.z[k] = number_of(m->q, m->q->at, k, i);
        }
        m->tile.weights = number_of(m->q, m->q->weights, 0, i);
        m->tile.count = min_i64(NEAR_RUN, end - i);
        m->loops->near(&m->tile);
        m->loops->drain(m->tile.sums, lanes, m->tile.cols, m->totals, lanes);
    }
}

/* Lines of cells around a box, and in each the cells from begin to end. */
typedef void line_visit(void *context, int64_t begin, int64_t end);

static void visit_lines(const struct near *s, const struct box *b, line_visit *visit, void *context)
{
    const double square = s->function.reach * s->function.reach;
    for (int64_t i = b->first[0]; i <= b->last[0]; i++) {
        const double apart = gap(s, b, 0, i);
        for (int64_t j = b->first[1]; j <= b->last[1]; j++) {
            const double other = gap(s, b, 1, j), left = square - apart * apart - other * other;
            const double rest = sqrt(fmax(0.0, left));
            const int64_t line = (i * s->cells[1] + j) * s->cells[LAST];
            if (left >= 0.0) {
                visit(context, line + cell_at(s, LAST, b->least[LAST] - rest),
                      line + cell_at(s, LAST, b->most[LAST] + rest) + 1);
            }
        }
    }
}

static void meet_line(void *context, int64_t begin, int64_t end)
{
    struct meeting *const m = context;
    meet_rows(m, m->q->first[begin], m->q->first[end]);
}

/* Columns j .. of Y += a times a block's sums. */
static void multiply_block(struct meeting *m, int64_t block, double a, int64_t j,
                           const struct mat *Y)
{
    const int64_t first = m->p->block[block], end = m->p->block[block + 1];
    const int lanes = m->loops->narrow;
    double sums[NEAR_COLS * TILE_LANES] __attribute__((aligned(TILE_ALIGN))) = {0.0};
    m->box = box_of(m->near, m->p, first, end);
    m->tile.sums = sums;
    for (int k = 0; k < m->near->dims; k++) {
        m->tile.x[k] = number_of(m->p, m->p->at, k, first);
    }
    memset(m->totals, 0, sizeof m->totals);
    visit_lines(m->near, &m->box, meet_line, m);
    for (int c = 0; c < m->tile.cols; c++) {
        for (int64_t i = first; i < end; i++) {
            const int64_t row = m->p->row[i];
            const double sum = m->totals[c * lanes + i - first];
            mat_set(Y, row, j + c, mat_at(Y, row, j + c) + a * sum);
        }
    }
}

static void load_weights(struct near_set *q, int threads, const struct mat *V, int64_t j, int cols)
{
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < q->n; i++) {
        for (int c = 0; c < cols; c++) {
            put(q, q->weights, c, i, mat_at(V, q->row[i], j + c));
        }
    }
}

void near_product(const struct near *s, const struct tile_loops *loops, int threads,
                  const struct near_set *p, struct near_set *q, double a, const struct mat *V,
                  const struct mat *Y)
{
    for (int64_t j = 0; j < V->cols; j += NEAR_COLS) {
        const int cols = (int)min_i64(NEAR_COLS, V->cols - j);
        load_weights(q, threads, V, j, cols);
#pragma omp parallel num_threads(threads)
        {
            cleanup_flush unsigned before = tile_flush_denormals();
            struct meeting m = {.near = s, .loops = loops, .p = p, .q = q};
            m.tile = (struct near_tile){
                .function = &s->function, .dims = s->dims, .cols = cols, .ld = q->ld};
#pragma omp for schedule(dynamic, 16)
            for (int64_t b = 0; b < p->blocks; b++) {
                multiply_block(&m, b, a, j, Y);
            }
        }
    }
}

/* ---- how many there are ---- */

static struct box box_of_cell(const struct near *s, int64_t cell)
{
    struct box b;
    for (int k = LAST; k >= 0; k--) {
        b.least[k] = s->origin[k] + (double)(cell % s->cells[k]) * s->side[k];
        b.most[k] = b.least[k] + s->side[k];
        cell /= s->cells[k];
    }
    reach_of_box(s, &b);
    return b;
}

struct tally {
    const int64_t *first;
    double rows;
};

static void count_line(void *context, int64_t begin, int64_t end)
{
    struct tally *const t = context;
    t->rows += (double)(t->first[end] - t->first[begin]);
}

double near_share(const struct near *s, const struct rows *X)
{
    const int64_t cells = cell_count(s);
    cleanup_mem int64_t *first = mem_zarray((size_t)cells + 1, sizeof *first);
    double pairs = 0.0;
    if (first == NULL) {
        return 1.0;
    }
    count_rows(s, X, first);
    for (int64_t c = 0; c < cells; c++) {
        struct tally t = {.first = first};
        if (first[c + 1] > first[c]) {
            const struct box b = box_of_cell(s, c);
            visit_lines(s, &b, count_line, &t);
        }
        pairs += t.rows * (double)(first[c + 1] - first[c]);
    }
    return pairs / ((double)X->n * (double)X->n);
}

static double square_between(const struct rows *X, int dims, const int64_t *feature, int64_t i,
                             int64_t j)
{
    double sum = 0.0;
    for (int k = 0; k < dims; k++) {
        const double apart = rows_at(X, i, feature[k]) - rows_at(X, j, feature[k]);
        sum += apart * apart;
    }
    return sum;
}

/* Which of census.within a pair counts to, before those behind are added. */
static int rank_of(double longest, double square)
{
    const int k = square > 0.0 ? ilogb(longest * longest / square) : 63;
    return k < 0 ? 0 : k > 63 ? 63 : k;
}

struct census census_take(const struct rows *X, int dims, const int64_t *feature, double longest)
{
    struct census c = {.longest = longest};
    const int64_t rows = min_i64(X->n, CENSUS_ROWS), others = min_i64(X->n, CENSUS_OTHERS);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < others; j++) {
            const double square =
                square_between(X, dims, feature, i * X->n / rows, j * X->n / others);
            c.within[rank_of(longest, square)]++;
            c.total++;
        }
    }
    for (int k = 62; k >= 0; k--) {
        c.within[k] += c.within[k + 1];
    }
    return c;
}

/* Cells reach beyond, by half a side here and there. */
static double reach_of_cells(int dims, double reach)
{
    return reach * (dims == 1 ? 1.0 + SIDE_LAST : dims == 2 ? 1.5 : 1.5);
}

double census_share(const struct census *c, int dims, double reach)
{
    const double at = 2.0 * log2(c->longest / reach_of_cells(dims, reach));
    const int k = at > 0.0 ? at < 62.0 ? (int)at : 62 : 0;
    const double part = fmin(1.0, fmax(0.0, at - k));
    return (c->within[k] * (1.0 - part) + c->within[k + 1] * part) / c->total;
}
