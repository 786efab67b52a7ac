/* Products with kernels of inner products. */
#include "gpu/both.cuh"
#include "gpu/keep.cuh"
#include "gpu/product.cuh"

extern "C" {

int launch_sums_dot(void *stream, const struct launch_sums *sums)
{
    return sums->tiles.kernel.tensor ? start_sums<FORM_DOT_TENSOR>(*sums, stream)
                                     : start_sums<FORM_DOT>(*sums, stream);
}

int launch_both_dot(void *stream, const struct launch_both *both)
{
    return both->tiles.kernel.tensor ? start_both<FORM_DOT_TENSOR>(*both, stream)
                                     : start_both<FORM_DOT>(*both, stream);
}

int launch_keep_dot(void *stream, const struct launch_both *both, int64_t first, int64_t count)
{
    return both->tiles.kernel.tensor ? start_keep<FORM_DOT_TENSOR>(*both, first, count, stream)
                                     : start_keep<FORM_DOT>(*both, first, count, stream);
}
}
