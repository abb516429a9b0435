#include "gpu/kernel/norm.cuh"
#include "gpu/op/bring.h"
#include "ref/ops/form.h"

sb_status sb_gpu_l2norm(sb_gpu *gpu, const sb_knobs *knobs, const sb_l2norm_args *a)
{
    sb_gpu_work work(gpu);
    const size_t vectors = a->rows * 2 * a->heads;
    const auto at = sb_bring_l2norm(work, a);
    /* K-33: "before queries are scaled", K-16: "R-22 always does as output does" - in these cases
     * queries stay unscaled here */
    const bool rounds = sb_l2norm_rounds(knobs, a->form);
    const float scale =
        sb_scales_output(knobs, a->recurrent) ? 1.0f : sb_gpu_rsqrt(static_cast<float>(a->dk));
    SB_GPU_RUN(work, sb_l2norm_kernel<float>, sb_gpu_blocks(vectors, 1), sb_sum_threads(a->dk), 0,
               at.qkv, a->stride, static_cast<unsigned>(a->heads), a->dk, a->eps,
               static_cast<unsigned>(rounds), scale, at.q, at.k);
    return work.finish();
}
