/* experts_lowbit.cc - experts with quantized inputs, W8A8 and W4A4. */
#include "gpu/kernel/experts_act.cuh"
#include "gpu/kernel/wide_lowbit.cuh"
#include "gpu/op/experts_pairs.h"
#include "gpu/op/lowbit_forms.h"

struct expert_weights {
    sb_lowbit_shape shape;
    float2 factor[SB_ROUTE_EXPERTS]; /* for each expert: weight and input */
    float divisor[SB_ROUTE_EXPERTS]; /* for each expert: input only */
    bool one_input;                  /* all divisors are equal */
};

static bool alike(const sb_lowbit_shape &s, const sb_lowbit_shape &t)
{
    return s.rows == t.rows && s.cols == t.cols && s.bits == t.bits && s.unit == t.unit &&
           s.steps == t.steps && s.units == t.units && s.grouped == t.grouped;
}

static bool same_factor(sb_factor a, sb_factor b)
{
    return a.kind == b.kind &&
           (a.kind == SB_NO_FACTOR || !(a.value < b.value || b.value < a.value));
}

/* SB_ERR_UNSUPPORTED: the shapes differ, or a single layer would be refused. */
static sb_status find_weights(const sb_knobs *knobs, const sb_expert_linear_args *a,
                              sb_act_scheme scheme, expert_weights *out)
{
    out->one_input = true;
    for (size_t e = 0; e < a->experts; e++) {
        const sb_matrix *w = sb_expert_weight(a, e);
        sb_lowbit_shape own;
        if (lowbit_refusal(knobs, w, scheme) || sb_lowbit_pack_shape(w, scheme, &own) != SB_OK)
            return SB_ERR_UNSUPPORTED;
        out->shape = e == 0 ? own : out->shape;
        if (!alike(out->shape, own))
            return SB_ERR_UNSUPPORTED;
        if (!sb_lowbit_factor(w, scheme, &out->factor[e].x, &out->factor[e].y))
            return SB_ERR_UNSUPPORTED;
        out->divisor[e] = sb_factor_divisor(w->quant.input);
        out->one_input = out->one_input && same_factor(w->quant.input, a->weight->quant.input);
    }
    return SB_OK;
}

/* Y-62: "If E2M1 inputs of the experts have different factors, it is quantized for each pair" */
static void quantize_pairs(const lowbit_call &c, const sb_expert_linear_args *a,
                           const expert_weights &weights)
{
    const auto ids = c.work->in("ids of pairs", a->ids, c.rows);
    const auto divisor = c.work->constant("factors of inputs", weights.divisor, a->experts);
    const size_t groups = static_cast<size_t>(c.rows) * 4 * sb_lowbit_scale_words(c.shape);
    SB_GPU_RUN(*c.work, sb_expert_act_fp4, sb_gpu_blocks(groups, SB_ACT_THREADS), SB_ACT_THREADS, 0,
               c.in, ids, divisor, c.codes, sb_cast<uint8_t>(c.in_scale), c.shape, c.rows,
               static_cast<uint32_t>(a->each));
}

/* Sets up the weights and buffers of a call. The input has `rows` rows, and its codes have
 * `quantized` rows. */
static void bring(lowbit_call *c, const sb_expert_linear_args *a, const expert_weights &weights,
                  size_t rows, size_t quantized)
{
    const sb_lowbit_shape &shape = c->shape;
    const size_t tile = sb_lowbit_tile_bytes(shape), tiles = sb_lowbit_tiles(shape);
    const size_t scales = sb_lowbit_weight_scales(shape);
    const size_t in_scales =
        shape.bits == 8 ? sb_lowbit_scales(shape) : sb_lowbit_scale_words(shape);
    const sb_gpu_matrices all = sb_gpu_matrices_of(a);
    c->rows = static_cast<uint32_t>(quantized);
    c->weight = c->work->kept_all<uint4>("weight", all, sb_lowbit_code_bytes, tiles * tile, tile);
    c->scale = c->work->kept_all<uint32_t>("scales", all, sb_lowbit_scale_bytes, scales * 4,
                                           scales / tiles * 4);
    c->in = c->work->in("in", a->in, rows * shape.cols);
    c->codes = c->work->scratch<uint32_t>("codes", quantized * sb_lowbit_words(shape));
    c->in_scale = c->work->scratch<uint32_t>("scales of the input", quantized * in_scales);
    c->factor = c->work->constant("factors", weights.factor, a->experts);
    c->out = c->work->out("out", a->out, a->rows * a->kept * shape.rows);
}

template <class LAYER>
static void multiply(const lowbit_call &c, const sb_gpu_pairs &pairs, const LAYER &layer)
{
    if (pairs.most == SB_WIDE_ROWS)
        SB_GPU_RUN(*c.work, (sb_wide_lowbit_kernel<LAYER, sb_routed_rows, float>),
                   sb_wide_grid(c.shape.rows, pairs.sets), SB_LINEAR_THREADS,
                   sb_wide_unit_bytes<LAYER>(), layer, pairs.rows, c.out, c.wide);
    else
        sb_gpu_multiply_pairs(*c.work, sb_tile_alone(layer, c.out), 1, pairs,
                              sb_lowbit_tiles(c.shape), c.wide);
}

sb_status sb_gpu_experts_lowbit(sb_gpu_work &work, const sb_knobs *knobs,
                                const sb_expert_linear_args *a, sb_act_scheme scheme,
                                const sb_gpu_given &given)
{
    expert_weights weights;
    lowbit_call c = lowbit_call();
    sb_status status = find_weights(knobs, a, scheme, &weights);
    const bool by_pair = scheme == SB_SCHEME_nvfp4 && !weights.one_input;
    if (!status && scheme == SB_SCHEME_fp8_static && !weights.one_input)
        status = SB_ERR_UNSUPPORTED;
    if (status)
        return status;
    const size_t rows = a->rows * a->kept / a->each;
    c.work = &work;
    c.shape = weights.shape;
    c.wide = sb_linear_stays_wide(knobs, a->kind) != 0;
    bring(&c, a, weights, rows, by_pair ? a->rows * a->kept : rows);
    if (by_pair)
        quantize_pairs(c, a, weights);
    else
        lowbit_quantize(c, scheme, a->weight->quant.input);
    sb_gpu_pairs pairs = sb_gpu_route(work, a, given, sb_wide_fits(c.shape, c.rows, a->experts));
    pairs.rows.each = by_pair ? 1 : pairs.rows.each;
    lowbit_layer(c, scheme, [&](const auto &layer) { multiply(c, pairs, layer); });
    return work.finish();
}
