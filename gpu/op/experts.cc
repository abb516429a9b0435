/* experts.cc - the linear layers of all chosen experts in one launch. */
#include "gpu/op/experts_pairs.h"

#include "gpu/kernel/experts.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/kernel/wide_launch.cuh"
#include "gpu/op/linear_forms.h"

/* --- pairs ------------------------------------------------------------------------------------ */
static sb_gpu_pairs routed(sb_gpu_work &work, const sb_expert_linear_args *a, uint32_t most,
                           uint32_t sets, const sb_gpu_choice *c)
{
    const auto order = work.in("order of pairs", c->order, a->rows * a->kept);
    const auto begin = work.in("first pairs", c->begin, a->experts + 1);
    const auto found = work.in("sets of pairs", c->sets, 2 * size_t(sets));
    const auto count = work.in("count of sets", c->count, 1);
    return {{order, begin, sb_cast<const uint2>(found), count, static_cast<uint32_t>(a->each)},
            most,
            sets};
}

sb_gpu_pairs sb_gpu_route(sb_gpu_work &work, const sb_expert_linear_args *a,
                          const sb_gpu_given &given, bool many)
{
    const uint32_t pairs = static_cast<uint32_t>(a->rows * a->kept);
    const uint32_t experts = static_cast<uint32_t>(a->experts), chunks = sb_route_chunks(pairs);
    const uint32_t threads = sb_route_threads(experts);
    const uint32_t most = sb_gpu_set_of(pairs, experts, many);
    const uint32_t sets = sb_route_most(pairs, experts, most);
    if (given.choice)
        return routed(work, a, most, sets, given.choice);
    const auto ids = work.in("ids", a->ids, pairs);
    const auto counts = work.scratch<uint32_t>("counts of pairs", size_t(chunks) * experts);
    const auto order = work.scratch<uint32_t>("order of pairs", pairs);
    const auto begin = work.scratch<uint32_t>("first pairs", experts + 1);
    const auto found = work.scratch<uint2>("sets of pairs", sets);
    const auto count = work.scratch<uint32_t>("count of sets", 1);
    SB_GPU_RUN(work, sb_route_count, chunks, threads, 0, ids, counts, pairs, experts);
    SB_GPU_RUN(work, sb_route_place, 1, threads, 0, counts, begin, found, count, chunks, experts,
               most);
    SB_GPU_RUN(work, sb_route_order, chunks, threads, 0, ids, counts, order, pairs, experts);
    return {{order, begin, found, count, static_cast<uint32_t>(a->each)}, most, sets};
}

/* Checks ids of the host. Ids in resident memory are valid, since the router's kernel has written
 * them. */
static sb_status check_ids(sb_gpu_work &work, const sb_expert_linear_args *a)
{
    if (work.resident(a->ids))
        return SB_OK;
    for (size_t i = 0; i < a->rows * a->kept; i++)
        if (a->ids[i] >= a->experts)
            return sb_fail(work.err(), SB_ERR_USAGE,
                           "row %zu has kept expert %u, expected one below %zu", i / a->kept,
                           a->ids[i], a->experts);
    return SB_OK;
}

/* A limit that keeps the counters of the kernels within 32 bits and the sets within a grid. */
static const size_t most_pairs = size_t(1) << 20; /* pairs of one launch */

static bool fits(const sb_expert_linear_args *a)
{
    return a->experts > 0 && a->experts <= SB_ROUTE_EXPERTS && a->kept > 0 &&
           a->kept <= SB_ROUTE_EXPERTS && a->weight->rows > 0 && a->weight->cols > 0;
}

/* --- inputs in bfloat16 ----------------------------------------------------------------------- */
/* True if one kernel can compute both weights; their factors may differ. */
static bool alike(const sb_matrix *a, const sb_linear_shape &s, const sb_matrix *b,
                  const sb_linear_shape &t)
{
    return s.codes == t.codes && s.rows == t.rows && s.cols == t.cols && s.chunks == t.chunks &&
           s.parts == t.parts && s.shared == t.shared && s.scales == t.scales &&
           s.tile_bytes == t.tile_bytes && s.gathers == t.gathers && s.is_divisor == t.is_divisor &&
           (!s.gathers || (!a->quant.group_index && !b->quant.group_index &&
                           a->quant.block_cols == b->quant.block_cols));
}

/* Finds the common shape of all weights, and the factor of each weight. SB_ERR_UNSUPPORTED: the
 * shapes differ, or the kernels refuse a layer. */
