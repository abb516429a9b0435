/* delta_rule_chunk.cc - the delta rule of a prompt in chunks of 64 rows, in the form of R-22. */
#include "gpu/kernel/delta_carry.cuh"
#include "gpu/math/rsqrt.h"
#include "gpu/op/delta_rule.h"
#include "ref/ops/form.h"

template <int DK, int N> static void run(sb_gpu_work &work, sb_chunk_job<float> job)
{
    const size_t places = static_cast<size_t>(job.call.v_heads) * job.chunks;
    const size_t lanes = 32, of_keys = job.keys / 16 * SB_CHUNK_TILES * lanes;
    const size_t kept = static_cast<size_t>(job.call.k_heads) * job.chunks * of_keys;
    const dim3 chunks(job.chunks, job.call.v_heads);
    const dim3 columns(job.columns / SB_CARRY_COLUMNS, job.call.v_heads);
    job.factors = work.scratch<float2>("factors", places * SB_CHUNK_ROWS);
    job.u = work.scratch<uint4>("U", places * (job.columns / 16) * SB_CHUNK_TILES * lanes);
    job.w = work.scratch<uint4>("W", places * of_keys);
    job.p = work.scratch<uint4>("P", places * SB_CHUNK_OF_P * lanes);
    if (N == 1) {
        job.q = work.scratch<uint4>("queries", kept);
        job.k = work.scratch<uint4>("keys", kept);
    }
    SB_GPU_RUN(work, (sb_delta_chunk_kernel<float, N>), chunks, SB_CHUNK_THREADS, 0, job);
    SB_GPU_RUN(work, (sb_delta_carry_kernel<float, DK, N>), columns, SB_CHUNK_THREADS, 0, job);
}

template <int N> static void run_keys(sb_gpu_work &work, const sb_chunk_job<float> &job)
{
    if (job.call.dk <= 64)
        run<64, N>(work, job);
    else
        run<128, N>(work, job);
}

/* True if all values are bfloat16. Values in resident memory need no test: the norm has written and
 * rounded them. */
static bool is_bf16(const sb_gpu_work &work, const float *x, size_t count)
{
    uint32_t below = 0;
    if (work.resident(x))
        return true;
    for (size_t i = 0; i < count; i++)
        below |= sb_gpu_bits(x[i]) & 0xffff;
    return below == 0;
}

/* True if pairs of elements are aligned. Copied arrays start at the beginning of a buffer; resident
 * arrays may start anywhere. */
static bool in_pairs(const sb_delta_rule_chunk_args *a)
{
    const uintptr_t all = reinterpret_cast<uintptr_t>(a->q) | reinterpret_cast<uintptr_t>(a->k) |
                          reinterpret_cast<uintptr_t>(a->out);
    return a->dk % 2 == 0 && a->dv % 2 == 0 && all % (2 * sizeof(float)) == 0;
}

/* If the knobs round queries and keys to bfloat16, each is one operand of the atom; otherwise each
 * is split into three. The choice changes no bit. */
sb_status sb_gpu_delta_rule_chunk_slots(sb_gpu *gpu, const sb_knobs *knobs,
                                        const sb_delta_rule_chunk_args *a,
                                        const sb_gpu_slots *slots)
{
    sb_gpu_work work(gpu);
    const size_t keys = a->rows * a->k_heads * a->dk;
    sb_chunk_job<float> job = {};
    if (!sb_chunks_are_fla(knobs))
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "the delta rule in chunks of R-10");
    job.call = sb_delta_bring(work, a, slots);
    job.scale = sb_gpu_rsqrt(static_cast<float>(a->dk));
    job.chunks = sb_gpu_blocks(a->rows, SB_CHUNK_ROWS);
    job.columns = sb_gpu_blocks(a->dv, SB_CARRY_COLUMNS) * SB_CARRY_COLUMNS;
    job.keys = sb_gpu_blocks(a->dk, 16) * 16;
    job.pairs = in_pairs(a);
    if (sb_l2norm_rounds(knobs, SB_FORM_prompt) && is_bf16(work, a->q, keys) &&
        is_bf16(work, a->k, keys))
        run_keys<1>(work, job);
    else
        run_keys<3>(work, job);
    return work.finish();
}

sb_status sb_gpu_delta_rule_chunk(sb_gpu *gpu, const sb_knobs *knobs,
                                  const sb_delta_rule_chunk_args *a)
{
    return sb_gpu_delta_rule_chunk_slots(gpu, knobs, a, nullptr);
}
