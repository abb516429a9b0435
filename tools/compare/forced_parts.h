/* forced_parts.h - the parts of a forced comparison, for forced*.c only. */
#ifndef SB_COMPARE_FORCED_PARTS_H
#define SB_COMPARE_FORCED_PARTS_H

#include "tools/compare/forced.h"
#include "tools/compare/known.h"

/* Four bins to an octave of error / bound, from 2^-64 on. */
enum { FORCED_BINS = 288, FORCED_OCTAVE = 4, FORCED_LOWEST = -64 };

/* What is gathered of one op. */
typedef struct forced_count {
    size_t calls, nonzero, differing, distinct;
    size_t pinned;  /* without spread, and no zero that any sum of nothing has */
    size_t unshown; /* calls whose output is not recorded */
    size_t chained; /* of these, what T-23 judges in an op behind them */
    int has_first;
    float first;               /* value: all others may be the same */
    size_t ratio[FORCED_BINS]; /* of open elements that differ from the reference's */
} forced_count;

/* What is known of one layer's memory of one sequence. */
typedef struct forced_memory {
    int cache, drafted, conv, recurrent; /* known; drafted: the entries of this row of drafts */
    uint64_t open_from, open_to;         /* rows of the cache that are not known (forced_other.c) */
    sb_op form;                          /* of the delta rule that ran last */
    /* How far the engine's recurrent state may be from the reference's: the 2-norm of a column
     * (nV, dv), and of an element (nV, dk, dv). NULL in layers that have none. */
    double *column, *element;
    struct forced_kept *made[2]; /* for a bundle: the last conv and delta rule, or NULL */
} forced_memory;

typedef struct forced_sequence {
    uint32_t id;
    int alive;
    int overflowed; /* lost: the reference came to a value that is not finite */
    sb_session *session;
    forced_memory *memory; /* (L + 1) */
    int hidden;            /* the hidden vector that waits for its token is known */
    int hidden_draft;      /* the one that the draft at work begins with */
    size_t drafts;         /* steps of the head since the last call */
    size_t verified;       /* rows of a verify that nobody has cut yet */
    float *own[2]; /* key and value that the first draft made, or NULL; not known: has_own 0 */
    int has_own[2];
} forced_sequence;

struct sb_forced {
    const sb_model *model;
    sb_forced_options options;
    sb_knobs knobs;
    forced_sequence **sequences;
    size_t sequence_count;
    forced_count counts[SB_OP_COUNT];
    sb_known_arrays known;
    struct forced_kept *kept_calls; /* of the tap at work, for a bundle */
    size_t kept_count;
    struct forced_later *later; /* of the tap at work: calls whose balls are not computed yet */
    size_t later_count, later_room;
    sb_status broken; /* a bundle could not be written */
    sb_error why;

    /* the call at work */
    const sb_step *step;
    forced_sequence *at;
    double *worst;    /* (row_count) of the step, or NULL */
    size_t row, rows; /* of the step: the sequence's first, and how many the call has */
    size_t entry;     /* of the step: its first entry in "mtp." taps */
    size_t logits;    /* row of "logits" that is asked for, and the row of the step */
    size_t logits_row;
    size_t kept;    /* rows of a verify that stay; SIZE_MAX: not known */
    int other_form; /* of the delta rule than at first, in a replay */
    int replay;     /* rows are fed again: nothing is compared */
    int opens;      /* the call verifies drafts of the head */
    sb_op op;       /* the last that ran, and its layer */
    uint32_t layer;
    /* what the values of this layer or call are, where no array says so */
    int shared_gate, experts, norm, embedding, previous, recycled;
};

/* forced_hook.c: the hook and the tap of a session, of which ctx is the sb_forced. */
sb_status forced_on_op(void *ctx, const sb_op_call *call);
sb_status forced_on_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err);

/* forced_bound.c: the balls of the op's outputs go into `known`, and how far states may be apart
 * into the memory of the layer. Before the op runs. */
sb_status forced_bound(sb_forced *f, const sb_op_call *call);
sb_status forced_bound_replay(sb_forced *f, const sb_op_call *call);

