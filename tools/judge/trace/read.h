/* read.h - reads a trace folder of any engine and checks it in full: docs/trace.md.
 *
 * Opening reads and checks trace.json. The arrays of a step are read on request, so only those of
 * one step are in memory. Values are converted to binary32 from any dtype; a NaN stays a NaN.
 * Messages name file, step, row, the found and the expected value. */
#ifndef SB_TRACE_READ_H
#define SB_TRACE_READ_H

#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

typedef struct sb_trace sb_trace;

sb_status sb_trace_open(const char *dir, sb_trace **out, sb_error *err);
void sb_trace_close(sb_trace *trace); /* NULL is allowed */

const sb_trace_head *sb_trace_info(const sb_trace *trace);
size_t sb_trace_steps(const sb_trace *trace);
size_t sb_trace_rows(const sb_trace *trace);

/* Rows, rounds and states of step i without their arrays; the trace owns them. */
const sb_step *sb_trace_outline(const sb_trace *trace, size_t i);

/* Step i with all its arrays; the caller frees it with sb_step_clear. */
sb_status sb_trace_step(const sb_trace *trace, size_t i, sb_step *out, sb_error *err);

/* Passes all steps to `take`, one after the other. */
sb_status sb_trace_play(const sb_trace *trace, sb_step_fn take, void *ctx, sb_error *err);

/* The same. Before a step in which a sequence continues another one, also passes the steps that fed
 * its prefix, as steps of that sequence (`again`, prefix.h). For comparisons, which then know the
 * state that the sequence begins with. */
sb_status sb_trace_play_again(const sb_trace *trace, sb_step_fn take, void *ctx, sb_error *err);

#endif
