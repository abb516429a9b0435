/* moves_kernels.h - the ledger of a step by the kernels that it starts (B-16). */
#ifndef SB_BENCH_MOVES_KERNELS_H
#define SB_BENCH_MOVES_KERNELS_H

#include "gpu/kernel/cost.h"
#include "ref/ops/knobs.h"
#include "tools/bench/moves.h"

/* All launches of a kernel for one op of the step. Bytes: */
typedef struct sb_moves_kernel {
    sb_moves_op op;
    sb_cost_kernel kernel;
    uint32_t launches;
    double weights;     /* as they are packed */
    double kept;        /* of state, convolution, keys and values, read and written */
    double activations; /* values between ops, and what kernels of one op pass on */
    double again;       /* what blocks read of all this beyond the first time, as far as is known */
    double macs;
} sb_moves_kernel;

enum { SB_MOVES_LAUNCHES = 96 };

typedef struct sb_moves_kernels {
    sb_moves_kernel row[SB_MOVES_LAUNCHES];
    uint32_t count;
    sb_moves_kernel total;
    double stored; /* of the weights of a call or a draft, in the checkpoint: B-11 */
} sb_moves_kernels;

/* What is launched without a look at the host in between (gpu/step): a call of all layers; what it
 * starts besides for the entries of its rows in the MTP head (sb_gpu_step_options.mtp); one draft
 * of that head; or the end of a round, whose drafts are all right. */
typedef enum sb_moves_part {
    SB_MOVES_CALL,
    SB_MOVES_ENTRIES,
    SB_MOVES_DRAFT,
    SB_MOVES_ACCEPTED
} sb_moves_part;

/* trail: the states of all rows are left for the way back; fused: by fused kernels, as a call of at
 * most SB_MOVES_FUSED_ROWS rows is; prompt: the last row alone has logits. Of a layer, experts
 * whose weights are read and sets of pairs; 0: as many as are expected. knobs: of a profile whose
 * kernels these are, sm121, sm121-w8a8 or sm121-w4a4; NULL: of the first. */
enum { SB_MOVES_FUSED_ROWS = 9 };
typedef struct sb_kernel_call {
    sb_moves_part part;
    int trail, fused, prompt;
    uint32_t rows;
    double experts, sets;
    const sb_knobs *knobs;
} sb_kernel_call;

void sb_moves_kernels_of(const sb_moves_model *model, const sb_floor_options *options,
                         const sb_kernel_call *call, sb_moves_kernels *out);

#endif
