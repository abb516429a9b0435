/* protocol.h - test vectors for kernels with a state: several calls over one pool of state slots,
 * prompts and verifies of drafts mixed as engines mix them, with padding, rejected drafts, slots
 * that change hands, and hostile memory around all of it (docs/gates/protocol.md).
 *
 * A protocol is a pure function of its request. Arrays here are in one order of elements; what an
 * engine's tensors are made of, protocol_layout.c says. */
#ifndef SB_GATE_PROTOCOL_H
#define SB_GATE_PROTOCOL_H

#include "ref/container/safetensors.h"
#include "tools/gate/gate.h"

enum {
    SB_PROTOCOL_ROWS = 4, /* of a verify: three drafts and the token before them */
    SB_PROTOCOL_SEQUENCES = 5,
    SB_PROTOCOL_ENTRIES = SB_PROTOCOL_SEQUENCES + 1,
    SB_PROTOCOL_INPUTS = 5,
    SB_PROTOCOL_MOST_ROUNDS = 64
};

typedef struct sb_protocol_request {
    const char *layout, *op, *regime; /* NULL: vllm, delta_rule, normal */
    uint64_t rounds, seed;            /* 0 rounds: 8 */
    int chained;                      /* the kernel goes on from its own states */
} sb_protocol_request;

/* What an engine's tensors look like. */
typedef struct sb_protocol_layout {
    const char *name;
    const char *source;  /* where it was read */
    int pool;            /* states lie in slots, named by indices; else one per entry */
    int null_slot;       /* slot 0 is nobody's, and an index of padding */
    int padded;          /* (entry, token) instead of rows one behind the other */
    int mask;            /* and a mask tells which are there; else all entries are as long */
    int alpha;           /* g is given as exp(g) */
    int scaled;          /* q comes scaled; else the kernel scales by dk^-1/2 */
    float scale;         /* or by this, where it is an argument and dk has no exact root; 0: not */
    int tiled;           /* value head i reads key head i mod nK (docs/state.md) */
    int value_first;     /* states are (nV, dv, dk) */
    int flat;            /* (row, head, column), without an axis for the batch */
    int prompts;         /* prompts only: no drafts, no padding; the caller clears new slots */
    int channels_first;  /* columns of the convolution are the last dimension */
    size_t dk, dv;       /* that its kernels take */
    size_t history;      /* columns in a convolution's state */
    sb_dtype activation; /* of q, k, v and x, and of the convolution's states */
    const char *rule_state[2], *conv_state[2]; /* names, before and after a round */
    const char *lengths, *indices[2], *x;      /* cu_seqlens; of the delta rule's slots, conv's */
} sb_protocol_layout;

const sb_protocol_layout *sb_protocol_layout_find(const char *name);
const sb_protocol_layout *sb_protocol_layout_at(size_t i); /* NULL behind the last */

/* A sequence's part of a round. */
typedef struct sb_protocol_entry {
    int sequence; /* -1: padding */
    size_t first, rows;
    int32_t slot[SB_PROTOCOL_ROWS]; /* delta rule: where row i leaves its state; conv: slot[0] */
    unsigned accepted;              /* of the rows of its last verify; 1 behind a prompt */
    int started;                    /* it has a state; else it begins with zeros */
    int runs;
} sb_protocol_entry;

typedef struct sb_protocol_round {
    int verify;                 /* else prompts */
    size_t entries, rows, used; /* rows behind those of the entries are padding, too */
    sb_protocol_entry entry[SB_PROTOCOL_ENTRIES];
    float *in[SB_PROTOCOL_INPUTS]; /* (rows, heads, width) q, k, v, g, beta; or x */
    unsigned char *real_row;       /* (rows) 1: of an entry that runs */
    float *before, *after;         /* (slots, size): profile exact */
    unsigned char *written;        /* (slots, size) 1: it belongs to a state that was left */
    float *out;                    /* (rows, width) profile exact */
    sb_dd *real_out, *real_after;
    double *bound_out, *bound_after;
} sb_protocol_round;

typedef struct sb_protocol {
    const sb_protocol_layout *layout;
    int conv, chained;
    sb_gate_regime regime;
    uint64_t seed;
    size_t k_heads, v_heads, dk, dv; /* delta rule */
    size_t channels, taps, columns;  /* convolution; columns of a window in a slot */
    size_t inputs, heads[SB_PROTOCOL_INPUTS], width[SB_PROTOCOL_INPUTS];
    size_t out_heads, out_width;
    size_t row, slots, size; /* slots of a sequence, of the pool; elements of a slot */
    float *weight;           /* (channels, taps) */
    size_t rounds;
    sb_protocol_round *round;
} sb_protocol;

