#include "gpu/kernel/delta_rule.cuh"
#include "gpu/op/gpu.h"

template <int DK> static void run(sb_gpu_work &work, const sb_delta_job<float> &job)
{
    const dim3 grid(sb_gpu_blocks(job.dv, SB_DELTA_COLUMNS), job.v_heads);
    SB_GPU_RUN(work, (sb_delta_rule_kernel<float, DK>), grid, SB_DELTA_THREADS, 0, job);
}

static sb_delta_job<float> bring(sb_gpu_work &work, const sb_delta_rule_args *a)
{
    const size_t rows = a->rows, keys = rows * a->k_heads * a->dk, gates = rows * a->v_heads;
    const size_t state = a->v_heads * a->dk * a->dv, values = a->v_heads * a->dv;
    sb_delta_job<float> job = {};
    job.q = work.in("q", a->q, keys);
    job.k = work.in("k", a->k, keys);
    job.v = work.in("v", a->v, (rows - 1) * a->v_stride + values);
    job.v_stride = static_cast<uint32_t>(a->v_stride);
    job.g = work.in("g", a->g, gates);
    job.beta = work.in("beta", a->beta, gates);
    job.from = work.in("state", a->state, state);
    job.to = work.out("next", a->state, state);
    if (a->trail)
        job.trail = work.out("trail", a->trail, rows * state);
    job.out = work.out("out", a->out, rows * values);
    job.rows = static_cast<uint32_t>(rows);
    job.k_heads = static_cast<uint32_t>(a->k_heads);
    job.v_heads = static_cast<uint32_t>(a->v_heads);
    job.dk = static_cast<uint32_t>(a->dk);
    job.dv = static_cast<uint32_t>(a->dv);
    return job;
}

sb_status sb_gpu_delta_rule(sb_gpu *gpu, const sb_knobs *, const sb_delta_rule_args *args)
{
    sb_gpu_work work(gpu);
    if (args->dk > 128)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "keys of %zu elements, more than 128",
                       args->dk);
    const sb_delta_job<float> job = bring(work, args);
    if (args->dk <= 32)
        run<32>(work, job);
    else if (args->dk <= 64)
        run<64>(work, job);
    else
        run<128>(work, job);
    return work.finish();
}
