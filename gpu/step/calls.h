/* calls.h - a set of implementations of the functions of step.h. step.cc defines one set for the
 * emulator and one for a device. */
#ifndef SB_GPU_STEP_CALLS_H
#define SB_GPU_STEP_CALLS_H

#include "gpu/step/step.h"

struct sb_gpu_step_calls {
    sb_status (*open)(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                      const sb_gpu_step_options *options, sb_gpu_step **out, sb_error *err);
    void (*close)(sb_gpu_step *step);
    sb_status (*reset)(sb_gpu_step *step, sb_error *err);
    sb_status (*feed)(sb_gpu_step *step, const uint32_t *tokens, size_t n, sb_error *err);
    sb_status (*run)(sb_gpu_step *step, size_t rows, sb_error *err);
    sb_status (*keep)(sb_gpu_step *step, size_t kept, sb_error *err);
    sb_status (*accept)(sb_gpu_step *step, sb_error *err);
    sb_status (*kept)(sb_gpu_step *step, size_t *kept, sb_error *err);
    sb_status (*draft)(sb_gpu_step *step, size_t at, sb_error *err);
    sb_status (*put)(sb_gpu_step *step, size_t at, const uint32_t *drafts, size_t n, sb_error *err);
    sb_status (*tokens)(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err);
    sb_status (*picked)(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err);
    sb_status (*logits)(sb_gpu_step *step, size_t row, float *logits, sb_error *err);
    sb_status (*hidden)(sb_gpu_step *step, size_t row, float *hidden, sb_error *err);
    sb_status (*state)(sb_gpu_step *step, sb_state **out, sb_error *err);
    sb_status (*token)(sb_gpu_step *step, uint32_t token, sb_error *err);
    /* Writes the logits (count, V) of rows of the last call. Rows whose logits the call has not
     * computed, or a draft has overwritten, are computed from their hidden vectors. */
    sb_status (*logits_of)(sb_gpu_step *step, size_t row, size_t count, float *logits,
                           sb_error *err);
    /* The resident array (resident.h of gpu/op) with the logits of a row of the last call and of
     * the rows after it; of the last draft. NULL if the step has not computed them, or has
     * overwritten them. */
    const float *(*logits_place)(const sb_gpu_step *step, size_t row);
    const float *(*draft_place)(const sb_gpu_step *step);
    /* Continues from a state of the model; with a head if the step has one. SB_ERR_USAGE if it has
     * more positions than the step, or keys or values that the cache (K-24) cannot hold exactly. */
    sb_status (*set_state)(sb_gpu_step *step, const sb_state *state, sb_error *err);
    int (*has_mtp)(const sb_gpu_step *step);
    void (*seal)(sb_gpu_step *step, int sealed);
    void (*eager)(sb_gpu_step *step, int eager);
};

/* The first member of the step type of each set. */
struct sb_resident_sequence {
    const sb_gpu_step_calls *calls;
};

#endif
