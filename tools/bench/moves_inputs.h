/* moves_inputs.h - layers whose inputs a profile quantizes: which they are, what kernels start for
 * them, and how these have their weights. */
#ifndef SB_BENCH_MOVES_INPUTS_H
#define SB_BENCH_MOVES_INPUTS_H

#include "gpu/kernel/cost.h"
#include "ref/formats/containers.h"
#include "ref/ops/knobs.h"

/* What a layer multiplies its weight with. */
typedef enum sb_moves_input {
    SB_MOVES_VALUES,     /* bfloat16 */
    SB_MOVES_E4M3,       /* a scale for each row */
    SB_MOVES_E4M3_UNITS, /* and for each 128 columns */
    SB_MOVES_E2M1        /* and for each 16 columns */
} sb_moves_input;

/* has_factor: a factor of the input stands beside the weight. knobs NULL: those of sm121. */
sb_moves_input sb_moves_input_of(const sb_knobs *knobs, sb_container container, int has_factor);

/* What leaves an input as the product reads it, and the product: of a matrix, or of experts
 * (routed), of few rows or of many (wide). */
sb_cost_kernel sb_moves_stages(sb_moves_input input, int wide, int routed);
sb_cost_kernel sb_moves_multiplies(sb_moves_input input, int wide, int routed);

/* What a shape of so many rows, outputs and inputs has besides, where the input is quantized. */
void sb_moves_quantize(sb_moves_input input, sb_cost_shape *shape);

#endif