/* An array for each output of a call, with the balls of ours[0], ours[1], theirs[0], theirs[1],
 * which are taken over, or without. */
sb_status forced_made(sb_forced *f, const sb_op_call *call, sb_ball *const balls[4]);

/* forced_later.c: linear ops of one row, whose inputs are recorded, wait until one of another name
 * comes, or the tap. */
sb_status forced_put_later(sb_forced *f, const sb_op_call *call);
int forced_joins_later(const sb_forced *f, const sb_op_call *call);
sb_status forced_do_later(sb_forced *f);
void forced_drop_later(sb_forced *f);

/* Runs an op of the reference's side. */
sb_status forced_run(const sb_forced *f, const sb_op_call *call);

/* forced_router.c: runs the router, judges its choice, adopts the recorded one. */
sb_status forced_route(sb_forced *f, const sb_op_call *call);

/* T-23: whether the op of a tap that is not recorded is judged in one behind it. */
int forced_in_chain(sb_op op, const char *tap);

/* forced_judge.c: holds a value against the recorded one, which takes its place. */
sb_status forced_judge(sb_forced *f, const char *name, float *data, size_t rows, size_t cols);

/* The recorded rows of a tap in the call at work; NULL if there are none. */
const float *forced_recorded(const sb_forced *f, const char *name, size_t rows, size_t cols);

int forced_all_finite(const float *x, size_t count);

/* The row of the step that row `row` of a value of so many rows belongs to. */
size_t forced_step_row(const sb_forced *f, const char *name, size_t row, size_t rows);

/* A failure in this row of the step; whether it is the first. */
int forced_fail(sb_forced *f, const sb_place *place, size_t row, double ratio);

/* One element into the statistics of op: found is the engine's. The ratio of error and bound. */
double forced_count_element(sb_forced *f, sb_op op, float found, float expected, double bound);

/* forced_bundle.c: keeps what an op reads until its tap is judged; writes the bundle of a failure,
 * whose element stands at expected among the reference's values, at recorded among the engine's. */
sb_status forced_keep(sb_forced *f, const sb_op_call *call);
void forced_drop_kept(sb_forced *f);
sb_status forced_bundle(sb_forced *f, const sb_place *place, const sb_known *from,
                        const float *expected, const float *recorded, sb_error *err);

/* The same of a choice of experts: recorded and bound (T, k). */
sb_status forced_bundle_choice(sb_forced *f, const sb_place *place, const sb_router_args *args,
                               const float *recorded, const double *bound, sb_error *err);

/* forced_bundle_state.c: the same of a state that an op left, of which element `at` failed. apart:
 * how far the engine's may be, before slack; NULL is bit by bit. */
sb_status forced_keep_state(sb_forced *f, const sb_op_call *call);
void forced_drop_states(forced_memory *memory);
sb_status forced_bundle_state(sb_forced *f, const sb_place *place, sb_op op, size_t at,
                              const float *expected, const float *recorded, const double *apart,
                              sb_error *err);

/* The first failure has no bundle: "its name why". */
void forced_no_bundle(const sb_forced *f, const sb_place *place, const char *why);

/* forced_state.c: holds recorded states against what the recorded values gave, and adopts them. */
sb_status forced_state(sb_forced *f, forced_sequence *s, const sb_step_state *state, sb_error *err);

/* Nothing is known of a sequence's states any more. */
void forced_forget(const sb_forced *f, forced_sequence *s);

/* forced_other.c: what another call may have left than the one that is recorded. Rows of a round
 * that began at `first` were undone: of the states that the others left nothing is known, if they
 * were fed again. */
void forced_undone(const sb_forced *f, forced_sequence *s, uint64_t first);

/* A key (which: 0) or value (1) of the head's entries: data (rows, cols). */
sb_status forced_see_entry(const sb_forced *f, int which, const float *data, size_t rows,
                           size_t cols, int known);

/* Whether all rows of the cache are known; whether this one is, where the others are. */
int forced_has_cache(const forced_memory *memory);
int forced_is_open(const forced_memory *memory, uint64_t row);
void forced_close(forced_memory *memory);

forced_memory *forced_memory_of(sb_forced *f, uint32_t layer);

#endif
