/* protocol.h - test vectors for kernels with a state: several calls over one pool of state slots.
 * Prompts and verify steps of drafts are mixed as engines mix them, with padding, rejected drafts,
 * slots that change their owner, and hostile memory around everything (docs/gates/protocol.md).
 *
 * A protocol is a pure function of its request. Arrays here have one order of elements;
 * protocol_layout.c maps them to the tensors of an engine. */
#ifndef SB_GATE_PROTOCOL_H
#define SB_GATE_PROTOCOL_H

#include "ref/container/safetensors.h"
#include "tools/judge/gate/gate.h"

enum {
    SB_PROTOCOL_ROWS = 4, /* of a verify step: three drafts and the token before them */
    SB_PROTOCOL_SEQUENCES = 5,
    SB_PROTOCOL_ENTRIES = SB_PROTOCOL_SEQUENCES + 1,
    SB_PROTOCOL_INPUTS = 5,
    SB_PROTOCOL_MOST_ROUNDS = 64
};

typedef struct sb_protocol_request {
    const char *layout, *op, *regime; /* NULL: vllm, delta_rule, normal */
    uint64_t rounds, seed;            /* 0 rounds: 8 */
    int chained;                      /* the kernel continues from its own states */
} sb_protocol_request;

/* The form of an engine's tensors. */
typedef struct sb_protocol_layout {
    const char *name;
    const char *source;  /* the source from which the layout was taken */
    int pool;            /* states lie in slots, addressed by indices; else one state per entry */
    int null_slot;       /* slot 0 belongs to no sequence; padding has index 0 */
    int padded;          /* (entry, token) instead of consecutive rows */
    int mask;            /* with a mask of valid tokens; else all entries have the same length */
    int alpha;           /* g is given as exp(g) */
    int scaled;          /* the caller scales q; else the kernel scales it by dk^-1/2 */
    float scale;         /* the scale given as an argument if dk has no exact root; 0: none */
    int tiled;           /* value head i reads key head i mod nK (docs/state.md) */
    int value_first;     /* states are (nV, dv, dk) */
    int flat;            /* (row, head, column), without an axis for the batch */
    int prompts;         /* prompts only: no drafts, no padding; the caller clears new slots */
    int channels_first;  /* columns of the convolution are the last dimension */
    size_t dk, dv;       /* sizes that its kernels support */
    size_t history;      /* columns in a conv state */
    sb_dtype activation; /* type of q, k, v and x, and of the conv states */
    const char *rule_state[2], *conv_state[2]; /* names, before and after a round */
    const char *lengths, *indices[2], *x;      /* cu_seqlens; slots: delta rule, conv; conv input */
} sb_protocol_layout;

const sb_protocol_layout *sb_protocol_layout_find(const char *name);
const sb_protocol_layout *sb_protocol_layout_at(size_t i); /* NULL after the last */

/* A sequence's part of a round. */
typedef struct sb_protocol_entry {
    int sequence; /* -1: padding */
    size_t first, rows;
    int32_t slot[SB_PROTOCOL_ROWS]; /* delta rule: where row i leaves its state; conv: slot[0] */
    unsigned accepted;              /* accepted rows of its last verify step; 1 after a prompt */
    int started;                    /* it has a state; else it starts from zeros */
    int runs;
} sb_protocol_entry;

typedef struct sb_protocol_round {
    int verify;                 /* else prefill of prompts */
    size_t entries, rows, used; /* rows used .. rows - 1 are padding, too */
    sb_protocol_entry entry[SB_PROTOCOL_ENTRIES];
    float *in[SB_PROTOCOL_INPUTS]; /* (rows, heads, width) q, k, v, g, beta; or x */
    unsigned char *real_row;       /* (rows) 1: the row of an entry that runs */
    float *before, *after;         /* (slots, size): profile exact */
    unsigned char *written;        /* (slots, size) 1: part of a state that the round writes */
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
    size_t channels, taps, columns;  /* convolution; columns: of the window in a slot */
    size_t inputs, heads[SB_PROTOCOL_INPUTS], width[SB_PROTOCOL_INPUTS];
    size_t out_heads, out_width;
    size_t row, slots, size; /* slots per sequence; slots of the pool; elements per slot */
    float *weight;           /* (channels, taps) */
    size_t rounds;
    sb_protocol_round *round;
} sb_protocol;

