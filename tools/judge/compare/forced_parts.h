/* forced_parts.h - the parts of a forced comparison, for forced*.c only. */
#ifndef SB_COMPARE_FORCED_PARTS_H
#define SB_COMPARE_FORCED_PARTS_H

#include "tools/judge/compare/forced.h"
#include "ref/ops/values.h"
#include "tools/judge/compare/fit.h"
#include "tools/judge/compare/known.h"

/* Bins of error / bound: four per octave, from 2^-64 on. */
enum { FORCED_BINS = 288, FORCED_OCTAVE = 4, FORCED_LOWEST = -64 };

/* Statistics of one op. */
typedef struct forced_count {
    size_t calls, nonzero, differing, distinct;
    size_t pinned; /* elements with a bound of 0 that are not 0 themselves */
    size_t open;   /* elements with a bound other than 0 that were judged alone */
    double worst;  /* largest error / bound of elements that were judged alone */
    int has_first;
    float first; /* the first value, to see if all others equal it */
    /* histogram of error / bound, of elements with a bound that differ from the reference's and
     * were judged alone */
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
    /* T-91: bounds of the distance of each cached value; NULL: none differs. For conv (kw-1, C),
     * for keys and values (rows, nKV*hd). spread: some bound is not 0. */
    double *conv_apart, *cache_apart[2];
    size_t cache_room[2]; /* elements */
    int conv_spread, cache_spread, state_spread;
    int state_same;              /* before the last call nothing differed in the recurrent state */
    int state_wide;              /* the bounds of the recurrent state are wider than its values */
    struct forced_kept *made[2]; /* for a bundle: the last calls of conv and delta rule, or NULL */
} forced_memory;

typedef struct forced_sequence {
    uint32_t id;
    int alive;
    int overflowed; /* lost because the reference reached a value that is not finite */
    sb_session *session;
    forced_memory *memory;     /* (L + 2): the layers, the head, the drafter */
    int hidden;                /* the hidden vector for the next MTP entry is known */
    int hidden_draft;          /* the hidden vector that the current draft reads is known */
    size_t drafts;             /* draft steps since the last call */
    size_t verified;           /* rows of a verify that is not yet cut to the kept rows */
    sb_eagle3_drafts *entries; /* of the drafter, or NULL */
    int follows;               /* the drafter has an entry for every token but the last */
    int states;                /* the states of the last token (M-13) are known */
    int recycled;              /* what the last draft gives to the next one is known */
    float *own[2];             /* key and value that the first draft step made; valid if has_own */
    int has_own[2];
} forced_sequence;

typedef struct forced_value forced_value;

struct sb_forced {
    const sb_model *model;
    sb_forced_options options;
    sb_knobs knobs;
    forced_sequence **sequences;
    size_t sequence_count;
    forced_count counts[SB_OP_COUNT];
    sb_bias *bias;
    sb_fit *fit; /* NULL in a search for explanations */
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
    double *worst;                  /* (row_count) of the step, or NULL */
    size_t row, rows;               /* first row of the sequence in the step; rows of the call */
    size_t entry;                   /* first entry of the call in the step's "mtp." taps */
    size_t made;                    /* first entry of the call in the step's "drafter." taps */
    size_t made_late;               /* 1 if the call's first row has no entry */
    uint64_t first;                 /* the position or entry of row 0 of the op's call */
    int captured[SB_EAGLE3_STATES]; /* states of the call that are known */
    int states, residual;           /* of the drafter's call: inputs that are copies */
    int query, key;
    const float *draft_logits;
    size_t logits; /* requested row of "logits", and its row of the step */
    size_t logits_row;
    size_t kept;    /* kept rows of a verify; SIZE_MAX: not known */
    int other_form; /* a replay took another form of the delta rule than the verify */
    int replay;     /* kept rows are fed again: nothing is compared */
    int opens;      /* the call verifies drafts of the head */
    sb_op op;       /* the last op, its layer, and the kind of its call */
    uint32_t layer;
    sb_call_kind kind;
    forced_value *values; /* of the call, in its order: T-91 */
    size_t value_count, value_room;
    const float *shared_logits; /* (rows) the last mlp.shared_expert_gate */
    const float *cached_values; /* (rows, nKV*hd) the last self_attn.v_proj */
    /* known or not: values of this layer or call that no entry of `known` describes */
    int experts, norm, embedding, previous, recycled;
};

/* forced_hook.c: hook and tap of a session; ctx is the sb_forced. */
sb_status forced_on_op(void *ctx, const sb_op_call *call);
sb_status forced_on_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err);

/* False if an op is not to be judged (sb_forced_site). */
int forced_is_judged(const sb_forced *f, sb_op op, uint32_t layer);

/* forced_bound.c: before the op runs, stores the balls of its outputs in `known`, and the bounds of
 * states in the memory of the layer. */
sb_status forced_bound(sb_forced *f, const sb_op_call *call);
sb_status forced_bound_replay(sb_forced *f, const sb_op_call *call);

