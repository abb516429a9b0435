#include "tools/bench/moves_inputs.h"

#include "ref/ops/act_quant.h"

/* Asks the op, with a weight that has only a container. */
sb_moves_input sb_moves_input_of(const sb_knobs *knobs, sb_container container, int has_factor)
{
    static const unsigned char some;
    const sb_matrix weight = {.quant = {.scales = &some,
                                        .container = container,
                                        .input.kind = has_factor ? SB_MULTIPLIER : SB_NO_FACTOR}};
    switch (knobs ? sb_input_scheme(knobs, &weight) : SB_SCHEME_none) {
    case SB_SCHEME_nvfp4:
        return SB_MOVES_E2M1;
    case SB_SCHEME_fp8_group:
        return SB_MOVES_E4M3_UNITS;
    case SB_SCHEME_fp8_token:
    case SB_SCHEME_fp8_static:
        return SB_MOVES_E4M3;
    default: /* device profiles quantize no input of MX formats */
        return SB_MOVES_VALUES;
    }
}

sb_cost_kernel sb_moves_stages(sb_moves_input input, int wide, int routed)
{
    if (input != SB_MOVES_VALUES)
        return input == SB_MOVES_E2M1 ? SB_COST_act_fp4 : SB_COST_act_fp8;
    return wide || routed ? SB_COST_expert_stage : SB_COST_linear_stage;
}

sb_cost_kernel sb_moves_multiplies(sb_moves_input input, int wide, int routed)
{
    static const sb_cost_kernel of[][2][2] = {
        [SB_MOVES_VALUES] = {{SB_COST_linear, SB_COST_wide}, {SB_COST_tile, SB_COST_wide}},
        [SB_MOVES_E4M3] = {{SB_COST_tile_fp8, SB_COST_wide_fp8},
                           {SB_COST_sets_fp8, SB_COST_wide_sets_fp8}},
        [SB_MOVES_E4M3_UNITS] = {{SB_COST_tile_fp8_units, SB_COST_wide_fp8_units},
                                 {SB_COST_sets_fp8_units, SB_COST_wide_sets_fp8_units}},
        [SB_MOVES_E2M1] = {{SB_COST_tile_fp4, SB_COST_wide_fp4},
                           {SB_COST_sets_fp4, SB_COST_wide_sets_fp4}},
    };
    return of[input][routed != 0][wide != 0];
}

/* lowbit_shape.h: units of 128 columns, as for block scales; tiles of 16 rows. Experts of `samebit
 * make` share the factor of their inputs, so each row is quantized once. */
void sb_moves_quantize(sb_moves_input input, sb_cost_shape *shape)
{
    const uint64_t units = sb_cost_up(shape->inputs, 128);
    shape->width = 128 * units;
    shape->packed = 16 * sb_cost_up(shape->outputs, 16) * shape->width;
    if (input == SB_MOVES_E2M1)
        shape->packed /= 2;
    shape->scales = input == SB_MOVES_E4M3_UNITS ? units : 1;
    shape->quantized = shape->rows;
}
