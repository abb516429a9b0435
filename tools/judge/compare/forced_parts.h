/* forced_parts.h - the parts of a forced comparison, for forced*.c only. */
#ifndef SB_COMPARE_FORCED_PARTS_H
#define SB_COMPARE_FORCED_PARTS_H

#include "tools/judge/compare/forced.h"
#include "tools/judge/compare/known.h"

/* Bins of error / bound: four per octave, from 2^-64 on. */
enum { FORCED_BINS = 288, FORCED_OCTAVE = 4, FORCED_LOWEST = -64 };

/* Statistics of one op. */
typedef struct forced_count {
    size_t calls, nonzero, differing, distinct;
    size_t pinned;  /* elements with a bound of 0 that are not 0 themselves */
    size_t unshown; /* calls whose output is not recorded */
    size_t chained; /* of these, those judged in a later op (T-23) */
    int has_first;
    float first; /* the first value, to see if all others equal it */
    /* histogram of error / bound, of elements with a bound that differ from the reference's */
    size_t ratio[FORCED_BINS];
} forced_count;

/* What is known of the engine's memory in one layer of one sequence. */
typedef struct forced_memory {
    int cache, drafted, conv, recurrent; /* 1: known; drafted: the entries of the current drafts */
    uint64_t open_from, open_to;         /* cache rows that are not known (forced_other.c) */
    sb_op form;                          /* form of the last delta rule */
    /* Bounds of the distance of the engine's recurrent state from the reference's: the 2-norm of
     * each column (nV, dv), and each element (nV, dk, dv). NULL in layers without such a state. */
    double *column, *element;
    struct forced_kept *made[2]; /* for a bundle: the last calls of conv and delta rule, or NULL */
} forced_memory;

typedef struct forced_sequence {
    uint32_t id;
    int alive;
    int overflowed; /* lost because the reference reached a value that is not finite */
    sb_session *session;
    forced_memory *memory; /* (L + 1) */
    int hidden;            /* the hidden vector for the next MTP entry is known */
    int hidden_draft;      /* the hidden vector that the current draft reads is known */
    size_t drafts;         /* draft steps since the last call */
    size_t verified;       /* rows of a verify that is not yet cut to the kept rows */
    float *own[2];         /* key and value that the first draft step made; valid if has_own */
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
    struct forced_kept *kept_calls; /* calls of the current tap, for a bundle */
    size_t kept_count;
    struct forced_later *later; /* calls of the current tap whose balls are not computed yet */
    size_t later_count, later_room;
    sb_status broken; /* error of a bundle that could not be written */
    sb_error why;

    /* the current call */
    const sb_step *step;
    forced_sequence *at;
    double *worst;    /* (row_count) of the step, or NULL */
    size_t row, rows; /* first row of the sequence in the step; rows of the call */
    size_t entry;     /* first entry of the call in the step's "mtp." taps */
    size_t logits;    /* requested row of "logits", and its row of the step */
    size_t logits_row;
    size_t kept;    /* kept rows of a verify; SIZE_MAX: not known */
    int other_form; /* a replay took another form of the delta rule than the verify */
    int replay;     /* kept rows are fed again: nothing is compared */
    int opens;      /* the call verifies drafts of the head */
    sb_op op;       /* the last op, and its layer */
    uint32_t layer;
    /* known or not: values of this layer or call that no entry of `known` describes */
    int shared_gate, experts, norm, embedding, previous, recycled;
};

/* forced_hook.c: hook and tap of a session; ctx is the sb_forced. */
sb_status forced_on_op(void *ctx, const sb_op_call *call);
sb_status forced_on_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err);

/* forced_bound.c: before the op runs, stores the balls of its outputs in `known`, and the bounds of
 * states in the memory of the layer. */
sb_status forced_bound(sb_forced *f, const sb_op_call *call);
sb_status forced_bound_replay(sb_forced *f, const sb_op_call *call);

/* Adds an array to `known` for each output of a call. balls: ours[0], ours[1], theirs[0],
 * theirs[1], which are taken over; each may be NULL. */
sb_status forced_made(sb_forced *f, const sb_op_call *call, sb_ball *const balls[4]);

