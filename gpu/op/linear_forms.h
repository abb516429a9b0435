/* linear_forms.h - the linear layers that the kernels of the bf16 atom compute, single (linear.cc)
 * or of all experts together (experts.cc). */
#ifndef SB_GPU_OP_LINEAR_FORMS_H
#define SB_GPU_OP_LINEAR_FORMS_H

#include "gpu/op/gpu.h"
#include "ref/base/bytes.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* Returns the reason why these kernels cannot compute this layer; NULL: they can. */
static inline const char *sb_linear_refusal(const sb_knobs *knobs, const sb_matrix *weight,
                                            sb_linear_kind kind)
{
    const sb_format input = sb_linear_input_format(knobs, weight, kind);
    if (sb_act_format(knobs) != SB_FORMAT_bf16)
        return "activations are not in bfloat16";
    if (sb_param_cast(knobs, weight))
        return "the knobs round weights";
    if (input != SB_FORMAT_f32 && input != SB_FORMAT_bf16)
        return "its inputs must be rounded to another type than bfloat16";
    return nullptr;
}

/* Y-46: "The input is in bfloat16." Inputs in resident memory need no test: a kernel has rounded
 * them. */
static inline bool sb_linear_is_bf16(const sb_gpu_work &work, const float *x, size_t count)
{
    uint32_t below = 0;
    if (work.resident(x))
        return true;
    for (size_t i = 0; i < count; i++)
        below |= sb_bits_f32(x[i]) & 0xffff;
    return below == 0;
}

#endif
