#include "tools/cli/traced.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/digest.h"
#include "tools/cli/runner.h"

static sb_status make_head(const sb_model *model, const sb_request *r, sb_trace_head *out,
                           sb_error *err)
{
    *out =
        (sb_trace_head){.has_knobs = 1, .knobs = r->knobs, .vocab_size = model->config.vocab_size};
    snprintf(out->engine, sizeof out->engine, "samebit %s", r->backend);
    snprintf(out->arithmetic, sizeof out->arithmetic, "%s",
             strcmp(r->backend, "ref") == 0 ? "exact" : "library");
    snprintf(out->profile, sizeof out->profile, "%s", r->profile);
    sb_runner runner;
    sb_status status = sb_runner_find(r->backend, &runner, err);
    if (status)
        return status;
    out->delta_chunk = sb_runner_arithmetic(&runner)->chunk;
    if (r->drafts.count) {
        (void)sb_trace_rollback_of(sb_request_way(r), &out->rollback);
        const int drawn = sb_request_is_residual(r);
        if (r->drafter.kind == SB_DRAFTER_eagle3)
            out->drafter = drawn ? SB_TRACE_DRAFTER_eagle3_sampled : SB_TRACE_DRAFTER_eagle3;
        else
            out->drafter = r->drafter.kind != SB_DRAFTER_head ? SB_TRACE_DRAFTER_external
                           : drawn                            ? SB_TRACE_DRAFTER_sampled
                                                              : SB_TRACE_DRAFTER_own;
    }
    return sb_checkpoint_digest(model->checkpoint, &out->checkpoint, err);
}

/* U-12: the sampler of the run. With drafts that are drawn, other random words than those of the
 * target's draws decide, too. */
static sb_step_sampling sampling_of(const sb_request *r)
{
    sb_step_sampling s = {.sampler = SB_SAMPLER_samebit};
    for (unsigned i = 0; i < SB_SETTINGS; i++) {
        s.has[i] = 1;
        s.value[i] = sb_setting_at((sb_setting)i)->off;
    }
    s.value[SB_SETTING_temperature] = (double)r->sampling.temperature;
    s.value[SB_SETTING_top_k] = r->sampling.top_k;
    s.value[SB_SETTING_top_p] = (double)r->sampling.top_p;
    s.value[SB_SETTING_min_p] = (double)r->sampling.min_p;
    if (r->sampling.seed >> 63)
        return s;
    s.seed_kind = SB_SEED_number;
    s.seed = r->sampling.seed;
    if (!r->drafts.count || r->rounds.acceptance != SB_ACCEPT_residual)
        s.generator = SB_GENERATOR_philox;
    return s;
}

sb_status sb_traced_begin(const sb_model *model, const sb_request *r, sb_traced *out, sb_error *err)
{
    sb_trace_head head;
    *out = (sb_traced){NULL, NULL};
    if (!r->trace)
        return SB_OK;
    sb_status status = make_head(model, r, &head, err);
    if (!status)
        status = sb_trace_begin(r->trace, &head, &out->writer, err);
    const sb_step_sampling sampling = sampling_of(r);
    const sb_capture_options options = {
        .sampling = r->sampling.temperature > 0 ? &sampling : NULL,
        .taps = r->taps ? r->taps : "logits,mtp.logits,drafter.logits,drafter.top_ids",
        .states = SB_CAPTURE_STATE_DIGESTS,
        .take = sb_trace_write,
        .take_ctx = out->writer};
    if (!status)
        status = sb_capture_new(&options, &out->capture, err);
    if (status)
        sb_traced_free(out);
    return status;
}

sb_status sb_traced_commit(sb_traced *t, sb_error *err)
{
    return t->writer ? sb_trace_commit(t->writer, err) : SB_OK;
}

void sb_traced_free(sb_traced *t)
{
    sb_capture_free(t->capture);
    sb_trace_writer_free(t->writer);
    *t = (sb_traced){NULL, NULL};
}
