/* op_faults.c - the list of ops.def, and its mistakes. */
#include "tools/judge/fault/op_faults.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/fault/op_fault_args.h"
#include "tools/judge/fault/plant.h"

sb_status sb_plant_run_with(const sb_op_call *call, const void *args)
{
    sb_op_call changed = *call;
    changed.args = args;
    return sb_op_run(&changed);
}

/* Copies the arguments; returns the member of the copy that the fault changes. */
static void *copied(const sb_plant *plant, const sb_op_call *call, sb_any_args *args)
{
    sb_args_copy(call->op, call->args, args);
    return sb_arg_at(args, sb_arg_find(call->op, plant->fault->with));
}

/* --- one input, copied and changed ------------------------------------------------------------ */

/* Runs the op with an edited copy of an input. rope works in place, so its input is edited in
 * place. */
static sb_status with_input(const sb_plant *plant, const sb_op_call *call, sb_edit edit, size_t by)
{
    sb_any_args args;
    sb_op_value in;
    sb_status status = SB_ERR_USAGE;
    if (!sb_op_input_find(call, plant->fault->with, &in))
        return status;
    float *changed = sb_alloc(in.rows * in.stride, sizeof *changed);
    if (!changed)
        return SB_ERR_MEMORY;
    sb_edit_array(edit, &in, by, changed);
    if (call->op == SB_OP_rope) {
        memcpy(in.data, changed, in.rows * in.stride * sizeof *changed);
        status = sb_op_run(call);
    } else {
        *(const float **)copied(plant, call, &args) = changed;
        status = sb_plant_run_with(call, &args);
    }
    free(changed);
    return status;
}

#define SB_WITH_INPUT(how, edit, by)                                                               \
    static sb_status run_##how(sb_plant *plant, const sb_op_call *call)                            \
    {                                                                                              \
        return with_input(plant, call, SB_EDIT_##edit, by);                                        \
    }

/* The head width of the input that is turned. */
static size_t head_width(const sb_op_call *call)
{
    switch (call->op) {
    case SB_OP_l2norm:
        return ((const sb_l2norm_args *)call->args)->dk;
    case SB_OP_rope:
        return ((const sb_rope_args *)call->args)->hd;
    case SB_OP_delta_rule:
    case SB_OP_delta_rule_chunk:
        return ((const sb_delta_rule_args *)call->args)->dk;
    case SB_OP_gated_rmsnorm:
        return ((const sb_gated_rmsnorm_args *)call->args)->n;
    case SB_OP_attention:
        return ((const sb_attention_args *)call->args)->hd;
    case SB_OP_split_gate:
        return 2 * ((const sb_split_gate_args *)call->args)->hd;
    default:
        return 1;
    }
}

static size_t one_less(const sb_plant *plant, const sb_op_call *call, int of_rows)
{
    sb_op_value in;
    if (!sb_op_input_find(call, plant->fault->with, &in))
        return 0;
    return (of_rows ? in.rows : in.cols) - 1;
}

SB_WITH_INPUT(shift_plus, turn, 1)
SB_WITH_INPUT(shift_minus, turn, one_less(plant, call, 0))
SB_WITH_INPUT(next_head, turn, head_width(call))
SB_WITH_INPUT(next_row, roll, 1)
SB_WITH_INPUT(row_before, roll, one_less(plant, call, 1))
SB_WITH_INPUT(negate, negate, 0)
SB_WITH_INPUT(zero_last, zero_last, 0)
SB_WITH_INPUT(negate_last, negate_last, 0)
SB_WITH_INPUT(lose_last, lose_last, 0)
SB_WITH_INPUT(zero, zero, 0)
SB_WITH_INPUT(one, one, 0)
SB_WITH_INPUT(open_gate, hundred, 0)

/* --- parameters and scalars ------------------------------------------------------------------- */

static sb_status with_param(const sb_plant *plant, const sb_op_call *call,
                            void (*edit)(float *values, size_t rows, size_t cols))
{
    sb_any_args args;
    sb_mistake_param param = {.bytes = NULL};
    const sb_matrix **at = copied(plant, call, &args);
    sb_status status = sb_mistake_edit(*at, edit, &param);
    *at = &param.matrix;
    if (!status)
        status = sb_plant_run_with(call, &args);
    free(param.bytes);
    return status;
}

static void negate_all(float *values, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows * cols; i++)
        values[i] = -values[i];
}

static void zero_all(float *values, size_t rows, size_t cols)
{
    memset(values, 0, rows * cols * sizeof *values);
}

static void zero_first_column(float *values, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        values[i * cols] = 0.0f;
}

static void negate_first_column(float *values, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        values[i * cols] *= -1.0f;
}

#define SB_WITH_PARAM(how, edit)                                                                   \
    static sb_status run_##how(sb_plant *plant, const sb_op_call *call)                            \
    {                                                                                              \
        return with_param(plant, call, edit);                                                      \
    }
SB_WITH_PARAM(negate_weight, negate_all)
SB_WITH_PARAM(zero_dt_bias, zero_all)
SB_WITH_PARAM(zero_oldest_tap, zero_first_column)
SB_WITH_PARAM(negate_oldest_tap, negate_first_column)

static sb_status with_scalar(const sb_plant *plant, const sb_op_call *call, float factor)
{
    sb_any_args args;
    *(float *)copied(plant, call, &args) *= factor;
    return sb_plant_run_with(call, &args);
}

static sb_status run_eps_times_ten(sb_plant *plant, const sb_op_call *call)
{
    return with_scalar(plant, call, 10.0f);
}

