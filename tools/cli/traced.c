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
        out->drafter = r->given                                     ? SB_TRACE_DRAFTER_external
                       : r->rounds.acceptance == SB_ACCEPT_residual ? SB_TRACE_DRAFTER_sampled
                                                                    : SB_TRACE_DRAFTER_own;
    }
    return sb_checkpoint_digest(model->checkpoint, &out->checkpoint, err);
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
    const sb_capture_options options = {.taps = r->taps ? r->taps : "logits,mtp.logits",
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
