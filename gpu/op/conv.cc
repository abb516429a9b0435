#include "gpu/kernel/conv.cuh"
#include "gpu/op/gpu.h"

enum { TAPS = 4 }; /* of every model there is */

sb_status sb_gpu_conv(sb_gpu *gpu, const sb_knobs *, const sb_conv_args *args)
{
    const size_t channels = args->weight->rows, rows = args->rows, kept = (TAPS - 1) * channels;
    sb_gpu_work work(gpu);
    if (args->weight->cols != TAPS)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a convolution of %u taps, not %d",
                       args->weight->cols, TAPS);
    sb_conv_job<float> job = {};
    job.in = work.in("in", args->in, rows * channels);
    job.weight = work.values("weight", args->weight);
    job.state = work.in("state", args->state, kept);
    job.next = work.out("next", args->state, kept);
    if (args->trail)
        job.trail = work.out("trail", args->trail, rows * kept);
    job.out = work.out("out", args->out, rows * channels);
    job.rows = static_cast<uint32_t>(rows);
    job.channels = static_cast<uint32_t>(channels);
    const dim3 grid(sb_gpu_blocks(channels, SB_CONV_THREADS), sb_gpu_blocks(rows, SB_CONV_ROWS));
    SB_GPU_RUN(work, (sb_conv_kernel<float, TAPS>), grid, SB_CONV_THREADS, 0, job);
    return work.finish();
}
