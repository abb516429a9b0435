/* envelope_hook.c - moves the results of every op of a sequence. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "ref/ops/values.h"
#include "tools/judge/compare/envelope_parts.h"
#include "tools/judge/bound/wide_fn.h"

sb_status sb_envelope_run(const sb_envelope *e, const sb_op_call *call)
{
    return e->twin ? e->twin(e->twin_ctx, call) : sb_op_run(call);
}

uint64_t sb_envelope_key(sb_envelope_lane *lane)
{
    return sb_rng_u64(sb_rng_u64(lane->key, lane->of->moment), lane->ops++);
}

/* The key of an op's output, the same in every call. */
static uint64_t place_key(const sb_envelope_lane *lane, const sb_op_call *call, size_t output)
{
    return sb_rng_u64(sb_rng_key(lane->key, call->name),
                      (uint64_t)call->layer * SB_OP_OUTPUTS + output);
}

/* Nonzero if rounding to bfloat16 changes a value: a lower bit is set, or it is a NaN other than
 * the canonical one. */
static uint32_t rounds_bf16(const float *data, size_t n)
{
    uint32_t changes = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = sb_bits_f32(data[i]), magnitude = bits & 0x7fffffffu;
        changes |= bits & 0xffffu;
        changes |= (uint32_t)(magnitude > 0x7f800000u) & (uint32_t)(magnitude != 0x7fc00000u);
    }
    return changes;
}

static int rounds_any(sb_format type, const float *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sb_bits_f32(sb_round_to(type, data[i])) != sb_bits_f32(data[i]))
            return 1;
    return 0;
}

/* True if all values are values of the type. Tests them in pieces, because most arrays of another
 * type differ in the first piece. */
static int row_of_type(sb_format type, const float *data, size_t n)
{
    enum { PIECE = 256 };
    for (size_t first = 0; first < n; first += PIECE) {
        size_t count = n - first < PIECE ? n - first : PIECE;
        if (type == SB_FORMAT_bf16 ? rounds_bf16(data + first, count) != 0
                                   : rounds_any(type, data + first, count))
            return 0;
    }
    return 1;
}

static int all_of_type(sb_format type, const float *data, size_t rows, size_t cols, size_t stride)
{
    for (size_t r = 0; r < rows; r++)
        if (!row_of_type(type, data + r * stride, cols))
            return 0;
    return 1;
}

/* x moved by `step` in its bits, away from 0 or towards it; in binary16, to its neighbour. 0 stays,
 * and so does a value whose neighbour is not finite. */
static float neighbour(sb_format type, uint32_t step, float x, int up)
{
    uint32_t bits = sb_bits_f32(x), magnitude = bits & 0x7fffffffu;
    if (magnitude == 0 || magnitude >= 0x7f800000u)
        return x;
    float moved;
    if (type == SB_FORMAT_f16) {
        uint32_t code = sb_f32_to_f16(x);
        moved = sb_f16_to_f32((uint16_t)(up ? code + 1 : code - 1));
    } else {
        moved = sb_f32_from_bits(up ? bits + step : bits - step);
    }
    return sb_is_finite_f32(moved) ? moved : x;
}

/* Elements that share a random word. Each takes two bits; 2 and 3 move the element. */
enum { MOVED = 32 };

/* neighbour() of four elements. `step` is the last bit of their type. There is no branch, because
 * half of the elements move. two[l] >> shift holds the random bits of element l. */
static inline void move_four(float *restrict data, uint32_t step, const uint32_t *restrict two,
                             unsigned shift)
{
    for (size_t l = 0; l < 4; l++) {
        uint32_t bits = sb_bits_f32(data[l]), magnitude = bits & 0x7fffffffu;
        uint32_t moves = two[l] >> (shift + 1) & 1, down = two[l] >> shift & 1;
        uint32_t by = (0u - moves) & ((step ^ (0u - down)) + down);
        uint32_t moved = bits + by;
        uint32_t good = (uint32_t)(magnitude != 0) & (uint32_t)(magnitude < 0x7f800000u) &
                        (uint32_t)((moved & 0x7fffffffu) < 0x7f800000u);
        data[l] = sb_f32_from_bits(bits + (by & (0u - good)));
    }
}

