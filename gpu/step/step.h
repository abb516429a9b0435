/* step.h - one sequence whose activations, states, caches, tokens and positions stay where kernels
 * run: what a session (ref/run/session.h) does op by op, as launches that follow each other without
 * the host.
 *
 * Y-71: "The bits are those of a session on the same backend" - tokens, logits, hidden vectors and
 * states. No tap is shown and no value is looked at: S-6 is the session's. */
#ifndef SB_GPU_STEP_STEP_H
#define SB_GPU_STEP_STEP_H

#ifdef __cplusplus
extern "C" {
#endif

#include "ref/run/model.h"
#include "ref/run/session.h"

typedef struct sb_gpu_step sb_gpu_step;

enum { SB_STEP_SLOTS = 9 }; /* rows of a verify at most */

typedef struct sb_gpu_step_options {
    size_t rows;      /* of a call at most */
    size_t slots;     /* of a verify at most: 1 to SB_STEP_SLOTS; that of a decode step is 1 */
    size_t positions; /* of the sequence, drafts included */
    int mtp;          /* feed the MTP head along (S-7) */
    int eager;        /* no graphs: every kernel is launched by the host (Y-19) */
    int fused;        /* calls of at most 9 rows by fused kernels: docs/gpu.md */
} sb_gpu_step_options;

/* backend: sb_backend_emu() or that of sb_backend_gpu. The model outlives the step, and so do its
 * weights on the device: no sb_gpu_forget before sb_gpu_step_close. SB_ERR_UNSUPPORTED under knobs
 * that kernels do not compute (Y-12). */
sb_status sb_gpu_step_open(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                           const sb_gpu_step_options *options, sb_gpu_step **out, sb_error *err);
void sb_gpu_step_close(sb_gpu_step *step);

/* Back to an empty sequence. */
sb_status sb_gpu_step_reset(sb_gpu_step *step, sb_error *err);

/* One call of n tokens that come from the host: a prompt, or a step if n is 1. Then the token that
 * follows is there, and logits of the last row. */
sb_status sb_gpu_step_feed(sb_gpu_step *step, const uint32_t *tokens, size_t n, sb_error *err);

/* One call of the tokens that are there: the one that followed the last call, and behind it those
 * of sb_gpu_step_put or sb_gpu_step_draft. One row is a decode step; more are a verify, of which
 * there are logits of all rows. */
sb_status sb_gpu_step_run(sb_gpu_step *step, size_t rows, sb_error *err);

/* Behind a verify: keeps its first rows (S-10), one at least; or those whose drafts are right
 * (S-9). sb_gpu_step_kept waits, and says how many that were. */
sb_status sb_gpu_step_keep(sb_gpu_step *step, size_t kept, sb_error *err);
sb_status sb_gpu_step_accept(sb_gpu_step *step, sb_error *err);
sb_status sb_gpu_step_kept(sb_gpu_step *step, size_t *kept, sb_error *err);

/* Draft number `at`, from 0 on, in its order: of the MTP head from the tokens that are there, or
 * the host's. */
sb_status sb_gpu_step_draft(sb_gpu_step *step, size_t at, sb_error *err);
sb_status sb_gpu_step_put(sb_gpu_step *step, size_t at, const uint32_t *drafts, size_t n,
                          sb_error *err);

/* What a step leaves; each waits for it. Tokens: that of the next call and the drafts behind it.
 * Picked: what follows each row that has logits. Logits (V) of such a row, or of the last draft;
 * hidden (H) of a row of the last call. A copy of the state: the caller frees it. */
sb_status sb_gpu_step_tokens(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_gpu_step_picked(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_gpu_step_logits(sb_gpu_step *step, size_t row, float *logits, sb_error *err);
sb_status sb_gpu_step_hidden(sb_gpu_step *step, size_t row, float *hidden, sb_error *err);
sb_status sb_gpu_step_state(sb_gpu_step *step, sb_state **out, sb_error *err);

/* Y-74: whether launches that bring, fetch or allocate anything are refused from now on. */
void sb_gpu_step_seal(sb_gpu_step *step, int sealed);

/* Y-19: whether every kernel is launched by the host from now on, also where a graph is there. */
void sb_gpu_step_eager(sb_gpu_step *step, int eager);

/* Of either: NULL where this program was built without the compiler. */
typedef struct sb_gpu_step_calls sb_gpu_step_calls;
const sb_gpu_step_calls *sb_gpu_step_calls_emu(const sb_backend *backend);
const sb_gpu_step_calls *sb_gpu_step_calls_gpu(const sb_backend *backend);

#ifdef __cplusplus
}
#endif

#endif
