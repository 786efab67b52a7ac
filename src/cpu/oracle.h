/* Inside the CPU's kernel oracle: what its files share. */
#pragma once

#include <omp.h>
#include <stdatomic.h>

#include "cpu/cpu.h"

struct cache;

/* Everything a task needs to know; read-only while threads run. */
struct oracle {
    const struct tile_loops *loops;
    struct tile_kernel kernel;
    struct tile_kernel apart; /* by differences, or in fixed point: 1 for equal rows */
    struct view P, Q;
    enum dtype dtype;
    int64_t d, ld;
    int threads;
    struct backend *be;
};

/* Rows of Q on their way into a tile. Memory of oracle__run_size() bytes. */
struct run_rows {
    const void *z[TILE_RUN + TILE_BLOCK];
    unsigned char each[TILE_RUN + TILE_BLOCK]; /* of points.far; 0 for the spare ones */
    const unsigned char *far; /* `each`, or NULL: no row of the run is far, or none is told from the
                                 others; `each` may say nothing then */
    int64_t turned[]; /* [rows][ld] numbers, where rows are turned a run at a time; of float32 two
                         of them in one place */
};

/* A panel's worth of rows of P. */
struct group {
    int64_t first; /* member of P */
    int rows;      /* 1 .. lanes */
    int lanes;
};

/* Y <- a K(P,Q) V + b Y for at most TILE_COLS columns. */
struct product {
    struct oracle o;
    double a, b;
    struct mat V, Y;
    enum dtype weights;            /* float32 only when points and vectors are */
    const struct tile_loops *sums; /* the loops of that type */
    const struct cache *cache;     /* of a symmetric product, or NULL */
};

/* A long product asks be->stop at its start, and between its tasks the thread that called the
 * backend does; all threads heed the answer. */
struct halt {
    struct backend *be; /* NULL: nobody is asked */
    struct err *err;
    atomic_int result; /* < 0: what the product returns; Y is then of no use */
    double each;       /* kernel values of a task */
    atomic_llong taken;
};

static inline struct halt oracle__halt(const struct oracle *o, int64_t tasks, struct err *err)
{
    const bool asks = backend_asks(o->be, o->P.count, o->Q.count);
    const int result = asks ? o->be->stop(o->be->stop_context, err) : 0;
    return (struct halt){.be = asks ? o->be : NULL,
                         .err = err,
                         .result = result,
                         .each = (double)o->P.count * (double)o->Q.count / (double)tasks};
}

