/* Products with kernels of Euclidean distances. */
#include "gpu/both.cuh"
#include "gpu/keep.cuh"
#include "gpu/product.cuh"
#include "gpu/short_products.cuh"

extern "C" {

bool launch_takes_short(const struct launch_tiles *tiles, int cols, enum dtype type)
{
    return takes_short(*tiles, cols, type);
}

int launch_sums_l2(void *stream, const struct launch_sums *sums)
{
    const struct launch_kernel *const k = &sums->tiles.kernel;
    if (sums->values == NULL && takes_short(sums->tiles, sums->cols, sums->type)) {
        return start_short_sums(*sums, stream);
    }
    return k->group    ? start_sums<FORM_L2_GROUP>(*sums, stream)
           : k->tensor ? start_sums<FORM_L2_TENSOR>(*sums, stream)
                       : start_sums<FORM_L2>(*sums, stream);
}

int launch_both_l2(void *stream, const struct launch_both *both)
{
    const struct launch_kernel *const k = &both->tiles.kernel;
    if (both->few) {
        return start_short_both(*both, stream);
    }
    return k->group    ? start_both<FORM_L2_GROUP>(*both, stream)
           : k->tensor ? start_both<FORM_L2_TENSOR>(*both, stream)
                       : start_both<FORM_L2>(*both, stream);
}

int launch_keep_l2(void *stream, const struct launch_both *both, int64_t first, int64_t count)
{
    const struct launch_kernel *const k = &both->tiles.kernel;
    return k->group    ? start_keep<FORM_L2_GROUP>(*both, first, count, stream)
           : k->tensor ? start_keep<FORM_L2_TENSOR>(*both, first, count, stream)
                       : start_keep<FORM_L2>(*both, first, count, stream);
}
}
