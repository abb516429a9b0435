/* step.h - one sequence whose activations, states, caches, tokens and positions stay in memory of
 * the kernels. In a session (ref/run/session.h) the host takes part in every op; in a step the
 * launches follow each other without the host.
 *
 * Y-71: "A step gives the bits of a session on the same backend" - tokens, logits, hidden vectors
 * and states. A step has no taps and does not check values: S-6 applies to sessions only. */
#ifndef SB_GPU_STEP_STEP_H
#define SB_GPU_STEP_STEP_H

#include "ref/run/model.h"
#include "ref/run/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef sb_resident_sequence sb_gpu_step;

enum { SB_STEP_SLOTS = 9 }; /* the most rows of a verify */

typedef struct sb_gpu_step_options {
    size_t rows;  /* the most rows of a call */
    size_t slots; /* the most rows of a verify, 1 to SB_STEP_SLOTS; 1 is enough for decode steps */
    size_t positions; /* the most positions of the sequence, drafts included */
    int mtp;          /* also feed the MTP head (S-7) */
    int eager;        /* no graphs: the host launches every kernel (Y-19) */
    int fused;        /* fused kernels for calls of at most 9 rows: docs/gpu.md */
    int independent;  /* on a device every launch waits for the end of the one before (not Y-16) */
} sb_gpu_step_options;

/* backend: from sb_backend_emu or sb_backend_gpu. The model and its weights on the device must
 * outlive the step: no sb_gpu_forget before sb_gpu_step_close. SB_ERR_UNSUPPORTED: the kernels do
 * not support these knobs (Y-12). */
sb_status sb_gpu_step_open(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                           const sb_gpu_step_options *options, sb_gpu_step **out, sb_error *err);
void sb_gpu_step_close(sb_gpu_step *step);

/* Makes the sequence empty again. */
sb_status sb_gpu_step_reset(sb_gpu_step *step, sb_error *err);

/* Runs one call with n tokens from the host: a prompt, or a decode step if n is 1. The call
 * computes the logits of the last row and the next token. */
sb_status sb_gpu_step_feed(sb_gpu_step *step, const uint32_t *tokens, size_t n, sb_error *err);

/* Runs one call with the tokens on the device: the token that followed the last call, then the
 * drafts of sb_gpu_step_put or sb_gpu_step_draft. One row is a decode step. More rows are a verify,
 * which computes the logits of all rows. */
sb_status sb_gpu_step_run(sb_gpu_step *step, size_t rows, sb_error *err);

/* After a verify: sb_gpu_step_keep keeps its first `kept` rows (S-10), at least one.
 * sb_gpu_step_accept keeps the rows whose drafts are right (S-9). sb_gpu_step_kept waits and writes
 * the number of kept rows to *kept. */
sb_status sb_gpu_step_keep(sb_gpu_step *step, size_t kept, sb_error *err);
sb_status sb_gpu_step_accept(sb_gpu_step *step, sb_error *err);
sb_status sb_gpu_step_kept(sb_gpu_step *step, size_t *kept, sb_error *err);

/* Sets draft number `at`; drafts must be set in order, from 0 on. sb_gpu_step_draft computes one
 * draft with the MTP head. sb_gpu_step_put takes n drafts from the host. */
sb_status sb_gpu_step_draft(sb_gpu_step *step, size_t at, sb_error *err);
sb_status sb_gpu_step_put(sb_gpu_step *step, size_t at, const uint32_t *drafts, size_t n,
                          sb_error *err);

/* Sets the token of the next call, or of draft 0, in place of the one that followed the last
 * call. */
sb_status sb_gpu_step_token(sb_gpu_step *step, uint32_t token, sb_error *err);

/* Read the results of a step; each function waits for all launches. tokens: the token of the next
 * call, then the drafts. picked: the token that follows each row with logits. logits (V): the
 * logits of one row, or of the last draft in row 0. hidden (H): the hidden vector of a row of the
 * last call. state: a copy, which the caller frees. */
sb_status sb_gpu_step_tokens(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_gpu_step_picked(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_gpu_step_logits(sb_gpu_step *step, size_t row, float *logits, sb_error *err);
sb_status sb_gpu_step_hidden(sb_gpu_step *step, size_t row, float *hidden, sb_error *err);
sb_status sb_gpu_step_state(sb_gpu_step *step, sb_state **out, sb_error *err);

/* The step as the sequence of a session (ref/run/resident.h), which it must outlive. Y-76: "A
 * session on a step gives the bits of the same session op by op" */
sb_resident sb_gpu_step_resident(sb_gpu_step *step);

/* Y-74: if `sealed` is nonzero, copies and allocations are refused from now on. */
void sb_gpu_step_seal(sb_gpu_step *step, int sealed);

/* Y-19: if `eager` is nonzero, the host launches every kernel from now on, even if a graph exists.
 */
void sb_gpu_step_eager(sb_gpu_step *step, int eager);

/* Return the set for this backend. NULL if the backend is of another kind, or if the program was
 * built without the compiler. */
typedef struct sb_gpu_step_calls sb_gpu_step_calls;
const sb_gpu_step_calls *sb_gpu_step_calls_emu(const sb_backend *backend);
const sb_gpu_step_calls *sb_gpu_step_calls_gpu(const sb_backend *backend);

#ifdef __cplusplus
}
#endif

#endif
