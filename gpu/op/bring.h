/* bring.h - makes the arrays of an op's arguments accessible to kernels. The result of
 * sb_bring_<op>(work, args) has one member for each array among the op's rows of args.def, in the
 * order of the rows. */
#ifndef SB_GPU_OP_BRING_H
#define SB_GPU_OP_BRING_H

#include "gpu/op/gpu.h"

#define SB_ARGS(op) struct sb_##op##_brought {
#define SB_ARGS_END(op)                                                                            \
    }                                                                                              \
    ;
#define SB_INPUT(op, member, rows, cols, stride) const sb_global<const float> member;
#define SB_INPLACE(op, member, rows, cols) const sb_global<float> member;
#define SB_OUTPUT(op, member, rows, cols) const sb_global<float> member;
#define SB_IDS(op, member, count) const sb_global<const uint32_t> member;
#define SB_CHOICE(op, member, rows, cols) const sb_global<uint32_t> member;
#define SB_WEIGHT(op, member) const sb_global<const float> member;
#include "ref/ops/args.def"

#define SB_ARGS(op)                                                                                \
    inline sb_##op##_brought sb_bring_##op(sb_gpu_work &work, const sb_##op##_args *a)             \
    {                                                                                              \
        return                                                                                     \
        {
#define SB_ARGS_END(op)                                                                            \
    }                                                                                              \
    ;                                                                                              \
    }
#define SB_INPUT(op, member, rows, cols, stride)                                                   \
    work.in(#member, a->member, (rows) * static_cast<size_t>(stride)),
#define SB_INPLACE(op, member, rows, cols) work.inout(#member, a->member, (rows) * (cols)),
#define SB_OUTPUT(op, member, rows, cols)                                                          \
    work.out(#member, a->member, (rows) * static_cast<size_t>(cols)),
#define SB_IDS(op, member, count) work.in(#member, a->member, a->count),
#define SB_CHOICE(op, member, rows, cols) work.out(#member, a->member, (rows) * (cols)),
#define SB_WEIGHT(op, member) work.values(#member, a->member),
#include "ref/ops/args.def"

#endif
