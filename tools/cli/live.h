/* live.h - an engine of this program at work, seen step by step: what a trace of it would hold. */
#ifndef SB_CLI_LIVE_H
#define SB_CLI_LIVE_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"
#include "tools/cli/request.h"
#include "tools/trace/step.h"

typedef struct sb_live {
    const sb_backend *backend; /* NULL: the reference */
    sb_knobs knobs;            /* of the engine, which need not be those of the request */
    sb_op_hook fault;          /* planted; NULL: none */
    void *fault_ctx;
    const char *taps; /* whose data is kept: "all" */
    int states;       /* with their data before every call */
    uint64_t rows;    /* of one call while tokens are fed */
} sb_live;

/* Feeds all sequences of the request, calls of `rows` tokens, then generates as much as it asks
 * for: decode calls, or rounds where it asks for drafts. Each call is handed on as a step. The same
 * request gives the same steps again. */
sb_status sb_live_run(const sb_model *model, const sb_request *request, const sb_live *live,
                      sb_step_fn take, void *ctx, sb_error *err);

#endif
