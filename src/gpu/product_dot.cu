/* Products with kernels of inner products. */
#include "gpu/both.cuh"
#include "gpu/keep.cuh"
#include "gpu/product.cuh"

extern "C" {

int launch_sums_dot(void *stream, const struct launch_sums *sums)
{
    return start_sums<FORM_DOT>(*sums, stream);
}

int launch_both_dot(void *stream, const struct launch_both *both)
{
    return start_both<FORM_DOT>(*both, stream);
}

int launch_keep_dot(void *stream, const struct launch_both *both, int64_t first, int64_t count)
{
    return start_keep<FORM_DOT>(*both, first, count, stream);
}
}
