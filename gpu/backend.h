/* backend.h - the table of a backend, included by backend_emu.cc and backend_gpu.cu. `opened`
 * returns the body, which is made when the first op runs. */
#ifndef SB_GPU_BACKEND_H
#define SB_GPU_BACKEND_H

#include "gpu/gpu.h"
#include "gpu/op/draw.h"
#include "gpu/op/experts.h"

static sb_gpu *body;
static sb_error complaint;
static bool reference; /* the last op was the reference's */

static sb_gpu *opened()
{
    if (!body)
        sb_gpu_open(&body, &complaint);
    return body;
}

/* Every op has kernels: without sb_gpu_<name> the program does not link. */
#define SB_OP(name, clause)                                                                        \
    static sb_status run_##name(const sb_knobs *knobs, const sb_##name##_args *args)               \
    {                                                                                              \
        reference = !sb_gpu_computes(SB_OP_##name, knobs);                                         \
        if (reference)                                                                             \
            return sb_##name##_ref(knobs, args);                                                   \
        return opened() ? sb_gpu_##name(body, knobs, args) : SB_ERR_MEMORY;                        \
    }
#include "ref/ops/ops.def"
#undef SB_OP

/* Y-60: "Each pair of a row and a slot has the bits that its row gets from the linear layer with
 * its expert's weight" */
static sb_status run_experts(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    if (n != 1)
        return SB_ERR_UNSUPPORTED;
    reference = !sb_gpu_computes(SB_OP_linear, knobs);
    if (reference)
        return SB_ERR_UNSUPPORTED;
    return opened() ? sb_gpu_experts(body, knobs, args) : SB_ERR_MEMORY;
}

static sb_gpu *drawing()
{
    reference = false;
    return opened();
}

static sb_status run_greedy(const float *logits, size_t rows, uint32_t n, uint32_t *tokens)
{
    return drawing() ? sb_gpu_greedy(body, logits, rows, n, tokens) : SB_ERR_MEMORY;
}

static sb_status run_draw(const sb_draw_args *args)
{
    return drawing() ? sb_gpu_draw(body, args) : SB_ERR_MEMORY;
}

static sb_status run_judge(const sb_judge_args *args)
{
    return drawing() ? sb_gpu_judge(body, args) : SB_ERR_MEMORY;
}

static sb_status stage(sb_gpu_mode mode, uint64_t *bytes, sb_error *err)
{
    if (!opened())
        return sb_fail(err, SB_ERR_MEMORY, "%s", complaint.text);
    *bytes = sb_gpu_stage(body, mode);
    return SB_OK;
}

static const char *why()
{
    return reference ? nullptr : body ? sb_gpu_said(body)->text : complaint.text;
}

static sb_op_table all_ops()
{
    sb_op_table ops = sb_op_table();
#define SB_OP(name, clause) ops.name = run_##name;
#include "ref/ops/ops.def"
#undef SB_OP
    return ops;
}

static sb_backend backend_of(const char *name)
{
    sb_backend backend = sb_backend();
    backend.name = name;
    backend.ops = all_ops();
    backend.why = why;
    backend.experts = run_experts;
    backend.greedy = run_greedy;
    backend.draw = run_draw;
    backend.judge = run_judge;
    return backend;
}

#endif
