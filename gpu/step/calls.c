/* calls.c - each function of step.h calls the function of the same name in the step's set. */
#include "gpu/step/calls.h"

sb_status sb_gpu_step_open(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                           const sb_gpu_step_options *options, sb_gpu_step **out, sb_error *err)
{
    const sb_gpu_step_calls *calls = sb_gpu_step_calls_emu(backend);
    if (!calls)
        calls = sb_gpu_step_calls_gpu(backend);
    *out = NULL;
    if (!calls)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "backend %s has no steps, because steps consist of kernels", backend->name);
    return calls->open(backend, model, knobs, options, out, err);
}

void sb_gpu_step_close(sb_gpu_step *step)
{
    if (step)
        step->calls->close(step);
}

void sb_gpu_step_seal(sb_gpu_step *step, int sealed)
{
    step->calls->seal(step, sealed);
}

void sb_gpu_step_eager(sb_gpu_step *step, int eager)
{
    step->calls->eager(step, eager);
}

sb_status sb_gpu_step_reset(sb_gpu_step *step, sb_error *err)
{
    return step->calls->reset(step, err);
}

sb_status sb_gpu_step_feed(sb_gpu_step *step, const uint32_t *tokens, size_t n, sb_error *err)
{
    return step->calls->feed(step, tokens, n, err);
}

sb_status sb_gpu_step_run(sb_gpu_step *step, size_t rows, sb_error *err)
{
    return step->calls->run(step, rows, err);
}

sb_status sb_gpu_step_keep(sb_gpu_step *step, size_t kept, sb_error *err)
{
    return step->calls->keep(step, kept, err);
}

sb_status sb_gpu_step_accept(sb_gpu_step *step, sb_error *err)
{
    return step->calls->accept(step, err);
}

sb_status sb_gpu_step_kept(sb_gpu_step *step, size_t *kept, sb_error *err)
{
    return step->calls->kept(step, kept, err);
}

sb_status sb_gpu_step_draft(sb_gpu_step *step, size_t at, sb_error *err)
{
    return step->calls->draft(step, at, err);
}

sb_status sb_gpu_step_put(sb_gpu_step *step, size_t at, const uint32_t *drafts, size_t n,
                          sb_error *err)
{
    return step->calls->put(step, at, drafts, n, err);
}

sb_status sb_gpu_step_tokens(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err)
{
    return step->calls->tokens(step, tokens, n, err);
}

sb_status sb_gpu_step_picked(sb_gpu_step *step, uint32_t *tokens, size_t n, sb_error *err)
{
    return step->calls->picked(step, tokens, n, err);
}

sb_status sb_gpu_step_logits(sb_gpu_step *step, size_t row, float *logits, sb_error *err)
{
    return step->calls->logits(step, row, logits, err);
}

sb_status sb_gpu_step_hidden(sb_gpu_step *step, size_t row, float *hidden, sb_error *err)
{
    return step->calls->hidden(step, row, hidden, err);
}

sb_status sb_gpu_step_state(sb_gpu_step *step, sb_state **out, sb_error *err)
{
    return step->calls->state(step, out, err);
}

sb_status sb_gpu_step_token(sb_gpu_step *step, uint32_t token, sb_error *err)
{
    return step->calls->token(step, token, err);
}
