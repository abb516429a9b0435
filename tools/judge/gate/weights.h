/* weights.h - matrices among the inputs of a case. V-130: "A stored matrix is given as the tensors
 * that a checkpoint of its format has, made by the quantizers of `samebit make`" - and read in
 * place (docs/gates/ops-linear.md). */
#ifndef SB_GATE_WEIGHTS_H
#define SB_GATE_WEIGHTS_H

#include "tools/judge/gate/gate.h"

/* How a format stores the inputs of a layer: as values, or as codes with scales. */
typedef enum sb_gate_coding {
    SB_GATE_CODING_none,
    SB_GATE_CODING_nvfp4,       /* E2M1, an E4M3 scale per 16 columns, one divisor per tensor */
    SB_GATE_CODING_fp8_block,   /* E4M3, a binary32 scale per 128 columns of a row */
    SB_GATE_CODING_fp8_channel, /* E4M3, a scale per row */
    SB_GATE_CODING_fp8_tensor   /* E4M3, a scale per tensor */
} sb_gate_coding;
sb_gate_coding sb_gate_coding_of(const sb_gate_case *c);

/* Matrices of one shape, stored in the tensors of one layer. */
typedef struct sb_gate_stored {
    const char *prefix; /* prefix of the tensor names: "", "w13_", "gate_proj." */
    uint32_t experts;   /* E of a stack, whose tensors have one more axis; 0: no stack */
    uint32_t parts;     /* matrices in one tensor, each with a factor: 2 for gate and up */
    uint32_t rows, cols;
    uint32_t spare; /* rows after the last that belong to no output: a padded vocabulary */
    int steady;     /* not made small in regimes tiny and least */
    int small;      /* made small in tiny and least even if plain, because its input is not small */
    int input;      /* an input of a layer: its tensor names have "x" instead of "weight" */
} sb_gate_stored;

/* Draws the values, quantizes them and adds the tensors to the case. SB_ERR_USAGE: the format
 * cannot store this shape. */
sb_status sb_gate_store(sb_gate_case *c, const sb_gate_stored *s, sb_error *err);

/* Fails if these tensors are missing or wrong in a case from a file. */
sb_status sb_gate_need_stored(const sb_gate_case *c, const sb_gate_stored *s, sb_error *err);

/* sb_gate_need that also checks the type. */
sb_status sb_gate_need_typed(const sb_gate_case *c, const char *name, sb_dtype dtype, unsigned rank,
                             const uint64_t *shape, sb_error *err);

/* One of the matrices, not copied. */
sb_matrix sb_gate_stored_matrix(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                                uint32_t part);

/* The inputs (rows, cols) of a layer: in.x, or in.x_packed and its companions. */
sb_status sb_gate_store_x(sb_gate_case *c, uint32_t rows, uint32_t cols, sb_error *err);
sb_status sb_gate_need_x(const sb_gate_case *c, uint32_t rows, uint32_t cols, sb_error *err);
sb_status sb_gate_refresh_x(sb_gate_case *c, uint32_t rows, uint32_t cols); /* sb_gate_op.refresh */
sb_matrix sb_gate_x(const sb_gate_case *c, uint32_t rows, uint32_t cols);

/* V-133: the case with another regime. */
sb_gate_case sb_gate_in_regime(const sb_gate_case *c, sb_gate_regime regime);

/* The values of a matrix without its factor as a new array; NULL if memory is out. Binary32 holds
 * the values of an x exactly. */
float *sb_gate_matrix_values(const sb_matrix *m);

/* The knobs without quantization of layer inputs, because these inputs are values, or codes
 * already. */
sb_knobs sb_gate_given_inputs(const sb_knobs *knobs);

/* out (rows, w->rows): the products of w and x (rows, w->cols), including the factor. */
sb_status sb_gate_real_linear(const sb_matrix *w, const sb_dd *x, size_t rows, sb_dd *out);

/* T-7, for inputs known up to their balls: the balls of the outputs (rows, w->rows) of a layer. */
sb_status sb_gate_bound_linear(const sb_gate_case *c, const sb_gate_arith *ar, const sb_matrix *w,
                               sb_linear_kind kind, const sb_ball *x, size_t rows, sb_ball *out);

/* V-138: "Where binary16 overflows in between, nothing is known" - balls that are not finite become
 * infinite. */
static inline sb_ball sb_gate_known(sb_ball x)
{
    return x.rad - x.rad == 0.0 && x.mid - x.mid == 0.0 ? x : (sb_ball){0.0, 0x1p1023 * 2.0};
}

/* Position of the scale (row, group) in a tensor of 128 x 4 blocks with `groups` scales per row
 * (V-131). */
uint64_t sb_gate_swizzled(uint64_t row, uint64_t group, uint64_t groups);

#endif
