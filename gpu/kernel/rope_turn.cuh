/* rope_turn.cuh - the rotation of a pair of elements. */
#ifndef SB_GPU_KERNEL_ROPE_TURN_CUH
#define SB_GPU_KERNEL_ROPE_TURN_CUH

#include "gpu/kernel/kernel.h"
#include "gpu/kernel/value.cuh"
#include "gpu/math/trig.h"

/* x c + y s: products and sum are pairs of binary32. The error is at most 2^-46 of the products. */
SB_KERNEL_FN float sb_rope_turn(float x, float c, float y, float s)
{
    const sb_gpu_pair p = sb_gpu_product(x, c), q = sb_gpu_product(y, s);
    const sb_gpu_pair sum = sb_gpu_sum(p.h, q.h);
    return sum.h + (sum.l + (p.l + q.l));
}

/* R-7: "the pair (x_f, x_{f+rd/2}) becomes ( dot of (x_f, -x_{f+rd/2}) with (cos, sin), dot of
 * (x_{f+rd/2}, x_f) with (cos, sin) )" */
template <class T> SB_KERNEL_FN T sb_rope_first(float a, float b, float2 turn)
{
    return sb_narrow<T>(sb_rope_turn(a, turn.x, SB_PLANT(rope_sign) ? b : -b, turn.y));
}
template <class T> SB_KERNEL_FN T sb_rope_second(float a, float b, float2 turn)
{
    return sb_narrow<T>(sb_rope_turn(b, turn.x, a, turn.y));
}

#endif
