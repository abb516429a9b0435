/* step.h - one forward call of an engine as a value: its rows, and what was recorded of it.
 *
 * A step comes from a trace folder (read.h) or from a session of this program (capture.h);
 * comparisons need not know which. Everything except the rows may be absent: a level 0 trace has
 * only tokens. docs/trace.md is the contract of the folder. */
#ifndef SB_TRACE_STEP_H
#define SB_TRACE_STEP_H

#include "ref/base/hash.h"
#include "ref/run/hook.h"
#include "ref/run/round.h"
#include "tools/judge/trace/sampling.h"

enum { SB_NO_SLOT = 0x7fffffff };

/* One row: one token of one sequence. Rows of one sequence are contiguous. */
typedef struct sb_step_row {
    uint32_t sequence;
    uint32_t slot; /* the engine's place of the state that the row reads; or SB_NO_SLOT */
    uint64_t position;
    uint32_t token;
    sb_call_kind kind;
    uint64_t round; /* for verify and draft rows: number of the round in its sequence */
} sb_step_row;

/* A recorded array: its digest, and its data if it was kept. */
typedef struct sb_step_value {
    char name[96]; /* a tap: "layers.3.linear_attn.core_out", "logits"; or a piece of a state */
    size_t rows, cols;
    float *data; /* NULL: only the digest */
    sb_digest digest;
    int has_digest;
} sb_step_value;

typedef struct sb_step_values {
    sb_step_value *items;
    size_t count, room;
} sb_step_values;

/* The state of one sequence that the call reads, after the rollback of the round before. */
typedef struct sb_step_state {
    uint32_t sequence;
    uint64_t position;       /* tokens fed */
    sb_step_values pieces;   /* any number of them, with the names of sb_piece */
    int has_target, has_mtp; /* digests of D-3 and D-9 are there */
    sb_digest target, mtp;
} sb_step_state;

/* A speculative round that ended with this call. */
typedef struct sb_step_round {
    uint32_t sequence;
    uint64_t number;   /* 0, 1, ... in its sequence */
    uint64_t position; /* position of the first row of its verify call */
    sb_round round;    /* drafts, accepted, tokens emitted; `chosen` is not recorded */
} sb_step_round;

/* U-11: "The sequence begins with the state that its parent had after `position` tokens" */
typedef struct sb_step_prefix {
    uint32_t sequence, parent;
    uint64_t position;
    uint32_t *tokens; /* (position) the tokens before it, or NULL */
} sb_step_prefix;

/* A step that is no call of the engine: rows of a parent, fed again for a sequence that continues
 * it (prefix.h). */
typedef enum sb_step_again {
    SB_STEP_NOT_AGAIN,
    SB_STEP_AGAIN,
    SB_STEP_AGAIN_UNDONE /* the call had more rows, which its round rejected */
} sb_step_again;

/* One forward call. A last step without rows has the states after the last call. */
typedef struct sb_step {
    uint64_t number;
    sb_step_row *rows;
    size_t row_count;
    sb_step_values taps; /* axis 0: the rows; for "mtp." taps the entries made in this call */
    size_t *logits_rows; /* ascending: the rows of "logits" and log-probabilities */
    size_t logits_count; /* logits_rows NULL: logits and log-probabilities have all rows */
    sb_step_state *states;
    size_t state_count;
    size_t unknown; /* arrays of the file with unknown names, which are not read */
    char first_unknown[96];
    sb_step_round *rounds; /* rounds whose verify rows are in this call */
    size_t round_count;
    sb_step_prefix *prefixes; /* of sequences that begin in this step */
    size_t prefix_count;
    sb_step_sampling *samplings; /* U-12: of sequences whose sampler is declared in this step */
    size_t sampling_count;
    sb_step_again again;
    uint32_t *ended; /* sequences without rows or states in later steps, so that a comparison may
                        free them. Others may go on */
    size_t ended_count;
} sb_step;

const sb_step_value *sb_step_find(const sb_step_values *values, const char *name);
void sb_step_clear(sb_step *step); /* frees everything, zeroes the struct */

/* Copies a step with its arrays, but without the tokens of its prefixes and the list of sequences
 * that end. 0 if memory runs out; *to then has to be cleared, too. */
int sb_step_copy(const sb_step *from, sb_step *to);

/* The row of `value` (sb_tap_is_of_logits) for a row of the step; -1: none. */
long long sb_step_logits_row(const sb_step *step, const sb_step_value *value, size_t row);

/* Of the `rows` rows of a sequence in this step, the number that its round kept; all, if the step
 * has no round of the sequence. */
size_t sb_step_kept(const sb_step *step, uint32_t sequence, size_t rows);

/* Appends a zeroed item; NULL if memory is out. The pointer is valid until the next append.
 * with_data: allocates the data of a value. */
sb_step_value *sb_step_add(sb_step_values *values, const char *name, size_t rows, size_t cols,
                           int with_data);
sb_step_row *sb_step_add_row(sb_step *step);
sb_step_state *sb_step_add_state(sb_step *step);
sb_step_round *sb_step_add_round(sb_step *step);
sb_step_prefix *sb_step_add_prefix(sb_step *step);
sb_step_sampling *sb_step_add_sampling(sb_step *step);
sb_status sb_step_add_ended(sb_step *step, uint32_t sequence); /* SB_OK or SB_ERR_MEMORY */

/* Makes a step that has only token ids (level 0): `count` rows of one sequence from `position` on.
 * The rest of *out is empty. */
sb_status sb_step_of_ids(uint32_t sequence, uint64_t position, const uint32_t *ids, size_t count,
                         sb_call_kind kind, sb_step *out, sb_error *err);

/* 1 if one of the patterns, separated by commas ("a,b*,c?"), matches the whole name. "all" matches
 * every name that does not begin with "state."; "none" matches no name. */
int sb_tap_matches(const char *patterns, const char *name);

/* A function that takes steps one after the other. It owns none of them. */
typedef sb_status (*sb_step_fn)(void *ctx, const sb_step *step, sb_error *err);

#endif
