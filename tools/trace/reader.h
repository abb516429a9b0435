/* reader.h - inside of a trace that is open; for read.c, read_list.c and read_step.c. */
#ifndef SB_TRACE_READER_H
#define SB_TRACE_READER_H

#include "ref/container/json.h"
#include "tools/trace/read.h"
#include "tools/trace/trace_file.h"

struct sb_trace {
    char *dir;
    sb_trace_head head;
    unsigned claimed;  /* the level that trace.json says */
    sb_step *steps;    /* (count) outlines: all but the arrays */
    uint64_t *tensors; /* (count) of the step's file; 0: it has none */
    size_t count, rows;
};

enum {
    SB_TRACE_MAX_SEQUENCES = 1 << 20,
    SB_TRACE_MAX_SLOTS = 1 << 20,
    SB_TRACE_MAX_VOCAB = 1 << 24 /* ids are exact in binary32 */
};

/* The head and the outlines out of a text; `file` names it in messages. What was read is released
 * by sb_trace_close also where it fails. */
sb_status sb_trace_read_list(const char *text, size_t size, const char *file, sb_trace *out,
                             sb_error *err);

/* The arrays of step i out of the bytes of its file. */
sb_status sb_trace_read_arrays(const sb_trace *trace, size_t i, const unsigned char *bytes,
                               size_t size, const char *file, sb_step *out, sb_error *err);

#endif
