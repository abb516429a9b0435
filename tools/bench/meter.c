#include "tools/bench/meter.h"

#include <string.h>

#include "ref/base/text.h"
#include "ref/formats/format.h"
#include "tools/bench/rounding.h"

static const char *const names[SB_BENCH_KINDS] = {
    "experts",           "shared expert", "router", "attention projections",
    "delta projections", "dense",         "head",   "attention",
    "delta rule",        "convolution",   "norms",  "rest"};

const char *sb_bench_kind_name(sb_bench_kind kind)
{
    return names[kind];
}

uint64_t sb_bench_matrix_bytes(const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    uint64_t bytes = (uint64_t)m->rows * m->cols * sb_format_bits(m->format) / 8;
    if (!sb_matrix_quantized(m))
        return bytes;
    uint64_t bands = (m->rows + q->block_rows - 1) / (q->block_rows ? q->block_rows : 1);
    bytes += bands * q->groups * sb_format_bytes(q->scale_format);
    if (q->zeros != SB_ZEROS_none)
        bytes += (uint64_t)m->rows * q->groups * sb_format_bits(m->format) / 8;
    return bytes;
}

const char *sb_bench_matrix_format(const sb_matrix *m)
{
    return sb_matrix_quantized(m) ? sb_container_name(m->quant.container)
                                  : sb_format_name(m->format);
}

static sb_meter *active;

static sb_bench_row *row_of(sb_meter *m, sb_bench_kind kind, const char *format)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->rows[i].kind == kind && strcmp(m->rows[i].format, format) == 0)
            return &m->rows[i];
    if (m->count == SB_BENCH_ROWS)
        return &m->rows[SB_BENCH_ROWS - 1];
    m->rows[m->count] = (sb_bench_row){.kind = kind, .format = format};
    return &m->rows[m->count++];
}

static sb_bench_kind kind_of_linear(const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    if (a->kind == SB_LINEAR_head)
        return SB_BENCH_head;
    if (a->kind == SB_LINEAR_router)
        return SB_BENCH_router;
    if (sb_starts(call->name, "linear_attn."))
        return SB_BENCH_delta_linear;
    if (sb_starts(call->name, "self_attn."))
        return SB_BENCH_attention_linear;
    if (sb_starts(call->name, "mlp.shared_expert"))
        return SB_BENCH_shared;
    return sb_starts(call->name, "mlp.experts") ? SB_BENCH_experts : SB_BENCH_dense;
}

static sb_bench_kind kind_of(const sb_op_call *call)
{
    switch (call->op) {
    case SB_OP_linear:
        return kind_of_linear(call);
    case SB_OP_attention:
        return SB_BENCH_attention;
    case SB_OP_delta_rule:
    case SB_OP_delta_rule_chunk:
        return SB_BENCH_delta_rule;
    case SB_OP_conv:
        return SB_BENCH_conv;
    case SB_OP_rmsnorm:
    case SB_OP_gated_rmsnorm:
    case SB_OP_l2norm:
        return SB_BENCH_norms;
    default:
        return SB_BENCH_rest;
    }
}

static void count(sb_meter *m, sb_bench_row *row, double seconds, uint64_t bytes)
{
    if (m->checking)
        return;
    row->seconds[m->token] += seconds;
    row->calls++;
    row->bytes += bytes;
    if (m->layer < m->config->layers)
        m->in_layers[m->config->layer_is_full[m->layer] != 0] += seconds;
}

static sb_status check_linear(sb_meter *m, sb_bench_row *row, const sb_knobs *knobs,
                              const sb_linear_args *args)
{
    sb_bench_tried tried = {0};
    if (!m->checking || m->status)
        return m->status;
    m->status = sb_bench_try(knobs, args, m->plant, &tried, &m->err);
    m->plant = 0;
    m->compared += tried.outputs;
    row->tried += tried.asked;
    row->integers += tried.integers;
    row->sent += tried.sent;
    row->exact += tried.exact;
    return m->status;
}

static sb_status hook(void *ctx, const sb_op_call *call)
{
    sb_meter *m = ctx;
    const sb_linear_args *a = call->op == SB_OP_linear ? call->args : NULL;
    sb_bench_row *row = row_of(m, kind_of(call), a ? sb_bench_matrix_format(a->weight) : "");
    double start = sb_bench_now();
    m->layer = call->layer;
    sb_status status = sb_op_run(call);
    count(m, row, sb_bench_now() - start, a ? sb_bench_matrix_bytes(a->weight) : 0);
    return status || !a ? status : check_linear(m, row, call->knobs, a);
}

static sb_status check_experts(sb_meter *m, sb_bench_row *row, const sb_knobs *knobs,
                               const sb_expert_linear_args *all)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < all->rows * all->kept && m->checking && !status; i++) {
        const sb_matrix *w = sb_expert_weight(all, all->ids[i]);
        sb_linear_args one = {.weight = w,
                              .kind = all->kind,
                              .in = all->in + i / all->each * w->cols,
                              .rows = 1,
                              .out = all->out + i * w->rows};
        status = check_linear(m, row, knobs, &one);
    }
    return status;
}

static sb_status experts(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    sb_meter *m = active;
    sb_bench_row *row = row_of(m, SB_BENCH_experts, sb_bench_matrix_format(args->weight));
    uint64_t bytes = 0;
    const double start = sb_bench_now();
    sb_status status = m->ref->experts(knobs, args, n);
    const double seconds = sb_bench_now() - start;
    if (status)
        return status;
    for (size_t p = 0; p < n; p++)
        bytes += args[p].rows * args[p].kept * sb_bench_matrix_bytes(args[p].weight);
    count(m, row, seconds, bytes);
    for (size_t p = 0; p < n && !status; p++)
        status = check_experts(m, row, knobs, &args[p]);
    return status;
}

void sb_meter_start(sb_meter *m, const sb_model *model, int plant, sb_session_options *options)
{
    *m = (sb_meter){.ref = sb_backend_ref(),
                    .backend = *sb_backend_ref(),
                    .config = &model->config,
                    .layer = SB_NO_LAYER,
                    .plant = plant};
    if (m->backend.experts)
        m->backend.experts = experts;
    active = m;
    *options = (sb_session_options){
        .backend = &m->backend, .hook = hook, .hook_ctx = m, .hook_skips_experts = 1};
}

void sb_meter_token(sb_meter *m, size_t token)
{
    m->token = token;
    m->in_layers[0] = m->in_layers[1] = 0;
    for (size_t i = 0; i < m->count; i++) {
        m->rows[i].calls = m->rows[i].bytes = 0;
        m->rows[i].seconds[token] = 0;
    }
}
