/* live.h - runs an engine of this program and reports the steps that a trace of it would hold. */
#ifndef SB_CLI_LIVE_H
#define SB_CLI_LIVE_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"
#include "tools/cli/request.h"
#include "tools/judge/trace/step.h"

typedef struct sb_live {
    const sb_backend *backend; /* NULL: the reference */
    sb_knobs knobs;            /* the engine's knobs; may differ from the request's */
    sb_op_hook fault;          /* planted; NULL: none */
    void *fault_ctx;
    const char *taps;         /* taps with data: "all" */
    int states;               /* 1: states with their data before every call */
    uint64_t rows;            /* rows per call while feeding tokens */
    const sb_eagle3 *drafter; /* makes the drafts; NULL: the head does */
} sb_live;

/* Feeds all sequences of the request in calls of `rows` tokens. Then generates the requested
 * tokens: by decode calls, or by rounds if the request has drafts. Passes each call to `take` as a
 * step. The same request gives the same steps again. */
sb_status sb_live_run(const sb_model *model, const sb_request *request, const sb_live *live,
                      sb_step_fn take, void *ctx, sb_error *err);

#endif