/* forced_later.c: linear ops of one row with recorded inputs wait until an op with another name
 * runs, or the tap is called. */
sb_status forced_put_later(sb_forced *f, const sb_op_call *call);
int forced_joins_later(const sb_forced *f, const sb_op_call *call);
sb_status forced_do_later(sb_forced *f);
void forced_drop_later(sb_forced *f);

/* Runs an op of the reference, or its twin. */
sb_status forced_run(const sb_forced *f, const sb_op_call *call);

/* forced_router.c: runs the router, judges its choice, adopts the recorded one. */
sb_status forced_route(sb_forced *f, const sb_op_call *call);

/* T-23: whether an op whose tap is not recorded is judged in a later op. */
int forced_in_chain(sb_op op, const char *tap);

/* forced_judge.c: judges the recorded value against the reference's value, and then puts the
 * recorded one in its place. */
sb_status forced_judge(sb_forced *f, const char *name, float *data, size_t rows, size_t cols);

/* The recorded rows of a tap in the current call; NULL if there are none. */
const float *forced_recorded(const sb_forced *f, const char *name, size_t rows, size_t cols);

int forced_all_finite(const float *x, size_t count);

/* The row of the step to which row `row` of a value with `rows` rows belongs. */
size_t forced_step_row(const sb_forced *f, const char *name, size_t row, size_t rows);

/* Notes a failure in this row of the step. True if it is the first. */
int forced_fail(sb_forced *f, const sb_place *place, size_t row, double ratio);

/* Adds one element to the statistics of op; found is the engine's value. Returns error / bound. */
double forced_count_element(sb_forced *f, sb_op op, float found, float expected, double bound);

/* forced_bundle.c: keep: keeps an op's inputs until its tap is judged. bundle: writes the bundle of
 * a failure. expected and recorded point to the failing element in the reference's and the engine's
 * values. */
sb_status forced_keep(sb_forced *f, const sb_op_call *call);
void forced_drop_kept(sb_forced *f);
sb_status forced_bundle(sb_forced *f, const sb_place *place, const sb_known *from,
                        const float *expected, const float *recorded, sb_error *err);

/* As forced_bundle, for a choice of experts; recorded and bound are (T, k). */
sb_status forced_bundle_choice(sb_forced *f, const sb_place *place, const sb_router_args *args,
                               const float *recorded, const double *bound, sb_error *err);

/* forced_bundle_state.c: as forced_bundle, for a state that an op left and whose element `at`
 * failed. apart: the bounds before slack; NULL: all bounds are 0. */
sb_status forced_keep_state(sb_forced *f, const sb_op_call *call);
void forced_drop_states(forced_memory *memory);
sb_status forced_bundle_state(sb_forced *f, const sb_place *place, sb_op op, size_t at,
                              const float *expected, const float *recorded, const double *apart,
                              sb_error *err);

/* Notes that the first failure has no bundle; the text is the name, then `why`. */
void forced_no_bundle(const sb_forced *f, const sb_place *place, const char *why);

/* forced_state.c: compares recorded states with the states that the recorded values gave, and
 * adopts the recorded ones. */
sb_status forced_state(sb_forced *f, forced_sequence *s, const sb_step_state *state, sb_error *err);

/* Marks all states of a sequence as unknown. */
void forced_forget(const sb_forced *f, forced_sequence *s);

/* forced_other.c: states that the engine may have made in another call than the recorded one. Rows
 * of a round that began at `first` were undone. If the engine fed the kept rows again, the states
 * after them are not known. */
void forced_undone(const sb_forced *f, forced_sequence *s, uint64_t first);

/* Notes a key (which: 0) or value (1) of the head's entries; data is (rows, cols). */
sb_status forced_see_entry(const sb_forced *f, int which, const float *data, size_t rows,
                           size_t cols, int known);

/* has_cache: all rows of the cache are known. is_open: this row is not. close: all rows count as
 * known again. */
int forced_has_cache(const forced_memory *memory);
int forced_is_open(const forced_memory *memory, uint64_t row);
void forced_close(forced_memory *memory);

forced_memory *forced_memory_of(sb_forced *f, uint32_t layer);

#endif
