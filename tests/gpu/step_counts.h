/* step_counts.h - the memory traffic of the kernels of a session, counted in the emulator, for
 * tests in C. */
#ifndef SB_TESTS_GPU_STEP_COUNTS_H
#define SB_TESTS_GPU_STEP_COUNTS_H

#include "gpu/kernel/cost.h"
#include "ref/ops/knobs.h"
#include "ref/run/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A part of a step (gpu/step) after `context` tokens: a prompt of `rows` rows; a call of one row,
 * or a verify of several; accepting a verify whose drafts are right; or a draft. mtp: the MTP head
 * is fed as well. */
enum { SB_COUNTED_ROWS = 384 }; /* the longest prompt: tokens of the smallest preset */
typedef enum step_kind { STEP_PROMPT, STEP_VERIFY, STEP_ACCEPT, STEP_DRAFT } step_kind;
typedef struct step_part {
    step_kind kind;
    size_t context, rows;
    int mtp, fused;
} step_part;

/* Runs a part on a counting emulator, with every kernel launched separately. `stays`: the bytes of
 * all matrices that the step has uploaded. */
typedef struct step_passes {
    double launches, read, by_blocks; /* for matrices and their scales */
    double stays, experts;            /* sets of pairs of experts, over all launches that make
                                       * sets */
    double used;                      /* experts whose weights are read, over all launches */
} step_passes;
sb_status counting_part(const sb_model *model, const sb_knobs *knobs, const step_part *part,
                        step_passes *passes, sb_error *err);

/* Summed over all launches of a kernel: the different bytes of each launch, read and written; and
 * the bytes that its blocks read again, if cost.def has a number for them. */
typedef struct step_counts {
    double launches, weights, kept, activations, again;
} step_counts;
step_counts counted_of_step(sb_cost_kernel kernel);

/* A launch does not show which of several layers its kernel was compiled for. These are counted
 * together. */
int counted_together(sb_cost_kernel a, sb_cost_kernel b);

#ifdef __cplusplus
}
#endif

#endif
