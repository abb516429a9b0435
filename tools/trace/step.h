/* step.h - one forward call of an engine, as a value: which rows it had, and what was seen of it.
 *
 * A step comes from a trace folder (read.h) or from a session of this program (capture.h); what
 * compares does not know which. Everything but the rows may be absent: a level 0 trace has tokens
 * only. docs/trace.md is the contract of the folder. */
#ifndef SB_TRACE_STEP_H
#define SB_TRACE_STEP_H

#include "ref/base/hash.h"
#include "ref/run/hook.h"
#include "ref/run/round.h"

enum { SB_NO_SLOT = 0x7fffffff };

/* One row: one token of one sequence. Rows of one sequence stand one behind the other. */
typedef struct sb_step_row {
    uint32_t sequence;
    uint32_t slot; /* of the engine: where the state lies that the row reads; or SB_NO_SLOT */
    uint64_t position;
    uint32_t token;
    sb_call_kind kind;
    uint64_t round; /* of a verify or draft row: the number of the round in its sequence */
} sb_step_row;

/* A recorded array: its digest, and its data if it was kept. */
typedef struct sb_step_value {
    char name[96]; /* a tap: "layers.3.linear_attn.core_out", "logits"; or a piece of a state */
    size_t rows, cols;
    float *data; /* NULL: the digest only */
    sb_digest digest;
    int has_digest;
} sb_step_value;

typedef struct sb_step_values {
    sb_step_value *items;
    size_t count, room;
} sb_step_values;

/* The state of one sequence as the call reads it: behind the rollback of the round before. */
typedef struct sb_step_state {
    uint32_t sequence;
    uint64_t position;       /* tokens fed */
    sb_step_values pieces;   /* named as sb_piece names them, in any number */
    int has_target, has_mtp; /* the digests of D-3 and D-9 */
    sb_digest target, mtp;
} sb_step_state;

/* A speculative round that ended with this call. */
typedef struct sb_step_round {
    uint32_t sequence;
    uint64_t number;   /* 0, 1, ... in its sequence */
    uint64_t position; /* of the first row of its verify call */
    sb_round round;    /* drafts, accepted, tokens emitted; `chosen` is not recorded */
} sb_step_round;

/* One forward call. A last step without rows holds the states behind the last call. */
typedef struct sb_step {
    uint64_t number;
    sb_step_row *rows;
    size_t row_count;
    sb_step_values taps; /* axis 0: the rows, or of "mtp." taps the entries made in this call */
    size_t *logits_rows; /* ascending: the rows that "logits" and log-probabilities are of */
    size_t logits_count; /* no such list (NULL): of all rows */
    sb_step_state *states;
    size_t state_count;
    size_t unknown; /* arrays of a file whose names are no taps: not read */
    char first_unknown[96];
    sb_step_round *rounds; /* those whose verify rows are in this call, with their acceptance */
    size_t round_count;
    uint32_t *ended; /* sequences of which no later step has rows or states: what compares may
                        release what it keeps of them. Not in a list: it may go on */
    size_t ended_count;
} sb_step;

const sb_step_value *sb_step_find(const sb_step_values *values, const char *name);
void sb_step_clear(sb_step *step); /* releases all, zeroes the struct */

/* Which row of `value` (sb_tap_is_of_logits) belongs to a row of the step; -1: none. */
long long sb_step_logits_row(const sb_step *step, const sb_step_value *value, size_t row);

/* Appends a zeroed item; NULL if memory is out. The pointer is good until the next is appended. A
 * value gets room for its data if `with_data`. */
sb_step_value *sb_step_add(sb_step_values *values, const char *name, size_t rows, size_t cols,
                           int with_data);
sb_step_row *sb_step_add_row(sb_step *step);
sb_step_state *sb_step_add_state(sb_step *step);
sb_step_round *sb_step_add_round(sb_step *step);
sb_status sb_step_add_ended(sb_step *step, uint32_t sequence); /* SB_OK or SB_ERR_MEMORY */

/* The rows of one call that is known by its token ids alone (level 0): `count` of them from
 * `position` on, of one sequence. Everything else of *out is empty. */
sb_status sb_step_of_ids(uint32_t sequence, uint64_t position, const uint32_t *ids, size_t count,
                         sb_call_kind kind, sb_step *out, sb_error *err);

/* "a,b*,c?": 1 if one of the patterns, separated by commas, fits the whole name. The words "all"
 * and "none" fit every name that does not begin with "state.", and none. */
int sb_tap_matches(const char *patterns, const char *name);

/* What takes steps one after the other, and owns none of them. */
typedef sb_status (*sb_step_fn)(void *ctx, const sb_step *step, sb_error *err);

#endif
