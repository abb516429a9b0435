/* op_faults.h - one mistake of one kind in one op, planted through the hook of a session.
 *
 * For each pair of an op and a kind of op_kinds.def, lists/ops.def gives the fault, or the reason
 * why there is none. A fault changes inputs, parameters or outputs of the op and leaves the rest to
 * the backend's op table, so that nothing else is wrong. */
#ifndef SB_FAULT_OP_FAULTS_H
#define SB_FAULT_OP_FAULTS_H

#include "tools/judge/fault/mistakes.h"
#include "tools/judge/fault/planted.h"

enum { SB_EVERY_LAYER = 0x7ffffffe };

/* The last row of an output in the last call of an op. */
typedef struct sb_plant_memory {
    uint32_t layer;
    const char *name;
    size_t slot, output, width;
    float *row;
    uint32_t *ids;
} sb_plant_memory;

/* A fault of an op, and the calls in which it is planted. */
typedef struct sb_plant {
    const sb_planted *fault; /* NULL: none */
    uint32_t layer;          /* SB_EVERY_LAYER, SB_NO_LAYER, or a number */
    const char *name;        /* name of the output; NULL: all calls of the op */
    unsigned kinds;          /* a bit per sb_call_kind; 0: all */
    uint64_t from, end;      /* range of the position of a call's first row; end 0: no end */
    sb_op_hook next;         /* runs the calls without the fault, or NULL */
    void *next_ctx;
    size_t ran; /* number of calls in which it was planted */
    sb_plant_memory *memory;
    size_t memories, memory_room;
} sb_plant;

/* An sb_op_hook; ctx is a sb_plant. */
sb_status sb_plant_hook(void *ctx, const sb_op_call *call);

/* Runs the call with other arguments. */
sb_status sb_plant_run_with(const sb_op_call *call, const void *args);

/* Frees the memory of the hook. */
void sb_plant_clear(sb_plant *plant);

#endif
