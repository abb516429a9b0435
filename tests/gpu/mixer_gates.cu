/* mixer_gates.cu - convolution, delta rule, rotary positions and attention as nvcc sees them: the
 * largest shapes of each, on bfloat16, as large models have them. */
#include "gpu/kernel/attention_parts.cuh"
#include "gpu/kernel/conv.cuh"
#include "gpu/kernel/delta_rule.cuh"
#include "gpu/kernel/rope.cuh"

enum { HD = 256 };
typedef uint16_t act;

sb_status launch_linear_attention(const sb_queue *queue, const sb_conv_job<act> &conv,
                                  const sb_delta_job<act> &delta)
{
    const sb_status statuses[] = {
        SB_LAUNCH(queue, (sb_conv_kernel<act, 4>), 1, SB_CONV_THREADS, 0, conv),
        SB_LAUNCH(queue, (sb_delta_rule_kernel<act, 32>), 1, SB_DELTA_THREADS, 0, delta),
        SB_LAUNCH(queue, (sb_delta_rule_kernel<act, 64>), 1, SB_DELTA_THREADS, 0, delta),
        SB_LAUNCH(queue, (sb_delta_rule_kernel<act, 128>), 1, SB_DELTA_THREADS, 0, delta),
    };
    for (const sb_status status : statuses)
        if (status != SB_OK)
            return status;
    return SB_OK;
}

sb_status launch_rope(const sb_queue *queue, const sb_rope_positions &positions,
                      sb_global<const float> frequency, sb_global<float2> table, sb_global<act> x)
{
    const sb_status status = SB_LAUNCH(queue, sb_rope_table_kernel, 1, SB_ROPE_THREADS, 0,
                                       positions, frequency, table, 1, 32);
    if (status != SB_OK)
        return status;
    return SB_LAUNCH(queue, sb_rope_kernel<act>, 1, SB_ROPE_THREADS, 0, x, table, 1, 16, HD, 32);
}

template <class KV>
static sb_status attend(const sb_queue *queue, const sb_attention_job<act, KV> &job)
{
    constexpr size_t bytes = sb_attention_bytes<HD>();
    static_assert(bytes <= 101376, "more shared memory than a block of the target may have");
    const sb_status statuses[] = {
        SB_LAUNCH(queue, (sb_attention_kernel<act, KV, HD, false>), 1, SB_ATTENTION_THREADS, bytes,
                  job),
        SB_LAUNCH(queue, (sb_attention_kernel<act, KV, HD, true>), 1, SB_ATTENTION_THREADS, bytes,
                  job),
        SB_LAUNCH(queue, (sb_attention_parts_kernel<act, KV, HD>), 1, HD, 0, job),
    };
    for (const sb_status status : statuses)
        if (status != SB_OK)
            return status;
    return SB_OK;
}

sb_status launch_attention(const sb_queue *queue, const sb_attention_job<act, uint16_t> &plain,
                           const sb_attention_job<act, uint8_t> &narrow)
{
    const sb_status status = attend(queue, plain);
    return status != SB_OK ? status : attend(queue, narrow);
}
