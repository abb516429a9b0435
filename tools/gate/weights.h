/* weights.h - matrices among the inputs of a case. V-130: "A stored matrix is the tensors that a
 * checkpoint of its format has, made by the quantizers of `samebit make`" - and read back where
 * they lie (docs/gates/ops-linear.md). */
#ifndef SB_GATE_WEIGHTS_H
#define SB_GATE_WEIGHTS_H

#include "tools/gate/gate.h"

/* How a format has the inputs of a layer: as values, or as codes with scales. */
typedef enum sb_gate_coding {
    SB_GATE_CODING_none,
    SB_GATE_CODING_nvfp4,       /* E2M1, an E4M3 scale for 16 columns, a divisor for all */
    SB_GATE_CODING_fp8_block,   /* E4M3, a binary32 scale for 128 columns of a row */
    SB_GATE_CODING_fp8_channel, /* of a row */
    SB_GATE_CODING_fp8_tensor   /* of all */
} sb_gate_coding;
sb_gate_coding sb_gate_coding_of(const sb_gate_case *c);

/* Matrices of one shape in the tensors of one layer. */
typedef struct sb_gate_stored {
    const char *prefix; /* of the names of the tensors: "", "w13_", "gate_proj." */
    uint32_t experts;   /* E of a stack, whose tensors have one axis more; 0: no stack */
    uint32_t parts;     /* matrices below each other, each with its factor: 2 of gate and up */
    uint32_t rows, cols;
    uint32_t spare; /* rows behind the last that no output has: a padded vocabulary */
    int steady;     /* normal in regimes tiny and least */
    int small;      /* in these small even where it is plain: its input is not */
    int input;      /* what a layer is given: "x" stands where names have "weight" */
} sb_gate_stored;

/* Draws the values, quantizes them and adds the tensors to the case. SB_ERR_USAGE: the format has
 * no such shape. */
sb_status sb_gate_store(sb_gate_case *c, const sb_gate_stored *s, sb_error *err);

/* Says what is missing or wrong of them in a case from a file. */
sb_status sb_gate_need_stored(const sb_gate_case *c, const sb_gate_stored *s, sb_error *err);

/* sb_gate_need, and the type. */
sb_status sb_gate_need_typed(const sb_gate_case *c, const char *name, sb_dtype dtype, unsigned rank,
                             const uint64_t *shape, sb_error *err);

/* One of the matrices, in place. */
sb_matrix sb_gate_stored_matrix(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                                uint32_t part);

/* The inputs (rows, cols) of a layer: in.x, or in.x_packed and its companions. */
sb_status sb_gate_store_x(sb_gate_case *c, uint32_t rows, uint32_t cols, sb_error *err);
sb_status sb_gate_need_x(const sb_gate_case *c, uint32_t rows, uint32_t cols, sb_error *err);
sb_status sb_gate_refresh_x(sb_gate_case *c, uint32_t rows, uint32_t cols); /* sb_gate_op.refresh */
sb_matrix sb_gate_x(const sb_gate_case *c, uint32_t rows, uint32_t cols);

/* V-133: the case with another regime. */
sb_gate_case sb_gate_in_regime(const sb_gate_case *c, sb_gate_regime regime);

/* The exact values of a matrix without its factor, which binary32 holds of an x; NULL: memory. */
float *sb_gate_matrix_values(const sb_matrix *m);

/* The knobs, but no input is quantized on its way into a layer: it is a value, or a code already.
 */
sb_knobs sb_gate_given_inputs(const sb_knobs *knobs);

/* out (rows, w->rows): the sums of w times x (rows, w->cols), factor included. */
sb_status sb_gate_real_linear(const sb_matrix *w, const sb_dd *x, size_t rows, sb_dd *out);

/* T-7, for inputs known up to their balls: where the outputs (rows, w->rows) of a layer lie. */
sb_status sb_gate_bound_linear(const sb_gate_case *c, const sb_gate_arith *ar, const sb_matrix *w,
                               sb_linear_kind kind, const sb_ball *x, size_t rows, sb_ball *out);

/* V-138: "Where binary16 overflows in between, nothing is known" - of balls without an end. */
static inline sb_ball sb_gate_known(sb_ball x)
{
    return x.rad - x.rad == 0.0 && x.mid - x.mid == 0.0 ? x : (sb_ball){0.0, 0x1p1023 * 2.0};
}

/* Where byte (row, group) of `groups` scales a row lies in a tensor of 128 x 4 blocks (V-131). */
uint64_t sb_gate_swizzled(uint64_t row, uint64_t group, uint64_t groups);

#endif
