/* traced.h - a run that writes a trace: run --trace DIR --taps LIST. */
#ifndef SB_CLI_TRACED_H
#define SB_CLI_TRACED_H

#include "tools/cli/request.h"
#include "tools/judge/trace/capture.h"
#include "tools/judge/trace/write.h"

typedef struct sb_traced {
    sb_trace_writer *writer;
    sb_capture *capture; /* NULL: no trace was requested */
} sb_traced;

/* Opens the folder of --trace and the capture that records sessions to it; nothing without the
 * option. */
sb_status sb_traced_begin(const sb_model *model, const sb_request *request, sb_traced *out,
                          sb_error *err);

/* Call this after all sequences have run. */
sb_status sb_traced_commit(sb_traced *traced, sb_error *err);
void sb_traced_free(sb_traced *traced);

#endif