static void move_word(float *data, uint32_t step, uint64_t random)
{
    uint32_t low[4], high[4];
    for (unsigned l = 0; l < 4; l++) {
        low[l] = (uint32_t)random >> (2 * l);
        high[l] = (uint32_t)(random >> 32) >> (2 * l);
    }
    for (unsigned i = 0; i < MOVED / 8; i++) {
        move_four(data + 4 * i, step, low, 8 * i);
        move_four(data + MOVED / 2 + 4 * i, step, high, 8 * i);
    }
}

/* T-40: "It stays, or becomes the next value above or below"; in binary32 by `units` units. */
static void move_in(sb_format type, uint32_t units, uint64_t key, float *data, size_t rows,
                    size_t cols, size_t stride)
{
    uint32_t step = type == SB_FORMAT_bf16 ? 0x10000u : units;
    uint64_t random = 0, n = 0;
    size_t whole = 0; /* number of elements of row 0 that move_word moved */
    if (stride == cols) {
        cols *= rows;
        rows = 1;
    }
    if (rows == 1 && type != SB_FORMAT_f16)
        for (; whole + MOVED <= cols; whole += MOVED, n += MOVED)
            move_word(data + whole, step, sb_rng_u64(key, n / MOVED));
    for (size_t r = 0; r < rows; r++)
        for (size_t i = whole; i < cols; i++, n++) {
            if (n % MOVED == 0)
                random = sb_rng_u64(key, n / MOVED);
            unsigned two = (unsigned)(random >> (n % MOVED * 2)) & 3;
            if (two >= 2)
                data[r * stride + i] = neighbour(type, step, data[r * stride + i], two == 2);
        }
}

/* The activation type if all elements are values of that type; else binary32. */
static sb_format type_of(const sb_envelope *e, const float *data, size_t rows, size_t cols,
                         size_t stride)
{
    sb_format type = sb_act_format(&e->knobs);
    return type == SB_FORMAT_f32 || all_of_type(type, data, rows, cols, stride) ? type
                                                                                : SB_FORMAT_f32;
}

void sb_envelope_move(const sb_envelope *e, uint64_t key, float *data, size_t rows, size_t cols,
                      size_t stride)
{
    move_in(type_of(e, data, rows, cols, stride), e->units, key, data, rows, cols, stride);
}

/* T-40: "an op with an exponential" */
static int is_function(sb_op op)
{
    return op == SB_OP_conv || op == SB_OP_gates || op == SB_OP_gated_rmsnorm ||
           op == SB_OP_attention || op == SB_OP_attn_gate || op == SB_OP_swiglu;
}

/* T-40: "For values that are binary32, a run moves an element the same way in every row and
 * call" */
static void move_output(sb_envelope_lane *lane, const sb_op_call *call, const sb_op_value *o,
                        size_t number)
{
    sb_format type = type_of(lane->of, o->data, o->rows, o->cols, o->stride);
    uint64_t key = place_key(lane, call, number);
    const uint32_t units = is_function(call->op) ? lane->of->of_functions : lane->of->units;
    for (size_t r = 0; r < o->rows && type == SB_FORMAT_f32; r++)
        move_in(type, units, key, o->data + r * o->stride, 1, o->cols, o->stride);
    if (type != SB_FORMAT_f32)
        move_in(type, 1, sb_envelope_key(lane), o->data, o->rows, o->cols, o->stride);
}

/* Ops without rounding: copies. Also the router: its ids are not numbers, and its weights are moved
 * elsewhere. */
static int is_exact(sb_op op)
{
    return op == SB_OP_embed || op == SB_OP_split_gate;
}

/* T-40: "A binary32 value that a knob rounds on its way to the next op is moved in the narrower
 * type as well" */
static sb_format rounded_later(const sb_op_call *call)
{
    const sb_knobs *k = call->knobs;
    size_t length = strlen(call->name), tail = sizeof "self_attn.v_proj" - 1;
    switch ((int)call->op) {
    case SB_OP_rmsnorm:
    case SB_OP_gated_rmsnorm:
    case SB_OP_swiglu:
    case SB_OP_attn_gate:
        return SB_IS(k, linear_input, weight) ? SB_FORMAT_bf16 : SB_FORMAT_f32;
    case SB_OP_linear:
        if (length < tail || strcmp(call->name + length - tail, "self_attn.v_proj") != 0)
            return SB_FORMAT_f32;
        return SB_IS(k, kv_cache, f16) ? SB_FORMAT_f16 : SB_FORMAT_f32;
    case SB_OP_rope:
        return SB_IS(k, kv_cache, f16) ? SB_FORMAT_f16 : SB_FORMAT_f32;
    case SB_OP_attention:
        return SB_IS(k, scores, f16) ? SB_FORMAT_f16 : SB_FORMAT_f32;
    default:
        return SB_FORMAT_f32;
    }
}

