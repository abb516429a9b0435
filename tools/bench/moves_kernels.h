/* moves_kernels.h - the ledger of a step by its kernels (B-16). */
#ifndef SB_BENCH_MOVES_KERNELS_H
#define SB_BENCH_MOVES_KERNELS_H

#include "gpu/kernel/cost.h"
#include "ref/ops/knobs.h"
#include "tools/bench/moves.h"

/* All launches of a kernel for one op of the step. Members without a unit are bytes. */
typedef struct sb_moves_kernel {
    sb_moves_op op;
    sb_cost_kernel kernel;
    uint32_t launches;
    double weights;     /* as packed */
    double kept;        /* states, keys and values, read and written */
    double activations; /* values between ops, and between kernels of one op */
    double again;       /* repeated reads of these bytes by blocks, as far as known */
    double macs;
} sb_moves_kernel;

enum { SB_MOVES_LAUNCHES = 96 };

typedef struct sb_moves_kernels {
    sb_moves_kernel row[SB_MOVES_LAUNCHES];
    uint32_t count;
    sb_moves_kernel total;
    double stored; /* checkpoint bytes of the weights that a call or a draft reads: B-11 */
} sb_moves_kernels;

/* Launches without a wait for the host in between (gpu/step): a call of all layers; additional
 * launches for the MTP entries of its rows (sb_gpu_step_options.mtp); one draft of the MTP head; or
 * the end of a round in which all drafts are right. */
typedef enum sb_moves_part {
    SB_MOVES_CALL,
    SB_MOVES_ENTRIES,
    SB_MOVES_DRAFT,
    SB_MOVES_ACCEPTED
} sb_moves_part;

/* trail: keeps the states of all rows for a rollback; fused: uses fused kernels, as calls of at
 * most SB_MOVES_FUSED_ROWS rows do; prompt: only the last row has logits. experts and sets: per
 * layer, the experts whose weights are read, and the sets of pairs; 0: the expected number. knobs:
 * of the kernels' profile, sm121, sm121-w8a8 or sm121-w4a4; NULL: sm121. */
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
