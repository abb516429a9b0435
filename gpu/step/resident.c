/* resident.c - a step as the sequence of a session. */
#include "gpu/step/calls.h"

static sb_status reset(void *sequence, sb_error *err)
{
    return sb_gpu_step_reset(sequence, err);
}

static sb_status feed(void *sequence, const uint32_t *tokens, size_t n, sb_error *err)
{
    return sb_gpu_step_feed(sequence, tokens, n, err);
}

static sb_status verify(void *sequence, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = sb_gpu_step_token(sequence, tokens[0], err);
    if (!status && n > 1)
        status = sb_gpu_step_put(sequence, 0, tokens + 1, n - 1, err);
    return status ? status : sb_gpu_step_run(sequence, n, err);
}

static sb_status keep(void *sequence, size_t kept, sb_error *err)
{
    return sb_gpu_step_keep(sequence, kept, err);
}

/* Draft `at` comes from the token before it: that of the next call, or draft at - 1. */
static sb_status draft(void *sequence, size_t at, uint32_t token, float *logits, sb_error *err)
{
    sb_status status = at ? sb_gpu_step_put(sequence, at - 1, &token, 1, err)
                          : sb_gpu_step_token(sequence, token, err);
    if (!status)
        status = sb_gpu_step_draft(sequence, at, err);
    return status ? status : sb_gpu_step_logits(sequence, 0, logits, err);
}

static sb_status logits_of(void *sequence, size_t row, size_t count, float *logits, sb_error *err)
{
    return sb_gpu_step_logits_of(sequence, row, count, logits, err);
}

static const float *logits_place(const void *sequence, size_t row)
{
    return sb_gpu_step_logits_place(sequence, row);
}

static const float *draft_place(const void *sequence)
{
    return sb_gpu_step_draft_place(sequence);
}

static sb_status state(void *sequence, sb_state **out, sb_error *err)
{
    return sb_gpu_step_state(sequence, out, err);
}

static sb_status set_state(void *sequence, const sb_state *from, sb_error *err)
{
    return sb_gpu_step_set_state(sequence, from, err);
}

sb_resident sb_gpu_step_resident(sb_gpu_step *step)
{
    return (sb_resident){.sequence = step,
                         .mtp = step->calls->has_mtp(step),
                         .reset = reset,
                         .feed = feed,
                         .verify = verify,
                         .keep = keep,
                         .draft = draft,
                         .logits = logits_of,
                         .logits_place = logits_place,
                         .draft_place = draft_place,
                         .state = state,
                         .set_state = set_state};
}
