/*
 * S <- Phi K(P,Q) (+ S), Phi sparse with a few signs a column. A task is a panel of Q's rows: P's
 * rows pass by in runs, and each of their values is added to the few rows of S that Phi names,
 * which are kept for the panel in float64. Tasks share nothing, so the bits do not depend on
 * threads.
 *
 * Memory: for each thread phi->rows x panel numbers.
 */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_oracle.h"

#define SUMS_BYTES (32L << 20) /* of all threads; narrow panels beyond */

struct sketch {
    struct oracle o; /* its P is the Q of the product: panels are of Q */
    const struct sign_sketch *phi;
    const struct mat *S;
    bool add;
    int lanes, run;
};

struct buffers {
    double *sums; /* [rows][lanes] */
    char *panel;  /* T[ld][lanes] */
    char *K;      /* T[TILE_RUN][lanes] */
    struct run_rows *rows;
};

static size_t whole_lines(size_t bytes)
{
    return (bytes + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN;
}

/* `base` NULL measures it. */
static size_t lay_out(const struct sketch *s, char *base, struct buffers *ret)
{
    const size_t lanes = (size_t)s->lanes * sizeof(double);
    const size_t sums = whole_lines((size_t)s->phi->rows * lanes);
    const size_t panel = whole_lines((size_t)(s->o.ld + 1) * lanes);
    const size_t K = TILE_RUN * lanes;
    ret->sums = (double *)(void *)base;
    ret->panel = base + sums;
    ret->K = base + sums + panel;
    ret->rows = (struct run_rows *)(void *)(base + sums + panel + K);
    return sums + panel + K + oracle__run_size(&s->o, s->run);
}

#define ADD_ROW(T)                                                                                 \
    static void add_row_##T(const T *restrict values, int lanes, double sign,                      \
                            double *restrict sums)                                                 \
    {                                                                                              \
        for (int i = 0; i < lanes; i++) {                                                          \
            sums[i] += sign * (double)values[i];                                                   \
        }                                                                                          \
    }
ADD_ROW(float)
ADD_ROW(double)

/* The values of member j of P go where Phi's column j says. */
static void scatter(const struct sketch *s, int64_t j, const void *values, double *sums)
{
    const struct sign_sketch *phi = s->phi;
    for (int k = 0; k < phi->nonzeros; k++) {
        const int64_t at = j * phi->nonzeros + k;
        double *row = sums + phi->index[at] * s->lanes;
        if (s->o.dtype == DTYPE_F32) {
            add_row_float(values, s->lanes, phi->sign[at], row);
        } else {
            add_row_double(values, s->lanes, phi->sign[at], row);
        }
    }
}

static void write_panel(const struct sketch *s, struct group g, const double *sums)
{
    for (int c = 0; c < g.rows; c++) {
        for (int64_t i = 0; i < s->phi->rows; i++) {
            const double before = s->add ? mat_at(s->S, i, g.first + c) : 0.0;
            mat_set(s->S, i, g.first + c, before + s->phi->scale * sums[i * s->lanes + c]);
        }
    }
}

static void run_panel(const struct sketch *s, struct group g, struct buffers *b)
{
    const struct oracle *o = &s->o;
    const size_t row = (size_t)s->lanes * dtype_size(o->dtype);
    memset(b->sums, 0, (size_t)(s->phi->rows * s->lanes) * sizeof(double));
    oracle__load_panel(o, g, b->rows->z, b->panel);
    for (int64_t j = 0; j < o->Q.count; j += s->run) {
        const int count = (int)min_i64(s->run, o->Q.count - j);
        oracle__load_rows(o, j, count, b->rows);
        const struct tile t = {.kernel = &o->kernel,
                               .panel = b->panel,
                               .z = b->rows->z,
                               .d = o->d,
                               .count = count,
                               .K = b->K};
        oracle__values(o, s->lanes, &t, b->rows->far);
        for (int i = 0; i < count; i++) {
            scatter(s, j + i, b->K + (size_t)i * row, b->sums);
        }
    }
    write_panel(s, g, b->sums);
}

int cpu__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                 bool add, const struct mat *S, struct err *err)
{
    struct sketch s = {.phi = phi, .S = S, .add = add};
    const bool fits = S->rows == phi->rows && S->cols == Q.count && sign_sketch_valid(phi, P.count);
    int rc = cpu__expect(fits, "ksketch", err);
    if (rc < 0 || (rc = oracle__init(&s.o, be, Q, P, err)) < 0) {
        return rc;
    }
    const int64_t wide = phi->rows * s.o.loops->wide * (int64_t)sizeof(double) * be->threads;
    s.lanes = wide <= SUMS_BYTES ? s.o.loops->wide : s.o.loops->narrow;
    s.run = oracle__run_rows(&s.o);
    const size_t each = lay_out(&s, NULL, &(struct buffers){0});
    cleanup_mem char *scratch = mem_aligned((size_t)be->threads, each);
    if (scratch == NULL) {
        return err_no_memory(err);
    }
#pragma omp parallel for num_threads(be->threads) schedule(dynamic)
    for (int64_t i = 0; i < Q.count; i += s.lanes) {
        struct buffers b;
        lay_out(&s, scratch + (size_t)omp_get_thread_num() * each, &b);
        const struct group g = {
            .first = i, .rows = (int)min_i64(s.lanes, Q.count - i), .lanes = s.lanes};
        run_panel(&s, g, &b);
    }
    be->kernel_entries += P.count * Q.count;
    return 0;
}
