/* nothing.h - what stands where a trace was expected. */
#ifndef SB_TRACE_NOTHING_H
#define SB_TRACE_NOTHING_H

#include "ref/base/status.h"

/* The path has no trace.json: says what it is instead, and what would be right. Never SB_OK. */
sb_status sb_trace_nothing(const char *path, sb_error *err);

/* Whether a file of a folder is one of the steps of a trace. */
int sb_trace_is_step(const char *name);

#endif