/* T-40: "In each run e^g of a head is off by m_f 2^-23, the same way in every row" */
static void move_decays(sb_envelope_lane *lane, const sb_op_call *call)
{
    const sb_gates_args *a = call->args;
    uint64_t key = sb_rng_u64(sb_rng_key(lane->key, "decay"), call->layer);
    const float off = 0x1p-23f * (float)lane->of->of_functions;
    for (size_t h = 0; h < a->heads; h++) {
        float by = sb_rng_u64(key, h) >> 63 ? off : -off;
        for (size_t t = 0; t < a->rows; t++)
            a->g[t * a->heads + h] += by;
    }
}

static void move_outputs(sb_envelope_lane *lane, const sb_op_call *call)
{
    sb_op_values v = sb_op_values_of(call->op, call->args);
    sb_format later = rounded_later(call);
    int narrow = later != SB_FORMAT_f32 && sb_act_format(call->knobs) == SB_FORMAT_f32;
    for (size_t i = 0; i < v.outputs; i++) {
        const sb_op_value *o = &v.out[i];
        if (o->data)
            move_output(lane, call, o, i);
        if (o->data && narrow)
            move_in(later, 1, sb_envelope_key(lane), o->data, o->rows, o->cols, o->stride);
    }
    if (call->op == SB_OP_gates)
        move_decays(lane, call);
}

/* Runs the recurrent form row by row, so that the state is moved after each row. */
static sb_status delta_rows(sb_envelope_lane *lane, const sb_op_call *call)
{
    const sb_delta_rule_args *a = call->args;
    size_t k = a->k_heads * a->dk, n = a->v_heads * a->dv, cells = a->v_heads * a->dk * a->dv;
    sb_status status = SB_OK;
    for (size_t t = 0; t < a->rows && !status; t++) {
        sb_delta_rule_args row = *a;
        sb_op_call one = *call;
        row.q += t * k;
        row.k += t * k;
        row.v += t * a->v_stride;
        row.g += t * a->v_heads;
        row.beta += t * a->v_heads;
        row.out += t * n;
        row.rows = 1;
        row.trail = NULL;
        one.args = &row;
        status = sb_envelope_run(lane->of, &one);
        sb_envelope_move(lane->of, sb_envelope_key(lane), row.out, 1, n, n);
        sb_envelope_move(lane->of, sb_envelope_key(lane), a->state, 1, cells, cells);
        if (a->trail)
            memcpy(a->trail + t * cells, a->state, cells * sizeof *a->state);
    }
    return status;
}

static sb_status chunk(sb_envelope_lane *lane, const sb_op_call *call)
{
    const sb_delta_rule_args *a = call->args;
    size_t cells = a->v_heads * a->dk * a->dv;
    sb_status status = sb_envelope_run(lane->of, call);
    move_outputs(lane, call);
    sb_envelope_move(lane->of, sb_envelope_key(lane), a->state, 1, cells, cells);
    return status;
}

static sb_status run_and_move(sb_envelope_lane *lane, const sb_op_call *call)
{
    if (call->op == SB_OP_router)
        return sb_envelope_route(lane, call);
    if (call->op == SB_OP_linear) {
        sb_status status = sb_envelope_linear(lane, call);
        if (lane->number && !status)
            move_outputs(lane, call);
        return status ? status : sb_envelope_cache(lane, call);
    }
    if (is_exact(call->op))
        return sb_envelope_run(lane->of, call);
    if (lane->number == 0) {
        sb_status status = sb_envelope_run(lane->of, call);
        return status ? status : sb_envelope_cache(lane, call);
    }
    if (call->op == SB_OP_delta_rule)
        return delta_rows(lane, call);
    if (call->op == SB_OP_delta_rule_chunk)
        return chunk(lane, call);
    sb_status status = sb_envelope_run(lane->of, call);
    if (!status)
        move_outputs(lane, call);
    return status ? status : sb_envelope_cache(lane, call);
}

sb_status sb_envelope_hook(void *ctx, const sb_op_call *call)
{
    sb_envelope_lane *lane = ctx;
    sb_status status = run_and_move(lane, call);
    if (!status && lane->number == 0 && lane->of->coverage)
        sb_coverage_op(lane->of->coverage, call);
    return status;
}
