/* sampling_json.h - an entry of a step's list `sampling` in trace.json (U-12). */
#ifndef SB_TRACE_SAMPLING_JSON_H
#define SB_TRACE_SAMPLING_JSON_H

#include "ref/container/json.h"
#include "tools/judge/trace/sampling.h"

/* Reads all keys except `sequence`, and refuses unknown ones. */
sb_status sb_sampling_read(const sb_json_object *object, sb_step_sampling *out, sb_error *err);

json_t *sb_sampling_json(const sb_step_sampling *sampling);

#endif
