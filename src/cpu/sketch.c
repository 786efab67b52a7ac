/*
 * S <- Phi K(P,Q) (+ S), Phi sparse with a few signs a column. A task is a panel of Q's rows: P's
 * rows pass by in chunks of whole blocks of Phi, and the values of a chunk are mixed and added to
 * the rows of S that Phi names, which are kept for the panel in float64. Tasks share nothing, so
 * the bits do not depend on threads.
 *
 * Memory: for each thread phi->rows x panel numbers and a chunk's values.
 */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/oracle.h"
#include "cpu/tile/isa.h"

#define SUMS_BYTES (32L << 20) /* of all threads; narrow panels beyond */

struct sketch {
    struct oracle o; /* its P is the Q of the product: panels are of Q */
    const struct sign_sketch *phi;
    const struct mat *S;
    bool add;
    int lanes, run;
    int chunk; /* rows of P, whole blocks */
};

struct buffers {
    double *sums; /* [rows][lanes] */
    char *panel;  /* T[ld][lanes] */
    char *K;      /* T[chunk + TILE_BLOCK][lanes] */
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
    const size_t K = whole_lines((size_t)(s->chunk + TILE_BLOCK) * lanes);
    ret->sums = (double *)(void *)base;
    ret->panel = base + sums;
    ret->K = base + sums + panel;
    ret->rows = (struct run_rows *)(void *)(base + sums + panel + K);
    return sums + panel + K + oracle__run_size(&s->o, s->run);
}

/* The values of P's rows first .. first+count-1 with the panel. */
static void values(const struct sketch *s, int64_t first, int64_t count, struct buffers *b, char *K)
{
    const struct oracle *o = &s->o;
    const size_t row = (size_t)s->lanes * dtype_size(o->dtype);
    for (int64_t j = 0; j < count; j += s->run) {
        const int rows = (int)min_i64(s->run, count - j);
        oracle__load_rows(o, &o->kernel, first + j, rows, b->rows);
        const struct tile t = {.kernel = &o->kernel,
                               .panel = b->panel,
                               .z = b->rows->z,
                               .d = o->d,
                               .count = rows,
                               .K = K + (size_t)j * row};
        oracle__values(o, s->lanes, &t, b->rows->far);
    }
}

/* A chunk from number `at` of Phi's blocks on, of which P has the rows from number phi->lead on up
 * to `end`; the others are 0. */
static void mix_chunk(const struct sketch *s, int64_t at, int64_t end, struct buffers *b)
{
    const struct sign_sketch *phi = s->phi;
    const size_t row = (size_t)s->lanes * dtype_size(s->o.dtype);
    const int64_t before = at < phi->lead ? phi->lead - at : 0;
    const int64_t behind = min_i64(s->chunk, end - at);
    const int64_t whole = ceil_div(behind, phi->block) * phi->block;
    values(s, at + before - phi->lead, behind - before, b, b->K + (size_t)before * row);
    memset(b->K, 0, (size_t)before * row);
    memset(b->K + (size_t)behind * row, 0, (size_t)(whole - behind) * row); /* spare rows, too */
    const struct mix_tile t = {.K = b->K,
                               .rows = whole,
                               .lanes = s->lanes,
                               .block = phi->block,
                               .copies = phi->copies,
                               .index = phi->index + at * phi->copies,
                               .sign = phi->sign + at * phi->copies,
                               .flip = phi->flip + at,
                               .sums = b->sums};
    s->o.loops->mix(&t);
}

/* Columns of S, or of S as it was, from a panel's sums. */
#define WRITE(T)                                                                                   \
    static void write_##T(const struct sketch *s, T *S, int cols, const double *sums)              \
    {                                                                                              \
        const int64_t rows = s->phi->rows;                                                         \
        for (int64_t i = 0; i < rows; i += 8) {                                                    \
            const int64_t end = min_i64(i + 8, rows);                                              \
            for (int c = 0; c < cols; c++) {                                                       \
                T *to = S + c * s->S->ld;                                                          \
                for (int64_t k = i; k < end; k++) {                                                \
                    const double before = s->add ? (double)to[k] : 0.0;                            \
                    to[k] = (T)(before + s->phi->scale * sums[k * s->lanes + c]);                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
WRITE(float)
WRITE(double)

static void run_panel(const struct sketch *s, struct group g, struct buffers *b)
{
    const int64_t end = s->o.Q.count > 0 ? s->phi->lead + s->o.Q.count : 0;
    memset(b->sums, 0, (size_t)(s->phi->rows * s->lanes) * sizeof(double));
    oracle__load_panel(&s->o, &s->o.kernel, g, b->rows->z, b->panel);
    for (int64_t at = 0; at < end; at += s->chunk) {
        mix_chunk(s, at, end, b);
    }
    const struct mat S = mat_cols(*s->S, g.first, g.rows);
    if (S.dtype == DTYPE_F32) {
        write_float(s, S.data, g.rows, b->sums);
    } else {
        write_double(s, S.data, g.rows, b->sums);
    }
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
    s.chunk = phi->block > 8 ? TILE_SHORT * phi->block : TILE_RUN;
    const size_t each = lay_out(&s, NULL, &(struct buffers){0});
    cleanup_mem char *scratch = mem_aligned((size_t)be->threads, each);
    if (scratch == NULL) {
        return err_no_memory(err);
    }
#pragma omp parallel for num_threads(be->threads) schedule(dynamic)
    for (int64_t i = 0; i < Q.count; i += s.lanes) {
        cleanup_flush unsigned before = tile_flush_denormals();
        struct buffers b;
        lay_out(&s, scratch + (size_t)omp_get_thread_num() * each, &b);
        const struct group g = {
            .first = i, .rows = (int)min_i64(s.lanes, Q.count - i), .lanes = s.lanes};
        run_panel(&s, g, &b);
    }
    be->kernel_entries += P.count * Q.count;
    return 0;
}
