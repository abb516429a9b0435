/* read.h - a trace folder of any engine, checked in full before it is believed: docs/trace.md.
 *
 * Opening reads trace.json and checks it; the arrays of a step are read when it is asked for, so
 * one step of them is in memory at a time. Values come as binary32, whatever their dtype; a NaN
 * stays one. Messages name file, step, row, what was found and what was expected. */
#ifndef SB_TRACE_READ_H
#define SB_TRACE_READ_H

#include "tools/trace/head.h"
#include "tools/trace/step.h"

typedef struct sb_trace sb_trace;

sb_status sb_trace_open(const char *dir, sb_trace **out, sb_error *err);
void sb_trace_close(sb_trace *trace); /* NULL is fine */

const sb_trace_head *sb_trace_info(const sb_trace *trace);
size_t sb_trace_steps(const sb_trace *trace);
size_t sb_trace_rows(const sb_trace *trace);

/* Rows, rounds and states of step i without their arrays; the trace owns them. */
const sb_step *sb_trace_outline(const sb_trace *trace, size_t i);

/* Step i with all its arrays; sb_step_clear releases it. */
sb_status sb_trace_step(const sb_trace *trace, size_t i, sb_step *out, sb_error *err);

/* Hands all steps on, one after the other. */
sb_status sb_trace_play(const sb_trace *trace, sb_step_fn take, void *ctx, sb_error *err);

#endif
