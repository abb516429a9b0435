/* moves_inputs.h - layers whose inputs a profile quantizes: their kernels, and the layout of their
 * weights. */
#ifndef SB_BENCH_MOVES_INPUTS_H
#define SB_BENCH_MOVES_INPUTS_H

#include "gpu/kernel/cost.h"
#include "ref/formats/containers.h"
#include "ref/ops/knobs.h"

/* The form of a layer's input in the product. */
typedef enum sb_moves_input {
    SB_MOVES_VALUES,     /* bfloat16 */
    SB_MOVES_E4M3,       /* a scale per row */
    SB_MOVES_E4M3_UNITS, /* a scale per row and 128 columns */
    SB_MOVES_E2M1        /* a scale per row and 16 columns */
} sb_moves_input;

/* has_factor: the weight has a factor for the input. knobs NULL: those of sm121. */
sb_moves_input sb_moves_input_of(const sb_knobs *knobs, sb_container container, int has_factor);

/* The kernel that prepares an input for the product, and the kernel of the product: for a matrix or
 * for experts (routed), for few rows or many (wide). */
sb_cost_kernel sb_moves_stages(sb_moves_input input, int wide, int routed);
sb_cost_kernel sb_moves_multiplies(sb_moves_input input, int wide, int routed);

/* Completes a shape with rows, outputs and inputs for a quantized input. */
void sb_moves_quantize(sb_moves_input input, sb_cost_shape *shape);

#endif
