/*
 * Around products: weights as their tiles want them, shares added up, and which form's file has the
 * product itself.
 */
#include "gpu/both.cuh"
#include "gpu/elements.cuh"
#include "gpu/product.cuh"

namespace {

constexpr int SUM_THREADS = 256;

/* Block x: the x-th tile, a thread a row. */
template <class S, class W> __global__ void lay_weights(struct launch_weights w)
{
    auto &norms = shared<float[S::ZT]>();
    const int64_t first = (int64_t)blockIdx.x * S::ZT, i = first + threadIdx.x;
    const bool there = i < w.Q.count;
    W *to = (W *)w.weights + first * w.V.cols + threadIdx.x;
    for (int64_t c = 0; c < w.V.cols; c++) {
        to[c * S::ZT] = there ? (W)element(w.V, i, c) : (W)0;
    }
    norms[threadIdx.x] = 0;
    if (w.norms && there) {
        const int64_t panel = w.Q.panel + i / PANEL;
        const auto *const data = (const typename S::T *)w.Q.data;
        norms[threadIdx.x] = (float)data[(panel * w.ld + w.d) * PANEL + i % PANEL];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float most = 0;
        for (int k = 0; k < S::ZT; k++) {
            most = fmax(most, norms[k]);
        }
        w.reach[blockIdx.x] = most;
    }
}

template <class S> int start_weights(const struct launch_weights &w, void *stream)
{
    const unsigned grid =
        (unsigned)((w.Q.count + LAUNCH_TILE - 1) / LAUNCH_TILE * (LAUNCH_TILE / S::ZT));
    return w.type == DTYPE_F64 ? start(lay_weights<S, double>, grid, S::ZT, 0, stream, w)
                               : start(lay_weights<S, float>, grid, S::ZT, 0, stream, w);
}

__global__ void add_chunks(struct launch_finish f)
{
    const int64_t rows = f.Y.rows, cols = f.Y.cols;
    const int64_t row = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x, c = blockIdx.y;
    if (row >= rows) {
        return;
    }
    double total = f.first ? 0.0 : f.totals[c * rows + row];
    for (int64_t chunk = 0; chunk < f.chunks; chunk++) {
        total += f.partials[(chunk * cols + c) * rows + row];
    }
    if (!f.last) {
        f.totals[c * rows + row] = total;
        return;
    }
    const int64_t at = row + c * f.Y.ld;
    const bool single = f.Y.dtype == DTYPE_F32;
    float *const y32 = (float *)f.Y.data;
    double *const y64 = (double *)f.Y.data;
    double y = f.a * total;
    if (f.b != 0.0) {
        y = fma(f.b, single ? (double)y32[at] : y64[at], y);
    }
    if (single) {
        y32[at] = (float)y;
    } else {
        y64[at] = y;
    }
}

/* Which sides a block of rows took part with in a step: all with both, but for the diagonal and the
 * last of an even number, where a block is either I or J. */
template <class W> __global__ void add_steps(struct launch_both p, double *totals)
{
    const int64_t row = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x, c = blockIdx.y;
    const int64_t n = p.tiles.P.count, block = row / p.rows;
    if (row >= n) {
        return;
    }
    double total = p.first ? 0.0 : totals[c * n + row];
    for (int s = 0; s < p.steps; s++) {
        const step_shares<W> shares = shares_of<W>(p, s);
        const int64_t step = p.first_step + s, at = c * shares.ld + row;
        const bool half = 2 * step == p.blocks;
        if (!half || block < step) {
            total += (double)shares.I[at];
        }
        if (step != 0 && (!half || block >= step)) {
            total += (double)shares.J[at];
        }
    }
    totals[c * n + row] = total;
}

} // namespace

extern "C" {

int64_t launch_tile_rows(enum dtype dtype, bool group)
{
    return dtype == DTYPE_F64 ? lanes_tile<double>::ZT
           : group            ? group_tile::ZT
                              : lanes_tile<float>::ZT;
}

int64_t launch_tile_bytes(enum dtype dtype)
{
    static_assert(TILE_VALUES<group_tile> == TILE_VALUES<lanes_tile<float>>, "one size for both");
    return dtype == DTYPE_F64 ? TILE_VALUES<lanes_tile<double>> * (int64_t)sizeof(double)
                              : TILE_VALUES<lanes_tile<float>> * (int64_t)sizeof(float);
}

int launch_cols(enum dtype points, enum dtype weights)
{
    return points == DTYPE_F64    ? COLUMNS<double, double>
           : weights == DTYPE_F64 ? COLUMNS<float, double>
                                  : COLUMNS<float, float>;
}

int launch_both_cols(enum dtype points, enum dtype weights)
{
    return points == DTYPE_F64    ? BOTH_COLUMNS<double, double>
           : weights == DTYPE_F64 ? BOTH_COLUMNS<float, double>
                                  : BOTH_COLUMNS<float, float>;
}

int launch_weights(void *stream, const struct launch_weights *weights)
{
    if (weights->group) {
        return start_weights<group_tile>(*weights, stream);
    }
    return weights->dtype == DTYPE_F64 ? start_weights<lanes_tile<double>>(*weights, stream)
                                       : start_weights<lanes_tile<float>>(*weights, stream);
}

int launch_sums(void *stream, const struct launch_sums *sums)
{
    switch (sums->tiles.kernel.form) {
    case FORM_L1:
        return launch_sums_l1(stream, sums);
    case FORM_DOT:
        return launch_sums_dot(stream, sums);
    default:
        return launch_sums_l2(stream, sums);
    }
}

int launch_finish(void *stream, const struct launch_finish *finish)
{
    const unsigned blocks = (unsigned)((finish->Y.rows + SUM_THREADS - 1) / SUM_THREADS);
    return start(add_chunks, dim3(blocks, (unsigned)finish->Y.cols), SUM_THREADS, 0, stream,
                 *finish);
}

static int launch_both_computed(void *stream, const struct launch_both *both)
{
    switch (both->tiles.kernel.form) {
    case FORM_L1:
        return launch_both_l1(stream, both);
    case FORM_DOT:
        return launch_both_dot(stream, both);
    default:
        return launch_both_l2(stream, both);
    }
}

int launch_both(void *stream, const struct launch_both *both)
{
    const struct launch_kept *k = &both->kept;
    const int64_t first = both->first_step * both->blocks, end = first + both->steps * both->blocks;
    const int64_t last = both->blocks * (both->blocks + 1) / 2;
    const bool all = k->slots > 0 && k->slots == k->pairs && first >= k->first_pair &&
                     (end < last ? end : last) <= k->first_pair + k->pairs;
    const int status = k->slots > 0 ? launch_both_kept(stream, both) : 0;
    return status != 0 || all ? status : launch_both_computed(stream, both);
}

int launch_keep(void *stream, const struct launch_both *both, int64_t first, int64_t count)
{
    switch (both->tiles.kernel.form) {
    case FORM_L1:
        return launch_keep_l1(stream, both, first, count);
    case FORM_DOT:
        return launch_keep_dot(stream, both, first, count);
    default:
        return launch_keep_l2(stream, both, first, count);
    }
}

int launch_add_both(void *stream, const struct launch_both *both, double *totals)
{
    const unsigned blocks = (unsigned)((both->tiles.P.count + SUM_THREADS - 1) / SUM_THREADS);
    const dim3 grid(blocks, (unsigned)both->cols);
    return both->type == DTYPE_F64
               ? start(add_steps<double>, grid, SUM_THREADS, 0, stream, *both, totals)
               : start(add_steps<float>, grid, SUM_THREADS, 0, stream, *both, totals);
}
}
