/* op_faults.h - one mistake of one kind in one op, planted through the hook of a session.
 *
 * ops.def times op_fault_kinds.def: op_faults.def says for each pair what is done, or why there is
 * nothing to do. A planted fault changes inputs, parameters or outputs of the op and leaves the
 * rest to the op table of the backend, so that nothing but the fault is wrong. */
#ifndef SB_FAULT_OP_FAULTS_H
#define SB_FAULT_OP_FAULTS_H

#include "ref/run/hook.h"
#include "tools/fault/mistakes.h"

typedef enum sb_op_fault_kind {
#define SB_OP_FAULT_KIND(id, words) SB_OP_FAULT_##id,
#include "tools/fault/op_fault_kinds.def"
#undef SB_OP_FAULT_KIND
    SB_OP_FAULT_KINDS
} sb_op_fault_kind;
const char *sb_op_fault_kind_name(sb_op_fault_kind kind);
const char *sb_op_fault_kind_words(sb_op_fault_kind kind);

struct sb_plant;

typedef struct sb_op_fault {
    sb_op op;
    sb_op_fault_kind kind;
    const char *name;  /* "linear.dropped" */
    const char *field; /* the argument that it changes, or "" */
    const char *words; /* what it does; or why there is no such fault */
    /* NULL: the op has no fault of this kind */
    sb_status (*run)(struct sb_plant *plant, const sb_op_call *call);
} sb_op_fault;

size_t sb_op_fault_count(void);
const sb_op_fault *sb_op_fault_at(size_t i);
const sb_op_fault *sb_op_fault_find(const char *name); /* NULL: there is none of that name */

enum { SB_EVERY_LAYER = 0x7ffffffe };

/* What the last call of an op left in its output. */
typedef struct sb_plant_memory {
    uint32_t layer;
    const char *name;
    size_t slot, output, width;
    float *row;
    uint32_t *ids;
} sb_plant_memory;

/* Where a fault is planted: one of `fault` and `mistake`, and which calls have it. */
typedef struct sb_plant {
    const sb_op_fault *fault;
    const sb_mistake *mistake;
    uint32_t layer;     /* SB_EVERY_LAYER, SB_NO_LAYER, or a number */
    const char *name;   /* of the output; NULL: all calls of the op */
    unsigned kinds;     /* a bit per sb_call_kind; 0: all */
    uint64_t from, end; /* calls whose first row stands there; end 0: no end */
    sb_op_hook next;    /* who runs what is not planted, or NULL */
    void *next_ctx;
    size_t ran; /* counts: in how many calls it was planted */
    sb_plant_memory *memory;
    size_t memories, memory_room;
} sb_plant;

/* An sb_op_hook; ctx is a sb_plant. */
sb_status sb_plant_hook(void *ctx, const sb_op_call *call);

/* Releases what the hook remembers. */
void sb_plant_clear(sb_plant *plant);

#endif