/* Plans and draws, and runs profile exact on it by the ops of a table. */
sb_status sb_protocol_make(const sb_protocol_request *request, const sb_op_table *ops,
                           sb_protocol **out, sb_error *err);
void sb_protocol_free(sb_protocol *p);

/* Fills real_* and bound_*. */
sb_status sb_protocol_expect(sb_protocol *p, const sb_gate_arith *ar, sb_error *err);

/* Parts of make and expect: protocol_run.c. */
sb_status sb_protocol_exact(const sb_protocol *p, sb_protocol_round *r, const sb_op_table *ops);
float sb_protocol_scale(const sb_protocol *p); /* of q in the kernel */

/* The columns of a slot, (count, channels), that a row of an entry leaves; -1: that it begins with.
 */
size_t sb_protocol_window(const sb_protocol *p, const sb_protocol_round *r,
                          const sb_protocol_entry *e, int row);
/* The same for a state of the delta rule: its slot. */
size_t sb_protocol_slot(const sb_protocol_round *r, const sb_protocol_entry *e, int row);

/* --- tensors --------------------------------------------------------------------------------- */

typedef enum sb_protocol_kind {
    SB_PROTOCOL_INPUT,  /* in[which] */
    SB_PROTOCOL_WEIGHT, /* of the convolution */
    SB_PROTOCOL_BEFORE,
    SB_PROTOCOL_NUMBER, /* which: a row of sb_protocol_number */
    SB_PROTOCOL_OUT,
    SB_PROTOCOL_AFTER
} sb_protocol_kind;
enum {
    SB_PROTOCOL_LENGTHS,
    SB_PROTOCOL_INDICES,
    SB_PROTOCOL_ACCEPTED,
    SB_PROTOCOL_STARTED,
    SB_PROTOCOL_MASK
};

typedef struct sb_protocol_tensor {
    sb_protocol_kind kind;
    size_t which;
    const char *name, *axes;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    size_t count;
} sb_protocol_tensor;

enum { SB_PROTOCOL_TENSORS = 16 };

/* Those of a round, inputs first, the outputs last. */
size_t sb_protocol_tensors(const sb_protocol *p, const sb_protocol_round *r,
                           sb_protocol_tensor out[SB_PROTOCOL_TENSORS]);

/* Element i of a tensor is this element of its array here; -1: padding; -2: a zero. */
enum { SB_PROTOCOL_PAD = -1, SB_PROTOCOL_ZERO = -2 };
int64_t sb_protocol_place(const sb_protocol *p, const sb_protocol_round *r,
                          const sb_protocol_tensor *t, size_t i);
int32_t sb_protocol_number(const sb_protocol_round *r, const sb_protocol_tensor *t, size_t i);

/* --- files ----------------------------------------------------------------------------------- */

/* A tensor of the file. */
typedef struct sb_protocol_part {
    char name[80];
    const char *axes;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
    unsigned char *bytes;
    size_t size;
} sb_protocol_part;

/* All of them, of a protocol of which everything is known. */
sb_status sb_protocol_parts(const sb_protocol *p, sb_protocol_part **out, size_t *count,
                            sb_error *err);
void sb_protocol_parts_free(sb_protocol_part *parts, size_t count);

sb_status sb_protocol_write(sb_protocol *p, const sb_gate_arith *ar, const char *path,
                            sb_error *err);

/* 1 if a file of vectors holds a protocol. */
int sb_protocol_is(const sb_safetensors *file);

/* Makes the protocol of a file again and refuses any other content of it. *ar is what the file was
 * written for; named: NULL, or another arithmetic. */
sb_status sb_protocol_read(const char *path, const char *named, sb_protocol **out,
                           sb_gate_arith *ar, sb_error *err);

typedef struct sb_protocol_result {
    int fail;
    size_t count, identical, outside, changed; /* changed: bits of memory that nobody owns */
    double worst;
    char words[512];
} sb_protocol_result;

/* got holds "round.R.NAME" of every output of every round. */
sb_status sb_protocol_judge_got(const sb_protocol *p, const sb_gate_arith *ar,
                                const sb_safetensors *got, sb_protocol_result *out, sb_error *err);
sb_status sb_protocol_judge(const char *path, const char *got_path, const char *named,
                            sb_protocol_result *out, sb_error *err);

#endif
