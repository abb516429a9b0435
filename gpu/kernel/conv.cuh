/* conv.cuh - the causal convolution in front of the delta rule, its state, and the trail of states.
 *
 * A thread computes a range of rows of one channel, and keeps the last columns in registers. It
 * first reads the columns before its range, from the input or from the state, so that no row
 * depends on how the call is cut. The state is read from one buffer and written to another. */
#ifndef SB_GPU_KERNEL_CONV_CUH
#define SB_GPU_KERNEL_CONV_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/slots.cuh"
#include "gpu/kernel/value.cuh"
#include "gpu/math/exp.h"

constexpr uint32_t SB_CONV_THREADS = 128, SB_CONV_ROWS = 16;

/* T is the type of values between ops. next or trail may be NULL. With a slot, `state` and `next`
 * point to the first of several states (slots.cuh). */
template <class T> struct sb_conv_job {
    sb_global<const T> in;         /* (rows, channels) */
    sb_global<const float> weight; /* (channels, TAPS) */
    sb_global<const T> state;      /* (TAPS - 1, channels) the columns before the call */
    sb_global<T> next;             /* the columns after the last row */
    sb_global<T> trail;            /* (rows, TAPS - 1, channels) the columns after each row */
    sb_global<T> out;              /* (rows, channels) */
    sb_global<const uint32_t> slot;
    uint32_t rows, channels;
};

/* R-4: "columns before the call come from the conv state". Returns column `at`, counted from the
 * first column of the state. */
template <class T, int TAPS>
SB_KERNEL_FN T sb_conv_column(const sb_conv_job<T> &job, uint32_t at, uint32_t channel)
{
    const size_t channels = job.channels;
    if (at < TAPS - 1)
        return job.state[(sb_slot_read(job.slot) * (TAPS - 1) + at) * channels + channel];
    return job.in[(at - (TAPS - 1)) * channels + channel];
}

/* R-4: "s_t = R( silu( c_t ) )", c_t is one chain of fused operations over the taps. */
template <class T, int TAPS>
SB_KERNEL_FN T sb_conv_value(const float (&weight)[TAPS], const T (&window)[TAPS])
{
    float sum = 0.0f;
    for (int tap = 0; tap < TAPS - (SB_PLANT(conv_tail) ? 1 : 0); tap++)
        sum = __fmaf_rn(weight[tap], sb_wide(window[tap]), sum);
    return sb_narrow<T>(SB_PLANT(conv_silu) ? sum : sb_gpu_silu(sum));
}

/* R-4: "the new conv state is the last kw-1 columns of u" */
template <class T, int TAPS>
SB_KERNEL_FN void sb_conv_keep(sb_global<T> to, const T (&window)[TAPS], uint32_t channels,
                               uint32_t channel)
{
    const int first = SB_PLANT(conv_state) ? 0 : 1;
    for (int tap = 0; tap < TAPS - 1; tap++)
        to[static_cast<size_t>(tap) * channels + channel] = window[tap + first];
}

/* The window of a channel. sb_conv_begin loads the columns before row `first`, each one place above
 * its final place. sb_conv_go_on moves the window down by one place and adds a row. */
template <class T, int TAPS>
SB_KERNEL_FN void sb_conv_begin(const sb_conv_job<T> &job, uint32_t first, uint32_t channel,
                                T (&window)[TAPS])
{
    for (uint32_t tap = 0; tap < TAPS - 1; tap++)
        window[tap + 1] =
            sb_conv_column<T, TAPS>(job, SB_PLANT(conv_stretch) ? tap : first + tap, channel);
}
template <class T, int TAPS>
SB_KERNEL_FN void sb_conv_go_on(const sb_conv_job<T> &job, uint32_t row, uint32_t channel,
                                T (&window)[TAPS])
{
    for (int tap = 0; tap < TAPS - 1; tap++)
        window[tap] = window[tap + 1];
    window[TAPS - 1] = job.in[static_cast<size_t>(row) * job.channels + channel];
}
/* Writes the state after a row to `trail`, and the state after the last row to `next`, unless the
 * pointer is NULL. */
template <class T, int TAPS>
SB_KERNEL_FN void sb_conv_keep_row(const sb_conv_job<T> &job, uint32_t row, uint32_t channel,
                                   const T (&window)[TAPS])
{
    const size_t size = static_cast<size_t>(TAPS - 1) * job.channels;
    if (job.trail)
        sb_conv_keep<T, TAPS>(job.trail + row * size, window, job.channels, channel);
    if (job.next && row + 1 == job.rows)
        sb_conv_keep<T, TAPS>(job.next + sb_slot_written(job.slot) * size, window, job.channels,
                              channel);
}
template <class T, int TAPS>
SB_KERNEL_FN void sb_conv_weights(const sb_conv_job<T> &job, uint32_t channel,
                                  float (&weight)[TAPS])
{
    for (int tap = 0; tap < TAPS; tap++)
        weight[tap] = job.weight[static_cast<size_t>(channel) * TAPS + static_cast<size_t>(tap)];
}

template <class T, int TAPS>
static __global__ void __launch_bounds__(SB_CONV_THREADS) sb_conv_kernel(const sb_conv_job<T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t channel = blockIdx.x * SB_CONV_THREADS + threadIdx.x;
    const uint32_t first = blockIdx.y * SB_CONV_ROWS, left = job.rows - first;
    const uint32_t rows = left < SB_CONV_ROWS ? left : SB_CONV_ROWS;
    float weight[TAPS];
    T window[TAPS];
    if (channel >= job.channels)
        return;
    sb_conv_weights<T, TAPS>(job, channel, weight);
    sb_conv_begin<T, TAPS>(job, first, channel, window);
    for (uint32_t row = first; row < first + rows; row++) {
        sb_conv_go_on<T, TAPS>(job, row, channel, window);
        job.out[static_cast<size_t>(row) * job.channels + channel] =
            sb_conv_value<T, TAPS>(weight, window);
        sb_conv_keep_row<T, TAPS>(job, row, channel, window);
    }
}

#endif
