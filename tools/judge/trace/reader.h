/* reader.h - the members of an open trace; for read.c, read_list.c and read_step.c. */
#ifndef SB_TRACE_READER_H
#define SB_TRACE_READER_H

#include "ref/container/json.h"
#include "tools/judge/trace/read.h"
#include "tools/judge/trace/trace_file.h"

struct sb_trace {
    char *dir;
    sb_trace_head head;
    unsigned claimed;  /* the level stated in trace.json */
    sb_step *steps;    /* (count) outlines: everything except the arrays */
    uint64_t *tensors; /* (count) tensors in the step's file; 0: no file */
    size_t count, rows;
};

enum {
    SB_TRACE_MAX_SEQUENCES = 1 << 20,
    SB_TRACE_MAX_SLOTS = 1 << 20,
    SB_TRACE_MAX_BLOCK = 1 << 20,
    SB_TRACE_MAX_VOCAB = 1 << 24 /* ids are exact in binary32 */
};

/* Reads the head and the outlines from a text; `file` is its name in messages. After an error, too,
 * sb_trace_close frees what was read. */
sb_status sb_trace_read_list(const char *text, size_t size, const char *file, sb_trace *out,
                             sb_error *err);

/* Reads the arrays of step i from the bytes of its file. */
sb_status sb_trace_read_arrays(const sb_trace *trace, size_t i, const unsigned char *bytes,
                               size_t size, const char *file, sb_step *out, sb_error *err);

#endif
