/* stepped.h - a run whose calls are steps of gpu/step: run --step, and the default of --backend
 * gpu. Where a step cannot compute the run, it goes op by op, and a note on stderr says why. */
#ifndef SB_CLI_STEPPED_H
#define SB_CLI_STEPPED_H

#include "gpu/step/step.h"
#include "tools/cli/request.h"

typedef struct sb_stepped {
    sb_gpu_step *step; /* NULL: op by op */
    sb_resident resident;
    char why[256]; /* why a run that would be on steps goes op by op; "": it does not */
} sb_stepped;

/* Opens a step for all sequences of the request, if the run is to be on steps. They continue after
 * `before` positions, with the MTP head if `mtp`. */
sb_status sb_stepped_open(const sb_model *model, const sb_request *request, uint64_t before,
                          int mtp, sb_stepped *out, sb_error *err);

/* The step turned out not to support the model: closes it, and says why. */
void sb_stepped_give_up(sb_stepped *stepped, const sb_error *why);
void sb_stepped_close(sb_stepped *stepped);

#endif
