/* delta_rule.h - fills the arguments of the kernels, for both forms of the delta rule. */
#ifndef SB_GPU_OP_DELTA_RULE_H
#define SB_GPU_OP_DELTA_RULE_H

#include "gpu/kernel/delta_rule.cuh"
#include "gpu/op/resident.h"

enum : size_t { SB_DELTA_KEYS = 128 }; /* the most elements of a key */

static inline sb_delta_job<float> sb_delta_bring(sb_gpu_work &work, const sb_delta_rule_args *a,
                                                 const sb_gpu_slots *slots)
{
    const size_t rows = a->rows, keys = rows * a->k_heads * a->dk, gates = rows * a->v_heads;
    const size_t state = a->v_heads * a->dk * a->dv, values = a->v_heads * a->dv;
    sb_delta_job<float> job = {};
    if (a->dk > SB_DELTA_KEYS)
        work.did(sb_fail(work.err(), SB_ERR_UNSUPPORTED,
                         "keys of %zu elements, expected at most %zu", a->dk,
                         static_cast<size_t>(SB_DELTA_KEYS)));
    job.q = work.in("q", a->q, keys);
    job.k = work.in("k", a->k, keys);
    job.v = work.in("v", a->v, (rows - 1) * a->v_stride + values);
    job.v_stride = static_cast<uint32_t>(a->v_stride);
    job.g = work.in("g", a->g, gates);
    job.beta = work.in("beta", a->beta, gates);
    job.from = work.in("state", a->state, (slots ? slots->count : 1) * state);
    if (slots)
        job.slot = work.in("slot", slots->slot, 1);
    if (!slots || !a->trail)
        job.to = work.out("next", a->state, (slots ? 2 : 1) * state);
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

#endif