/* Plans the rounds, draws the inputs, and computes profile exact with the ops of a table. */
sb_status sb_protocol_make(const sb_protocol_request *request, const sb_op_table *ops,
                           sb_protocol **out, sb_error *err);
void sb_protocol_free(sb_protocol *p);

/* Fills real_* and bound_*. */
sb_status sb_protocol_expect(sb_protocol *p, const sb_gate_arith *ar, sb_error *err);

/* Parts of make and expect, in protocol_run.c. */
sb_status sb_protocol_exact(const sb_protocol *p, sb_protocol_round *r, const sb_op_table *ops);
float sb_protocol_scale(const sb_protocol *p); /* the factor of q in the kernel */

/* The first element of the conv window, (count, channels), after a row of an entry; row -1: before
 * its first row. */
size_t sb_protocol_window(const sb_protocol *p, const sb_protocol_round *r,
                          const sb_protocol_entry *e, int row);
/* The same for the slot of a recurrent state. */
size_t sb_protocol_slot(const sb_protocol_round *r, const sb_protocol_entry *e, int row);

/* --- tensors ---------------------------------------------------------------------------------- */

typedef enum sb_protocol_kind {
    SB_PROTOCOL_INPUT,  /* in[which] */
    SB_PROTOCOL_WEIGHT, /* of the convolution */
    SB_PROTOCOL_BEFORE,
    SB_PROTOCOL_NUMBER, /* which: SB_PROTOCOL_LENGTHS and so on */
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

/* The tensors of a round, inputs first, outputs last. Returns their number. */
size_t sb_protocol_tensors(const sb_protocol *p, const sb_protocol_round *r,
                           sb_protocol_tensor out[SB_PROTOCOL_TENSORS]);

/* The element of the protocol's array that is element i of an engine's tensor; -1: padding; -2: a
 * zero. */
enum { SB_PROTOCOL_PAD = -1, SB_PROTOCOL_ZERO = -2 };
int64_t sb_protocol_place(const sb_protocol *p, const sb_protocol_round *r,
                          const sb_protocol_tensor *t, size_t i);
int32_t sb_protocol_number(const sb_protocol_round *r, const sb_protocol_tensor *t, size_t i);

/* --- files ------------------------------------------------------------------------------------ */

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

/* All tensors of the file, for a protocol whose expected values are computed. */
sb_status sb_protocol_parts(const sb_protocol *p, sb_protocol_part **out, size_t *count,
                            sb_error *err);
void sb_protocol_parts_free(sb_protocol_part *parts, size_t count);

sb_status sb_protocol_write(sb_protocol *p, const sb_gate_arith *ar, const char *path,
                            sb_error *err);

/* 1 if a file of vectors holds a protocol. */
int sb_protocol_is(const sb_safetensors *file);

/* Makes the protocol of a file again and refuses the file if its content differs. *ar is the
 * arithmetic that the file was written for, or `named` if that is not NULL. */
sb_status sb_protocol_read(const char *path, const char *named, sb_protocol **out,
                           sb_gate_arith *ar, sb_error *err);

typedef struct sb_protocol_result {
    int fail;
    size_t count, identical, outside, changed; /* changed: in memory of no sequence */
    double worst;
    char words[512];
} sb_protocol_result;

/* got holds "round.R.NAME" of every output of every round. */
sb_status sb_protocol_judge_got(const sb_protocol *p, const sb_gate_arith *ar,
                                const sb_safetensors *got, sb_protocol_result *out, sb_error *err);
sb_status sb_protocol_judge(const char *path, const char *got_path, const char *named,
                            sb_protocol_result *out, sb_error *err);

#endif
