/* Products with kernels of Euclidean distances. */
#include "gpu/both.cuh"
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
}