static sb_status find_shape(const sb_knobs *knobs, const sb_expert_linear_args *a,
                            sb_linear_shape *shape, float *factor)
{
    sb_status status = SB_OK;
    for (size_t e = 0; e < a->experts && !status; e++) {
        const sb_matrix *w = sb_expert_weight(a, e);
        sb_linear_shape own;
        status = sb_linear_refusal(knobs, w, a->kind) ? SB_ERR_UNSUPPORTED : sb_pack_shape(w, &own);
        if (status)
            break;
        *shape = e == 0 ? own : *shape;
        factor[e] = own.factor;
        if (!alike(a->weight, *shape, w, own))
            status = SB_ERR_UNSUPPORTED;
    }
    return status;
}

struct expert_call {
    sb_gpu_work *work;
    const sb_gpu_pairs *pairs;
    sb_linear_shape shape;
    sb_global<const uint32_t> inputs;
    unsigned count; /* of layers */
    sb_global<const uint4> weights[2];
    sb_global<const float> factor[2];
    sb_global<float> out[2];
    uint32_t wide;
    float factors[2][SB_ROUTE_EXPERTS];
};

template <int CODES, bool GROUPED> static void multiply(const expert_call &c)
{
    using wide = sb_wide_layer<CODES, GROUPED, false>;
    sb_tile_layers<sb_expert_linear<CODES, GROUPED>, float> layers;
    for (unsigned i = 0; i < 2; i++) {
        wide layer;
        layer.rows = c.shape.rows;
        layer.units = c.shape.chunks;
        layer.shape = c.shape;
        layer.weight = c.weights[i];
        layer.inputs = c.inputs;
        layer.factor = c.factor[i];
        layers.of[i] = layer;
        layers.out[i] = c.out[i];
        if (c.pairs->most == SB_WIDE_ROWS && i < c.count)
            SB_GPU_RUN((*c.work), (sb_wide_kernel<wide, sb_routed_rows, float>),
                       sb_wide_grid(c.shape.rows, c.pairs->sets), SB_LINEAR_THREADS,
                       sb_wide_bytes(CODES, GROUPED), layer, c.pairs->rows, c.out[i], c.wide);
    }
    if (c.pairs->most != SB_WIDE_ROWS)
        sb_gpu_multiply_pairs(*c.work, layers, c.count, *c.pairs, sb_pack_tiles(c.shape), c.wide);
}

template <int CODES> static void multiply_scaled(const expert_call &c)
{
    if (c.shape.parts)
        multiply<CODES, true>(c);
    else
        multiply<CODES, false>(c);
}

static void multiply_codes(const expert_call &c)
{
    switch (c.shape.codes) {
    case SB_CODES_bf16:
        return multiply<SB_CODES_bf16, false>(c);
    case SB_CODES_nvfp4:
        return multiply<SB_CODES_nvfp4, false>(c);
    case SB_CODES_e4m3:
        return multiply_scaled<SB_CODES_e4m3>(c);
    case SB_CODES_e2m1:
        return multiply_scaled<SB_CODES_e2m1>(c);
    case SB_CODES_u4:
        return multiply_scaled<SB_CODES_u4>(c);
    case SB_CODES_u8:
        return multiply_scaled<SB_CODES_u8>(c);
    case SB_CODES_COUNT:
        break;
    }
    c.work->did(SB_ERR_UNSUPPORTED);
}

/* Finds the common shape of c->count projections of all experts, and the factors of their sums.
 * SB_ERR_UNSUPPORTED: no single kernel can compute all projections. */
static sb_status find_layers(const sb_knobs *knobs, const sb_expert_linear_args *a, expert_call *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        sb_linear_shape own = sb_linear_shape();
        const sb_status status = find_shape(knobs, a + i, &own, c->factors[i]);
        if (status)
            return status;
        c->shape = i == 0 ? own : c->shape;
        if (!alike(a->weight, c->shape, a[i].weight, own))
            return SB_ERR_UNSUPPORTED;
    }
    return SB_OK;
}

static sb_global<const uint32_t> stage(sb_gpu_work &work, const sb_expert_linear_args *a,
                                       sb_global<const uint32_t> order,
                                       const sb_linear_shape &shape, size_t inputs)
{
    const size_t staged = inputs * shape.chunks * (SB_CHUNK / 2);
    const auto in = work.in("in", a->in, inputs * a->weight->cols);
    const auto x = work.scratch<uint32_t>("staged", staged);
    SB_GPU_RUN(work, sb_expert_stage<float>, sb_gpu_blocks(staged, 256), 256, 0, in, order, x,
               shape, static_cast<uint32_t>(inputs));
    return x;
}

