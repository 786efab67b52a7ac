/* Products with kernels of Euclidean distances. */
#include "gpu/both.cuh"
#include "gpu/keep.cuh"
#include "gpu/product.cuh"

extern "C" {

int launch_sums_l2(void *stream, const struct launch_sums *sums)
{
    return start_sums<FORM_L2>(*sums, stream);
}

int launch_both_l2(void *stream, const struct launch_both *both)
{
    return start_both<FORM_L2>(*both, stream);
}

int launch_keep_l2(void *stream, const struct launch_both *both, int64_t first, int64_t count)
{
    return start_keep<FORM_L2>(*both, first, count, stream);
}
}