static sb_status run_negate_shared_logit(sb_plant *plant, const sb_op_call *call)
{
    return with_scalar(plant, call, -1.0f);
}

/* --- tokens, experts, positions --------------------------------------------------------------- */

static void add_to_ids(uint32_t *to, const uint32_t *from, size_t n, size_t by, size_t below)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint32_t)((from[i] + by) % below);
}

static sb_status other_token(const sb_op_call *call, size_t by)
{
    sb_embed_args args = *(const sb_embed_args *)call->args;
    uint32_t *tokens = sb_alloc(args.rows, sizeof *tokens);
    if (!tokens)
        return SB_ERR_MEMORY;
    add_to_ids(tokens, args.tokens, args.rows, by, args.table->rows);
    args.tokens = tokens;
    sb_status status = sb_plant_run_with(call, &args);
    free(tokens);
    return status;
}

static sb_status run_token_plus(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return other_token(call, 1);
}

static sb_status run_token_minus(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return other_token(call, ((const sb_embed_args *)call->args)->table->rows - 1);
}

static sb_status other_expert(const sb_op_call *call, size_t by)
{
    const sb_router_args *a = call->args;
    sb_status status = sb_op_run(call);
    add_to_ids(a->ids, a->ids, a->rows * a->kept, by, a->experts);
    return status;
}

static sb_status run_expert_plus(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return other_expert(call, 1);
}

static sb_status run_expert_minus(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return other_expert(call, ((const sb_router_args *)call->args)->experts - 1);
}

/* Moves positions by `by`. The first positions of a sequence, which cannot move back, stay. */
static sb_status other_position(const sb_op_call *call, int by)
{
    sb_rope_args args = *(const sb_rope_args *)call->args;
    uint32_t *moved = sb_alloc(args.rows, 3 * sizeof *moved);
    if (!moved)
        return SB_ERR_MEMORY;
    for (size_t axis = 0; axis < 3; axis++) {
        for (size_t t = 0; t < args.rows; t++) {
            uint32_t p = args.position[axis][t];
            moved[axis * args.rows + t] = by > 0 ? p + 1 : p ? p - 1 : 0;
        }
        args.position[axis] = moved + axis * args.rows;
    }
    sb_status status = sb_plant_run_with(call, &args);
    free(moved);
    return status;
}

static sb_status run_position_plus(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return other_position(call, 1);
}

static sb_status run_position_minus(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return other_position(call, -1);
}

/* Negates the second half of each pair; called before and after the rotation. */
static void negate_second(const sb_rope_args *a)
{
    for (size_t at = 0; at < a->rows * a->heads * a->hd; at += a->hd)
        for (size_t f = a->rd / 2; f < a->rd; f++)
            a->x[at + f] = -a->x[at + f];
}

static sb_status run_other_direction(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    negate_second(call->args);
    sb_status status = sb_op_run(call);
    negate_second(call->args);
    return status;
}

/* (x1, 0) turned is (x1 cos, x1 sin), and (0, x2) is (-x2 sin, x2 cos). */
static sb_status run_without_sine(sb_plant *plant, const sb_op_call *call)
{
    const sb_rope_args *a = call->args;
    size_t half = a->rd / 2, count = a->rows * a->heads * a->hd;
    float *second = sb_mistake_copy(a->x, count);
    sb_rope_args args = *a;
    (void)plant;
    if (!second)
        return SB_ERR_MEMORY;
    for (size_t at = 0; at < count; at += a->hd)
        for (size_t f = 0; f < half; f++)
            a->x[at + half + f] = second[at + f] = 0.0f;
    args.x = second;
    sb_status status = sb_op_run(call);
    if (!status)
        status = sb_plant_run_with(call, &args);
    for (size_t at = 0; at < count; at += a->hd)
        memcpy(a->x + at + half, second + at + half, half * sizeof *second);
    free(second);
    return status;
}

/* --- outputs ---------------------------------------------------------------------------------- */

static sb_status run_negate_output(sb_plant *plant, const sb_op_call *call)
{
    sb_status status = sb_op_run(call);
    sb_op_value out = sb_op_values_of(call->op, call->args).out[0];
    (void)plant;
    sb_edit_array(SB_EDIT_negate, &out, 0, out.data);
    return status;
}

static sb_status run_stale(sb_plant *plant, const sb_op_call *call)
{
    sb_status status = sb_op_run(call);
    sb_op_values values = sb_op_values_of(call->op, call->args);
    for (size_t i = 0; i < values.outputs && !status; i++)
        status = sb_plant_stale(plant, call, i, &values.out[i]);
    return status;
}

/* --- the list --------------------------------------------------------------------------------- */

#define SB_ROW(kind_, op_, with_, words_, run_)                                                    \
    {.name = #op_ "." #kind_,                                                                      \
     .where = #op_,                                                                                \
     .with = with_,                                                                                \
     .words = words_,                                                                              \
     .op = SB_OP_##op_,                                                                            \
     .kind = SB_OP_FAULT_##kind_,                                                                  \
     .run = run_},
const sb_planted sb_op_faults[] = {
#define SB_PLANTED(kind, op, by, with, words) SB_ROW(kind, op, with, words, run_##by)
#define SB_NOT_PLANTED(kind, op, why) SB_ROW(kind, op, "", why, NULL)
#include "tools/judge/fault/lists/ops.def"
#undef SB_PLANTED
#undef SB_NOT_PLANTED
    {.name = NULL}};
