/* resident.c - a step as the sequence of a session. Most functions of a session's sequence are
 * those of the step's set. */
#include "gpu/step/calls.h"

static sb_status verify(sb_gpu_step *step, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = sb_gpu_step_token(step, tokens[0], err);
    if (!status && n > 1)
        status = sb_gpu_step_put(step, 0, tokens + 1, n - 1, err);
    return status ? status : sb_gpu_step_run(step, n, err);
}

/* Draft `at` comes from the token before it: that of the next call, or draft at - 1. */
static sb_status draft(sb_gpu_step *step, size_t at, uint32_t token, float *logits, sb_error *err)
{
    sb_status status =
        at ? sb_gpu_step_put(step, at - 1, &token, 1, err) : sb_gpu_step_token(step, token, err);
    if (!status)
        status = sb_gpu_step_draft(step, at, err);
    return status ? status : sb_gpu_step_logits(step, 0, logits, err);
}

sb_resident sb_gpu_step_resident(sb_gpu_step *step)
{
    const sb_gpu_step_calls *calls = step->calls;
    return (sb_resident){.sequence = step,
                         .mtp = calls->has_mtp(step),
                         .reset = calls->reset,
                         .feed = calls->feed,
                         .verify = verify,
                         .keep = calls->keep,
                         .draft = draft,
                         .logits = calls->logits_of,
                         .logits_place = calls->logits_place,
                         .draft_place = calls->draft_place,
                         .state = calls->state,
                         .set_state = calls->set_state};
}
