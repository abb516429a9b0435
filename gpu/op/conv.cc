#include "gpu/kernel/conv.cuh"
#include "gpu/op/resident.h"

enum { TAPS = 4 }; /* in all known models */

/* With slots, the trail is the array of states itself. A thread reads each state before it
 * overwrites the state. This is only true if one block computes all rows of a channel, so a trail
 * has at most SB_CONV_ROWS rows. */
sb_status sb_gpu_conv_slots(sb_gpu *gpu, const sb_conv_args *args, const sb_gpu_slots *slots)
{
    const size_t channels = args->weight->rows, rows = args->rows, kept = (TAPS - 1) * channels;
    sb_gpu_work work(gpu);
    if (args->weight->cols != TAPS)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a convolution of %u taps, expected %d",
                       args->weight->cols, TAPS);
    if (slots && args->trail && rows > SB_CONV_ROWS)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a trail of %zu rows, expected at most %u",
                       rows, SB_CONV_ROWS);
    sb_conv_job<float> job = {};
    job.in = work.in("in", args->in, rows * channels);
    job.weight = work.values("weight", args->weight);
    job.state = work.in("state", args->state, (slots ? slots->count : 1) * kept);
    if (slots)
        job.slot = work.in("slot", slots->slot, 1);
    if (!slots || !args->trail)
        job.next = work.out("next", args->state, (slots ? 2 : 1) * kept);
    if (args->trail)
        job.trail = work.out("trail", args->trail, rows * kept);
    job.out = work.out("out", args->out, rows * channels);
    job.rows = static_cast<uint32_t>(rows);
    job.channels = static_cast<uint32_t>(channels);
    const dim3 grid(sb_gpu_blocks(channels, SB_CONV_THREADS), sb_gpu_blocks(rows, SB_CONV_ROWS));
    SB_GPU_RUN(work, (sb_conv_kernel<float, TAPS>), grid, SB_CONV_THREADS, 0, job);
    return work.finish();
}

sb_status sb_gpu_conv(sb_gpu *gpu, const sb_knobs *, const sb_conv_args *args)
{
    return sb_gpu_conv_slots(gpu, args, nullptr);
}