static sb_status experts_bf16(sb_gpu_work &work, const sb_knobs *knobs,
                              const sb_expert_linear_args *a, unsigned count,
                              const sb_gpu_given &given)
{
    expert_call c = expert_call();
    const size_t inputs = a->rows * a->kept / a->each, k = a->weight->cols;
    c.work = &work;
    c.count = count;
    const sb_status status = find_layers(knobs, a, &c);
    if (status)
        return status;
    if (!given.staged && !sb_linear_is_bf16(work, a->in, inputs * k))
        return SB_ERR_UNSUPPORTED;
    const size_t columns = size_t(c.shape.chunks) * SB_CHUNK, staged = inputs * columns / 2;
    c.wide = sb_linear_stays_wide(knobs, a->kind) != 0;
    for (unsigned i = 0; i < count; i++)
        c.weights[i] =
            work.kept_all<uint4>("weights", sb_gpu_matrices_of(a + i), sb_pack_linear,
                                 sb_pack_tiles(c.shape) * c.shape.tile_bytes, c.shape.tile_bytes);
    sb_global<const uint32_t> order = nullptr;
    if (c.shape.gathers)
        order = work.kept<uint32_t>("columns", a->weight, sb_pack_order, 4 * columns, 4 * columns);
    if (given.staged)
        c.inputs = work.in("staged", given.staged, staged);
    else
        c.inputs = stage(work, a, order, c.shape, inputs);
    for (unsigned i = 0; i < count; i++) {
        c.factor[i] = work.constant("factors", c.factors[i], a->experts);
        c.out[i] = work.out("out", a[i].out, a->rows * a->kept * c.shape.rows);
    }
    const sb_gpu_pairs pairs = sb_gpu_route(work, a, given, true);
    c.pairs = &pairs;
    multiply_codes(c);
    return work.finish();
}

/* Returns the arguments for rows [first, first + rows) of a call. */
static sb_expert_linear_args part_of(const sb_expert_linear_args *a, size_t first, size_t rows)
{
    sb_expert_linear_args part = *a;
    part.rows = rows;
    part.ids = a->ids + first * a->kept;
    part.in = a->in + first * a->kept / a->each * a->weight->cols;
    part.out = a->out + first * a->kept * a->weight->rows;
    return part;
}

static sb_status some_rows(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *a,
                           unsigned count, const sb_gpu_given &given)
{
    sb_gpu_work work(gpu);
    work.did(check_ids(work, a));
    if (!work.ok() || a->rows * a->kept == 0)
        return work.finish();
    const sb_act_scheme scheme = sb_input_scheme(knobs, a->weight);
    for (unsigned i = 0; i < count; i++)
        for (size_t e = 0; e < a->experts; e++)
            if (sb_input_scheme(knobs, sb_expert_weight(a + i, e)) != scheme)
                return SB_ERR_UNSUPPORTED;
    if (scheme == SB_SCHEME_none)
        return experts_bf16(work, knobs, a, count, given);
    return count == 1 ? sb_gpu_experts_lowbit(work, knobs, a, scheme, given) : SB_ERR_UNSUPPORTED;
}

static sb_status all_rows(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *a,
                          unsigned count, const sb_gpu_given &given)
{
    if (!fits(a))
        return SB_ERR_UNSUPPORTED;
    const size_t most = most_pairs / a->kept;
    sb_status status = SB_OK;
    for (size_t first = 0; first < a->rows && !status; first += most) {
        const size_t left = a->rows - first, rows = left < most ? left : most;
        const sb_expert_linear_args part[2] = {part_of(a, first, rows),
                                               part_of(a + count - 1, first, rows)};
        status = some_rows(gpu, knobs, part, count, given);
    }
    return status;
}

sb_status sb_gpu_experts(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *a)
{
    return all_rows(gpu, knobs, a, 1, {nullptr, nullptr});
}

sb_status sb_gpu_experts_chosen(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *a,
                                const sb_gpu_choice *choice, const void *staged)
{
    return all_rows(gpu, knobs, a, 1, {choice, static_cast<const uint32_t *>(staged)});
}

sb_status sb_gpu_experts_both(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *a,
                              const sb_gpu_choice *choice, const void *staged)
{
    const sb_gpu_given given = {choice, static_cast<const uint32_t *>(staged)};
    const sb_expert_linear_args &b = a[1];
    const bool shares = b.ids == a->ids && b.in == a->in && b.experts == a->experts &&
                        b.rows == a->rows && b.kept == a->kept && b.each == a->each &&
                        b.kind == a->kind;
    sb_status status = shares ? all_rows(gpu, knobs, a, 2, given) : SB_ERR_UNSUPPORTED;
    if (status == SB_ERR_UNSUPPORTED) {
        status = all_rows(gpu, knobs, a, 1, given);
        status = status ? status : all_rows(gpu, knobs, a + 1, 1, given);
    }
    return status;
}
