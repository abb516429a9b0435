/* nothing.h - describes a path that should be a trace and is not. */
#ifndef SB_TRACE_NOTHING_H
#define SB_TRACE_NOTHING_H

#include "ref/base/status.h"

/* For a path without trace.json: the error says what the path is instead, and what to do. Never
 * SB_OK. */
sb_status sb_trace_nothing(const char *path, sb_error *err);

/* True for the name of a step file of a trace. */
int sb_trace_is_step(const char *name);

#endif
