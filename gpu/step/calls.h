/* calls.h - the functions of step.h, of which there are two sets: step.cc makes each, for the
 * emulator and for a device. */
#ifndef SB_GPU_STEP_CALLS_H
#define SB_GPU_STEP_CALLS_H

#include "gpu/step/step.h"

struct sb_step_calls {
    sb_status (*open)(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                      const sb_step_options *options, sb_step **out, sb_error *err);
    void (*close)(sb_step *step);
    sb_status (*reset)(sb_step *step, sb_error *err);
    sb_status (*feed)(sb_step *step, const uint32_t *tokens, size_t n, sb_error *err);
    sb_status (*run)(sb_step *step, size_t rows, sb_error *err);
    sb_status (*keep)(sb_step *step, size_t kept, sb_error *err);
    sb_status (*accept)(sb_step *step, sb_error *err);
    sb_status (*kept)(sb_step *step, size_t *kept, sb_error *err);
    sb_status (*draft)(sb_step *step, size_t at, sb_error *err);
    sb_status (*put)(sb_step *step, size_t at, const uint32_t *drafts, size_t n, sb_error *err);
    sb_status (*tokens)(sb_step *step, uint32_t *tokens, size_t n, sb_error *err);
    sb_status (*picked)(sb_step *step, uint32_t *tokens, size_t n, sb_error *err);
    sb_status (*logits)(sb_step *step, size_t row, float *logits, sb_error *err);
    sb_status (*hidden)(sb_step *step, size_t row, float *hidden, sb_error *err);
    sb_status (*state)(sb_step *step, sb_state **out, sb_error *err);
    void (*seal)(sb_step *step, int sealed);
    void (*eager)(sb_step *step, int eager);
};

/* What either set puts first into its own. */
struct sb_step {
    const sb_step_calls *calls;
};

#endif
