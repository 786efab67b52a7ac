/* Products with kernels of Euclidean distances. */
#include "gpu/both.cuh"
#include "gpu/keep.cuh"
#include "gpu/product.cuh"

extern "C" {

int launch_sums_l2(void *stream, const struct launch_sums *sums)
{
    return sums->tiles.kernel.tensor ? start_sums<FORM_L2_TENSOR>(*sums, stream)
                                     : start_sums<FORM_L2>(*sums, stream);
}

int launch_both_l2(void *stream, const struct launch_both *both)
{
    return both->tiles.kernel.tensor ? start_both<FORM_L2_TENSOR>(*both, stream)
                                     : start_both<FORM_L2>(*both, stream);
}

int launch_keep_l2(void *stream, const struct launch_both *both, int64_t first, int64_t count)
{
    return both->tiles.kernel.tensor ? start_keep<FORM_L2_TENSOR>(*both, first, count, stream)
                                     : start_keep<FORM_L2>(*both, first, count, stream);
}
}
