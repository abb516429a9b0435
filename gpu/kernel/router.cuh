/* router.cuh - the choice of experts for a row. */
#ifndef SB_GPU_KERNEL_ROUTER_CUH
#define SB_GPU_KERNEL_ROUTER_CUH

#include "gpu/kernel/reduce.cuh"
#include "gpu/kernel/value.cuh"
#include "gpu/math/fn.h"

enum { SB_ROUTER_EXPERTS = 32 * SB_WARP }; /* a lane has a mask of 32 bits, one per expert */

/* The best expert that is not taken yet; id SB_ROUTER_EXPERTS: none. */
struct sb_best {
    float logit;
    unsigned id;
};

/* R-15: "the lowest index first among equals" */
SB_KERNEL_FN sb_best sb_better(sb_best a, sb_best b)
{
    const bool tie =
        a.logit == b.logit && (SB_PLANT(router_last_of_equals) ? b.id > a.id : b.id < a.id);
    const bool second =
        b.id < SB_ROUTER_EXPERTS && (a.id == SB_ROUTER_EXPERTS || b.logit > a.logit || tie);
    return second ? b : a;
}

SB_KERNEL_FN sb_best sb_best_left(sb_shared<const float> logit, unsigned experts, unsigned taken)
{
    sb_best best = {0.0f, SB_ROUTER_EXPERTS};
    for (unsigned i = threadIdx.x % SB_WARP; i < experts; i += SB_WARP)
        if (!(taken >> i / SB_WARP & 1))
            best = sb_better(best, {logit[i], i});
    for (int with = SB_WARP / 2; with > 0; with /= 2) {
        const float other = __shfl_xor_sync(sb_all_lanes, best.logit, with);
        best = sb_better(best, {other, __shfl_xor_sync(sb_all_lanes, best.id, with)});
    }
    best.id = __shfl_sync(sb_all_lanes, best.id, 0); /* if a logit is NaN, the lanes may disagree */
    return best.id < SB_ROUTER_EXPERTS ? best : sb_best{best.logit, 0};
}

/* R-15: "e_i = exp( RN(l_i - max l) )". Writes them to `e`, and returns their sum in every lane. */
SB_KERNEL_FN float sb_exponentials(sb_shared<const float> logit, unsigned experts,
                                   sb_shared<float> e)
{
    float largest = logit[0], sum = 0.0f;
    for (unsigned i = threadIdx.x % SB_WARP; i < experts; i += SB_WARP) {
        const float x = logit[i];
        largest = x > largest ? x : largest;
    }
    largest = sb_warp_max(largest);
    for (unsigned i = threadIdx.x % SB_WARP; i < experts; i += SB_WARP) {
        const float x = sb_gpu_exp(__fsub_rn(logit[i], largest));
        e[i] = x;
        sum = __fadd_rn(sum, x);
    }
    return sb_warp_sum(sum);
}

/* One warp computes one row, with 2 experts + kept floats of shared memory. IDS is a pointer to
 * global or shared memory. */
template <class IDS>
SB_KERNEL_FN void sb_router_row(sb_global<const float> logits, unsigned experts, unsigned kept,
                                bool renormalise, sb_shared<float> logit, IDS ids,
                                sb_global<float> weights)
{
    const sb_shared<float> e = logit + experts, p = e + experts;
    const unsigned lane = threadIdx.x % SB_WARP;
    for (unsigned i = lane; i < experts; i += SB_WARP)
        logit[i] = logits[i];
    if (!SB_PLANT(router_barrier))
        __syncwarp();
    const float sum = sb_exponentials(logit, experts, e);
    if (!SB_PLANT(router_barrier2))
        __syncwarp();
    unsigned taken = 0;
    float total = 0.0f;
    for (unsigned slot = 0; slot < kept; slot++) {
        const unsigned id = sb_best_left(logit, experts, taken).id;
        if (id % SB_WARP == lane && !SB_PLANT(router_taken_again))
            taken |= 1u << id / SB_WARP;
        const float share = __fdiv_rn(e[id], sum);
        total = __fadd_rn(total, share);
        if (lane == 0) {
            ids[slot] = id;
            p[slot] = share;
        }
    }
    __syncwarp();
    for (unsigned slot = lane; slot < kept; slot += SB_WARP)
        weights[slot] = renormalise ? __fdiv_rn(p[slot], total) : p[slot];
}

/* A warp computes one row. Shared memory: 2 experts + kept floats. */
static __global__ void __launch_bounds__(SB_WARP)
    sb_router_kernel(sb_global<const float> logits, unsigned experts, unsigned kept,
                     unsigned renormalise, sb_global<uint32_t> ids, sb_global<float> weights)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED_DYNAMIC(float, logit);
    const size_t row = blockIdx.x;
    sb_router_row(logits + row * experts, experts, kept, renormalise != 0, logit, ids + row * kept,
                  weights + row * kept);
}

#endif
