/* state_reader.h - one state file being read; for state_read.c, state_tensors.c and state_bare.c.
 */
#ifndef SB_RUN_STATE_READER_H
#define SB_RUN_STATE_READER_H

#include "ref/container/safetensors.h"
#include "ref/run/state_file.h"
#include "ref/run/state_text.h"

typedef struct sb_state_reader {
    const char *path;
    const sb_safetensors *in;
    int bare; /* a file without metadata: elements of any plain float type */
    const char *values[SB_STATE_KEY_COUNT];
    sb_state_file *out;
    sb_error *err;
} sb_state_reader;

/* The tensor of this name, or NULL. */
const sb_tensor *sb_state_find_tensor(const sb_state_reader *r, const char *name);

/* Whether the file has the tensors that `sizes` (a state without arrays) asks for, and no other.
 * Before memory is taken: what the metadata claim is then no more than what the file holds. */
sb_status sb_state_check_tensors(const sb_state_reader *r, const sb_state *sizes);

/* Makes r->out->state of them. An element that is not finite is refused. */
sb_status sb_state_fill(const sb_state_reader *r, const sb_state *sizes);

#endif
