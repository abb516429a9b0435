#include "ref/run/call.h"

#include <stdio.h>

#include "ref/base/bytes.h"

void sb_call_fail(sb_call *call, sb_op op, const char *name, sb_status status)
{
    const char *why = call->backend->why ? call->backend->why() : NULL;
    call->status = status;
    if (call->err && call->err->text[0])
        return;
    if (!why || !*why)
        why = status == SB_ERR_MEMORY ? "out of memory" : "";
    sb_fail(call->err, status, "op %s (%s) failed%s%s", sb_op_name(op), name, *why ? ": " : "",
            why);
}

void sb_run_op(sb_call *call, sb_op op, const void *args, const sb_at *at, const sb_value *made)
{
    const sb_op_call one = {.op = op,
                            .layer = call->drafter && call->layer != SB_NO_LAYER ? call->drafter
                                                                                 : call->layer,
                            .name = made->tap,
                            .kind = call->kind,
                            .position = call->position,
                            .rows = call->rows,
                            .row = at ? at->row : 0,
                            .slot = at ? at->slot : 0,
                            .single = at != NULL,
                            .args = args,
                            .knobs = call->knobs,
                            .table = &call->backend->ops,
                            .err = call->err};
    if (call->status)
        return;
    if (call->err)
        call->err->text[0] = '\0';
    const sb_status status = call->hook ? call->hook(call->hook_ctx, &one) : sb_op_run(&one);
    if (status)
        sb_call_fail(call, op, made->tap, status);
    for (; made->data; made++)
        sb_run_tap(call, made->tap, made->data, call->rows, made->cols);
}

/* Adds one to the exponent. This carries into the sign bit only for infinities and NaNs. */
static uint32_t beyond(float x)
{
    return (sb_bits_f32(x) & 0x7fffffffu) + 0x00800000u;
}

/* The loop has no early exit and works on LANES elements at a time, so that it is vectorized. */
static int all_finite(const float *data, size_t n)
{
    enum { LANES = 16 };
    uint32_t any[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            any[l] |= beyond(data[i + l]);
    for (; i < n; i++)
        any[0] |= beyond(data[i]);
    for (size_t l = 1; l < LANES; l++)
        any[0] |= any[l];
    return !(any[0] >> 31);
}

/* S-6: "A value that is not finite in any tap stops the call with the tap, row and column." */
static sb_status check_finite(const sb_call *call, const char *name, const float *data, size_t rows,
                              size_t cols)
{
    if (all_finite(data, rows * cols))
        return SB_OK;
    size_t i = 0;
    while (sb_is_finite_f32(data[i]))
        i++;
    const uint64_t ahead = call->tree ? call->tree->depth[i / cols] : i / cols;
    return sb_fail(call->err, SB_ERR_NUMERIC,
                   "%s: row %zu (position %llu), column %zu is %s (bits %08x); expected a "
                   "finite value",
                   name, i / cols, (unsigned long long)(call->position + ahead), i % cols,
                   data[i] != data[i] ? "NaN" : "infinite", (unsigned)sb_bits_f32(data[i]));
}

void sb_run_tap(sb_call *call, const char *name, float *data, size_t rows, size_t cols)
{
    char full[128];
    if (call->status)
        return;
    const uint32_t trunk = call->model->config.layers;
    if (call->layer == SB_NO_LAYER)
        snprintf(full, sizeof full, "%s", name);
    else if (call->drafter)
        snprintf(full, sizeof full, "drafter.layers.%u.%s", (unsigned)call->layer, name);
    else if (call->layer >= trunk)
        snprintf(full, sizeof full, "mtp.layers.%u.%s", (unsigned)(call->layer - trunk), name);
    else
        snprintf(full, sizeof full, "layers.%u.%s", (unsigned)call->layer, name);
    call->status = check_finite(call, full, data, rows, cols);
    if (!call->status && call->tap)
        call->status = call->tap(call->tap_ctx, full, data, rows, cols, call->err);
}

sb_pager *sb_call_pager(const sb_call *call)
{
    return call->backend->ops.linear == sb_backend_ref()->ops.linear ? call->model->pager : NULL;
}
