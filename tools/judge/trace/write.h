/* write.h - writes a trace folder, step by step: docs/trace.md.
 *
 * Every step file is written under a temporary name and renamed. trace.json grows in a temporary
 * file and gets its name at the end. So a folder without trace.json is an unfinished trace. */
#ifndef SB_TRACE_WRITE_H
#define SB_TRACE_WRITE_H

#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

typedef struct sb_trace_writer sb_trace_writer;

/* The folder must be empty or absent; its parent must exist. */
sb_status sb_trace_begin(const char *dir, const sb_trace_head *head, sb_trace_writer **out,
                         sb_error *err);

/* An sb_step_fn: ctx is the writer. Call it in the order of the steps, from number 0 on. */
sb_status sb_trace_write(void *writer, const sb_step *step, sb_error *err);

/* Writes trace.json. */
sb_status sb_trace_commit(sb_trace_writer *writer, sb_error *err);

/* NULL is allowed. Without a commit the folder stays as it is. */
void sb_trace_writer_free(sb_trace_writer *writer);

#endif
