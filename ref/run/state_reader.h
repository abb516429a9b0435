/* state_reader.h - a state file while it is read. Used by state_read.c, state_tensors.c and
 * state_bare.c. */
#ifndef SB_RUN_STATE_READER_H
#define SB_RUN_STATE_READER_H

#include "ref/container/safetensors.h"
#include "ref/run/state_file.h"
#include "ref/run/state_text.h"

typedef struct sb_state_reader {
    const char *path;
    const sb_safetensors *in;
    int bare; /* 1: a file without metadata, whose elements may have any plain float type */
    const char *values[SB_STATE_KEY_COUNT];
    sb_state_file *out;
    sb_error *err;
} sb_state_reader;

/* The tensor of this name, or NULL. */
const sb_tensor *sb_state_find_tensor(const sb_state_reader *r, const char *name);

/* SB_OK if the file has exactly the tensors of `sizes`, a state without arrays. Called before
 * memory is allocated, so that the metadata cannot claim more than the file holds. */
sb_status sb_state_check_tensors(const sb_state_reader *r, const sb_state *sizes);

/* Makes r->out->state from the tensors. Refuses an element that is not finite. */
sb_status sb_state_fill(const sb_state_reader *r, const sb_state *sizes);

#endif