/* Adds an array to `known` for each output of a call. balls: ours[0], ours[1], theirs[0],
 * theirs[1], which are taken over; each may be NULL. chained: some input was a ball. */
sb_status forced_made(sb_forced *f, const sb_op_call *call, sb_ball *balls[4], int chained);

/* forced_later.c: linear ops of one row with recorded inputs wait until an op with another name
 * runs, or the tap is called. */
sb_status forced_put_later(sb_forced *f, const sb_op_call *call);
int forced_joins_later(const sb_forced *f, const sb_op_call *call);
sb_status forced_do_later(sb_forced *f);
void forced_drop_later(sb_forced *f);

/* Runs an op of the reference, or its twin. */
sb_status forced_run(const sb_forced *f, const sb_op_call *call);

/* forced_router.c: the tap of an op's first output, with its layer. */
void forced_tap_name(const sb_forced *f, const sb_op_call *call, char *name, size_t size);

/* Runs the router, judges its choice, adopts the recorded one. */
sb_status forced_route(sb_forced *f, const sb_op_call *call);

/* forced_values.c: the values of a call, T-91. add_value: another value, with its number. set_way:
 * how it was judged. reach: the values that were waiting are judged inside a segment. end_values:
 * adds all values to the counts. */
sb_status forced_add_value(sb_forced *f, const char *name, sb_op op, uint32_t layer, sb_way way,
                           uint32_t *number);
void forced_set_way(sb_forced *f, uint32_t number, sb_way way);
void forced_reach(sb_forced *f, const sb_marks *waiting);
const char *forced_value_name(const sb_forced *f, uint32_t number);
sb_status forced_end_values(sb_forced *f);

/* Sets made->waiting and made->source from the inputs of the call. */
sb_status forced_trace_back(const sb_forced *f, const sb_op_call *call, sb_known *made);

/* The array that an input is, or was copied from: keys and values are those of this call. */
const float *forced_origin(const sb_forced *f, const sb_op_call *call, const sb_op_value *in);

/* forced_cache.c: conv states, keys and values whose rows were not all recorded, T-91. kind: what
 * is known of such an input; SB_KNOWN_COUNT: it is none. balls: of one side. moved: the conv state
 * after the call. stored: keys (0) or values (1) of this call. forget: nothing differs any more. */
sb_knowledge forced_memory_kind(sb_forced *f, const sb_op_call *call, const sb_op_value *in);
sb_status forced_memory_balls(sb_forced *f, const sb_op_call *call, const sb_op_value *in,
                              int theirs, sb_ball *out);
sb_status forced_conv_moved(sb_forced *f, const sb_op_call *call);
sb_status forced_stored(sb_forced *f, int which, const float *data, size_t rows, size_t cols);
void forced_cache_known(forced_memory *memory);
/* Rows from `first` on are fed again: nothing is known of what was not recorded. */
void forced_fed_again(const sb_forced *f, forced_sequence *s, uint64_t first);
void forced_cache_free(forced_memory *memory);

/* T-91: "wider than the values": the bounds of such an array say nothing. */
int forced_too_wide(const sb_ball *ours, const sb_ball *theirs, size_t count);

/* forced_drafter.c: the drafter of R-23. follow: makes the entries of the first n rows of a call,
 * and judges them. draft: one draft row. see: notes values of the target that it reads. op: before
 * an op of it runs. copies: a tap that no op has made; true if nothing is left to judge. knows:
 * what is known of an input that is a copy; -1: the input is none. */
sb_status forced_follow(sb_forced *f, forced_sequence *s, const uint32_t *tokens, size_t n,
                        sb_error *err);
sb_status forced_draft(sb_forced *f, forced_sequence *s, uint32_t token, sb_error *err);
void forced_see_state(sb_forced *f, const char *name, int known);
void forced_drafter_op(sb_forced *f, const sb_op_call *call);
sb_status forced_copies(sb_forced *f, const char *name, float *data, size_t rows, size_t cols,
                        int *done);
int forced_knows_copy(const sb_forced *f, const sb_op_call *call, const sb_op_value *in);
int forced_is_drafter(const char *name);

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

/* T-16: notes whether values are not 0, and not all the same. */
void forced_count_value(forced_count *count, float found);

/* Notes where failed elements lie: columns first to last of a value, or of a row of a state. */
void forced_failing(const sb_forced *f, const sb_place *place, sb_op op, uint32_t layer,
                    const uint64_t column[2], uint64_t columns, int state);

/* Adds one element to the statistics of op; found is the engine's value; alone: its op had recorded
 * inputs. Returns error / bound. */
double forced_count_element(sb_forced *f, sb_op op, float found, float expected, double bound,
                            int alone);

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
void forced_open(forced_memory *memory, uint64_t from, uint64_t to);

forced_memory *forced_memory_of(sb_forced *f, uint32_t layer);

#endif
