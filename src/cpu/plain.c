/*
 * Y <- a K(P,Q) V + b Y: which thread computes which tile, and in which order sums are added.
 *
 * The rows of P are cut into bands of wide panels, and one of narrow panels for the rest. The rows
 * of Q are cut into chunks of fixed length. One task sums one band over one chunk; a band's chunk
 * sums are added in order. Neither the number of rows nor the number of threads changes what is
 * added to what, so a row of the product has the same bits always.
 */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/lanes.h"
#include "cpu/sweep.h"
#include "cpu/tile/isa.h"

#define CHUNK (PLAIN_CHUNK * TILE_RUN) /* rows of Q; fixed, see above */
#define PANELS 32 /* of a band; what a row of Q costs to fetch is spread over them */
#define BANDS 16  /* a thread at least, rows permitting, so that all end together */
#define WAVE 8    /* chunks a thread, when threads share a band */

struct plain {
    const struct product *p;
    struct sweep sweep;
    int64_t wide_rows; /* rows of P in wide panels, the last of which may be partly filled */
    int64_t band;      /* rows of a wide band */
    int64_t bands, chunks;
    char *scratch;
    size_t scratch_size; /* bytes a thread */
};

/* What one thread works in. */
struct buffers {
    struct band band;
    double *sums, *totals; /* [cols][band] */
};

static void plain_plan(struct plain *s)
{
    const struct oracle *o = &s->p->o;
    const int64_t n = o->P.count, wide = o->loops->wide, narrow = o->loops->narrow;
    /* The rest takes narrow panels unless they would fill a wide one. */
    s->wide_rows = n % wide > wide - narrow ? n : n / wide * wide;
    const int64_t share = n / wide / (BANDS * o->threads);
    sweep_init(&s->sweep, s->p, TILE_ROWS, share < 1 ? 1 : min_i64(share, PANELS));
    s->band = s->sweep.panels * wide;
    s->bands = ceil_div(s->wide_rows, s->band) + (s->wide_rows < n);
    s->chunks = ceil_div(o->Q.count, CHUNK);
    s->scratch_size = s->sweep.size + 2 * (size_t)(s->sweep.cols * s->band) * sizeof(double);
}

static void buffers_place(const struct plain *s, struct buffers *ret)
{
    char *memory = s->scratch + (size_t)omp_get_thread_num() * s->scratch_size;
    sweep_place(&s->sweep, memory, &ret->band);
    ret->sums = (double *)(void *)(memory + s->sweep.size);
    ret->totals = ret->sums + s->sweep.cols * s->band;
}

static void load_band(const struct plain *s, int64_t i, struct band *b)
{
    const struct oracle *o = &s->p->o;
    const int64_t first = i * s->band;
    if (first < s->wide_rows) {
        sweep_load(&s->sweep, TILE_ROWS, first, min_i64(first + s->band, s->wide_rows),
                   o->loops->wide, b);
    } else {
        sweep_load(&s->sweep, TILE_ROWS, s->wide_rows, o->P.count, o->loops->narrow, b);
    }
}

/* sums <- the band's kernel values times V over one chunk of Q. */
static void sum_chunk(const struct plain *s, int64_t chunk, double *sums, struct buffers *b)
{
    const struct sweep_sums x = {.sums = sums, .ld = s->band};
    memset(sums, 0, (size_t)(s->sweep.cols * s->band) * sizeof *sums);
    sweep_run(&s->sweep, TILE_ROWS, chunk * CHUNK, min_i64((chunk + 1) * CHUNK, s->p->o.Q.count), x,
              x, &b->band);
}

static void add_to(double *restrict totals, const double *restrict sums, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        totals[i] += sums[i];
    }
}

/* Many bands: a thread takes a band over all of Q. */
static void product_by_bands(const struct plain *s, struct halt *halt)
{
    const int64_t n = s->sweep.cols * s->band;
#pragma omp parallel num_threads(s->p->o.threads)
    {
        cleanup_flush unsigned before = tile_flush_denormals();
        struct buffers b;
        buffers_place(s, &b);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < s->bands; i++) {
            if (!oracle__goes_on(halt)) {
                continue;
            }
            load_band(s, i, &b.band);
            memset(b.totals, 0, (size_t)n * sizeof *b.totals);
            for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
                sum_chunk(s, chunk, b.sums, &b);
                add_to(b.totals, b.sums, n);
            }
            oracle__write(s->p, b.band.first, b.band.end - b.band.first, b.totals, s->band);
        }
    }
}

/* Threads share one band's chunks, a wave of them at a time; `sums` has room for one wave,
 * `totals` for the band. */
static void product_of_band(const struct plain *s, int64_t band, int64_t wave, double *sums,
                            double *totals, struct halt *halt)
{
    const int64_t n = s->sweep.cols * s->band;
    int64_t rows = 0, first_row = 0;
    memset(totals, 0, (size_t)n * sizeof *totals);
    for (int64_t first = 0; first < s->chunks && oracle__goes_on(halt); first += wave) {
        const int64_t end = min_i64(first + wave, s->chunks);
#pragma omp parallel num_threads(s->p->o.threads)
        {
            cleanup_flush unsigned before = tile_flush_denormals();
            struct buffers b;
            buffers_place(s, &b);
            load_band(s, band, &b.band);
#pragma omp single
            {
                first_row = b.band.first;
                rows = b.band.end - b.band.first;
            }
#pragma omp for schedule(dynamic)
            for (int64_t chunk = first; chunk < end; chunk++) {
                sum_chunk(s, chunk, sums + (chunk - first) * n, &b);
            }
        }
        for (int64_t chunk = first; chunk < end; chunk++) {
            add_to(totals, sums + (chunk - first) * n, n);
        }
    }
    oracle__write(s->p, first_row, rows, totals, s->band);
}

/* Few bands. */
static int product_by_chunks(const struct plain *s, struct err *err)
{
    const int64_t wave = min_i64(s->chunks, WAVE * s->p->o.threads);
    const size_t n = (size_t)(s->sweep.cols * s->band);
    cleanup_mem double *sums = mem_array((size_t)wave + 1, n * sizeof *sums);
    if (sums == NULL) {
        return err_no_memory(err);
    }
    struct halt halt = oracle__halt(&s->p->o, s->bands * ceil_div(s->chunks, wave), err);
    for (int64_t i = 0; i < s->bands; i++) {
        product_of_band(s, i, wave, sums, sums + (size_t)wave * n, &halt);
    }
    return halt.result;
}

static int product_by_panels(const struct product *p, struct err *err)
{
    struct plain s = {.p = p};
    plain_plan(&s);
    cleanup_mem char *scratch = mem_aligned((size_t)p->o.threads, s.scratch_size);
    if (scratch == NULL) {
        return err_no_memory(err);
    }
    s.scratch = scratch;
    if (s.bands < 2L * p->o.threads && s.chunks > 1) {
        return product_by_chunks(&s, err);
    }
    struct halt halt = oracle__halt(&p->o, s.bands, err);
    product_by_bands(&s, &halt);
    return halt.result;
}

int oracle__plain_product(const struct product *p, struct err *err)
{
    const int64_t few = oracle__few_rows(p);
    struct product many = *p;
    many.o.P.count -= few;
    const int rc = few > 0 ? oracle__few_product(p, few, err) : 0;
    return rc == 0 && many.o.P.count > 0 ? product_by_panels(&many, err) : rc;
}
