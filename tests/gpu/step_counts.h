/* step_counts.h - what the kernels of a session move, counted on the emulator, for tests in C. */
#ifndef SB_TESTS_GPU_STEP_COUNTS_H
#define SB_TESTS_GPU_STEP_COUNTS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "gpu/kernel/cost.h"
#include "ref/ops/knobs.h"
#include "ref/run/model.h"

/* A part of a step (gpu/step), behind so many tokens: a prompt of so many rows; a call of one row,
 * or a verify of several; what accepts one, whose drafts are right; or a draft. mtp: with the MTP
 * head fed along. */
enum { SB_COUNTED_ROWS = 384 }; /* of a prompt at most: tokens of the smallest preset */
typedef enum step_kind { STEP_PROMPT, STEP_VERIFY, STEP_ACCEPT, STEP_DRAFT } step_kind;
typedef struct step_part {
    step_kind kind;
    size_t context, rows;
    int mtp, fused;
} step_part;

/* Runs it on an emulator that counts, every kernel launched by itself. `stays`: bytes of all
 * matrices that the step has brought. */
typedef struct step_passes {
    double launches, read, by_blocks; /* of matrices and their scales */
    double stays, experts;            /* sets of pairs of experts, of all launches that make some */
    double used;                      /* experts whose weights are read, of all launches */
} step_passes;
sb_status counting_part(const sb_model *model, const sb_knobs *knobs, const step_part *part,
                        step_passes *passes, sb_error *err);

/* Of all its launches of a kernel: different bytes of each, read and written; and what its blocks
 * read of them beyond the first time, where cost.def has a number for it. */
typedef struct step_counts {
    double launches, weights, kept, activations, again;
} step_counts;
step_counts counted_of_step(sb_cost_kernel kernel);

/* Of layers that a kernel is compiled for nobody sees which it has: those are counted together. */
int counted_together(sb_cost_kernel a, sb_cost_kernel b);

#ifdef __cplusplus
}
#endif

#endif