/* Whether to take another task. A task that was taken is done: others may wait for it. */
static inline bool oracle__goes_on(struct halt *h)
{
    const long long taken = h->be != NULL ? atomic_fetch_add(&h->taken, 1) : 0;
    if (h->be != NULL && omp_get_thread_num() == 0 && atomic_load(&h->result) == 0) {
        h->be->under_way = (int64_t)((double)taken * h->each);
        atomic_store(&h->result, h->be->stop(h->be->stop_context, h->err));
    }
    return atomic_load(&h->result) == 0;
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

int oracle__init(struct oracle *o, struct backend *be, struct view P, struct view Q,
                 struct err *err);
int oracle__product_init(struct product *p, struct backend *be, struct view P, struct view Q,
                         const struct mat *V, const struct mat *Y, struct err *err);

/* Rows of points as a kernel takes them (tile_turns), or as they are where none are kept so. */
static inline const char *oracle__rows(const struct points *p, const struct tile_kernel *k)
{
    const bool kept = p->turned != NULL && p->kernel.by_powers == k->by_powers;
    return tile_turns(k) && kept ? p->turned : p->data;
}

/* Whether rows of Q are turned a run at a time. */
static inline bool oracle__turns_runs(const struct oracle *o)
{
    return tile_turns(&o->kernel) && o->Q.points->turned == NULL;
}

/* Whether tiles of oracle.apart take panels and rows that others do not. */
static inline bool oracle__loads_apart(const struct oracle *o)
{
    return tile_turns(&o->kernel) != tile_turns(&o->apart);
}

/* panel <- the group's rows as the kernel takes them, T[ld][lanes]. Lanes without a row repeat the
 * last one. `rows` has room for a pointer a lane. */
void oracle__load_panel(const struct oracle *o, const struct tile_kernel *k, struct group g,
                        const void **rows, void *panel);

/* Rows of a run that is to be short enough for the memory it takes; TILE_RUN where it takes none.
 */
int oracle__run_rows(const struct oracle *o);

/* What runs of up to so many rows take: whole lines. */
size_t oracle__run_size(const struct oracle *o, int rows);

/* Members first .. first+count-1 of Q as the kernel takes them, and the spare rows a tile asks for.
 */
void oracle__load_rows(const struct oracle *o, const struct tile_kernel *k, int64_t first,
                       int count, struct run_rows *ret);

/* How many rows of Q there are from member `first` on to where a run may begin: with a block of the
 * points, where far ones are told from others (points.far). */
static inline int oracle__rows_to_block(const struct oracle *o, int64_t first)
{
    const int step = o->loops->step;
    const bool any = o->Q.points->far == NULL || o->Q.index != NULL;
    return any ? 0 : (int)((step - (o->Q.first + first) % step) % step);
}

/* Brings a run's far rows behind the others, with their weights W[cols][TILE_RUN]: an index mixes
 * rows that blocks of the points keep apart. */
void oracle__near_first(const struct product *p, int count, struct run_rows *rows, void *weights);

/* weights[c * ld ..] <- V(first .. first+count-1, c), and 0 up to `padded` numbers. */
void oracle__load_weights(const struct product *p, int64_t first, int count, int padded, int ld,
                          void *weights);

/* Where tiles leave them to weights and sums (tile_kernel.by_factor): W[count], of members first ..
 * first+count-1 of Q; and weights of those, times them. */
void oracle__load_factors(const struct product *p, int64_t first, int count, void *ret);
void oracle__factor_weights(const struct product *p, int count, const void *factors, int ld,
                            void *weights);

/* One tile of the product; `far` is that of its rows. */
void oracle__run(const struct product *p, enum tile_use use, int lanes, const struct tile *t,
                 const unsigned char *far);

/* t->K <- the tile's kernel values. */
void oracle__values(const struct oracle *o, int lanes, const struct tile *t,
                    const unsigned char *far);

/* Y(first .. first+rows-1, c) <- a totals[c * ld + i] + b Y. */
void oracle__write(const struct product *p, int64_t first, int64_t rows, const double *totals,
                   int64_t ld);

/* cpu/plain.c: any product. Sums of so many runs of TILE_RUN rows of Q are added up, then these. */
#define PLAIN_CHUNK 34
int oracle__plain_product(const struct product *p, struct err *err);

/* cpu/symmetric.c: the product when P and Q are the same view of n points. How many of `cols`
 * columns it takes at a time: as many as its sums have room for, or 0 when the plain product is no
 * slower. `sums` is the type of Y. */
int64_t oracle__symmetric_cols(int64_t n, int wide, enum dtype sums, int64_t cols);

/* How the rows of a symmetric product are cut: task s * blocks + I is blocks I and J = I + s. */
struct symmetric_grid {
    int64_t n, block, blocks, tasks; /* block: rows, a multiple of the panel's width */
};
struct symmetric_task {
    int64_t step, I, J;
    int64_t first, end, z_first, z_end; /* rows of I and of J */
};
struct symmetric_grid oracle__symmetric_grid(int64_t n, int64_t wide);
struct symmetric_task oracle__symmetric_task(const struct symmetric_grid *g, int64_t task);

int oracle__symmetric_product(struct product *p, struct err *err);
/* Bytes that each thread works in. */
size_t oracle__symmetric_scratch(const struct product *p);

/* cpu/normal.c: the same of K' diag(w) K V. */
size_t oracle__normal_scratch(const struct product *p);
