/* free_parts.h - shared by the implementation files of free.h. */
#ifndef SB_COMPARE_FREE_PARTS_H
#define SB_COMPARE_FREE_PARTS_H

#include "ref/state/piece.h"
#include "tools/judge/compare/draws.h"
#include "tools/judge/compare/envelope.h"
#include "tools/judge/compare/free.h"
#include "tools/judge/compare/near.h"
#include "tools/judge/compare/rollback.h"
#include "tools/judge/trace/history.h"

/* A step of the engine's head that is not judged yet: its row, and its logits if there are any. */
typedef struct sb_free_draft {
    uint64_t position;
    uint32_t token;
    float *logits; /* (V), or NULL */
} sb_free_draft;

typedef struct sb_free_sequence {
    uint32_t number;
    sb_envelope *envelope;
    sb_trials *trials;  /* trials for --explain, or NULL */
    uint64_t position;  /* position of row 0 of the last call */
    size_t rows;        /* rows of the last call; 0: no call yet */
    int verify;         /* the last call's rows are not yet cut to the kept rows */
    size_t kept;        /* number of kept rows according to its round; 0: not stated */
    uint32_t last;      /* the last token that it emitted */
    size_t accepted[2]; /* accepted drafts of the last round, and of the round before */
    uint64_t call;      /* step number of its last round */
    int has_round, has_hit;
    size_t round;  /* index of the last round's verdict */
    size_t hit;    /* index of the hit that it began with */
    float *logits; /* (V) the reference's logits of the row that gives the next token */
    sb_free_draft drafted[SB_MAX_DRAFTS]; /* draft steps since the last call */
    size_t drafts;
    int waits;         /* the next token is still to come */
    size_t token;      /* index of the verdict of the row that gives the next token */
    int within_tight;  /* logits were compared in the last call, all within the tight noise */
    int anew;          /* some runs took other experts when rows were fed again: T-85 */
    int flipped;       /* a state shows that the engine also took other experts */
    int misplaced;     /* its rows continued at a wrong position */
    int lost;          /* the sequence cannot be followed any more */
    int ended;         /* no more rows will come: sessions and logits are released */
    int explained;     /* a failure was explained, after this round */
    int explained_hit; /* it was explained by the hit that it began with */
    size_t explained_round;
    float **theirs; /* (L + 2) the engine's hidden states of the last call, or NULL */
    struct sb_free_rows *rows_before; /* (pieces) rows of the last recorded state, or NULL */
    size_t pieces;
} sb_free_sequence;

/* Digests of states without data, and evidence for whether the engine makes the same bits
 * (free_digest.c). One of these for the model, one for its head. */
typedef struct sb_free_digests {
    size_t same, apart; /* number of digests equal to the reference's, and of other digests */
    /* rows of whole logits that are identical to the reference's and not constant */
    size_t rows;
    sb_place first; /* the first digest that differs */
    size_t round;   /* round before that digest; SIZE_MAX: none */
} sb_free_digests;

struct sb_free {
    const sb_model *model;
    sb_free_options options;
    sb_knobs knobs;
    sb_verdicts *v;
    double factor; /* T-41, for V logits */
    sb_free_sequence *sequences;
    size_t count, room;
    sb_draws *draws;
    sb_history *history; /* the tokens of all sequences, for hypotheses; or NULL */
    const sb_step *step; /* the current step */
    uint64_t steps;      /* steps so far */
    size_t first;        /* row 0 of the current call */
    float *logits;       /* (V) the reference's logits */
    double *bounds;      /* bounds of a piece of a state */
    size_t bounds_room;
    size_t compared, near_tokens, open_tokens, alone, choices, constant;
    /* T-46: rows with logits; rows whose bound hides another distribution */
    size_t rows_judged, rows_wide;
    sb_free_digests digests[2];
    size_t other_bits;    /* rows of logits and arrays of states that are not identical */
    char doubt[SB_WORDS]; /* T-89: why digests leave the comparison in doubt, or "" */
    int varied;           /* not all tokens are equal */
    uint32_t any_token;
    size_t rows;
};

/* error / bound; 0 without an error, infinity for an error with a bound of 0. */
double sb_free_ratio(double error, double bound);

/* One call of a sequence: rows [first, first + n) of the step. Each row gets a verdict
 * (free_call.c). */
sb_status sb_free_call(sb_free *f, sb_free_sequence *s, size_t first, size_t n, sb_error *err);

/* Judges row `row` of the current call, whose verdicts begin at first_verdict (free_token.c).
 * needed: compute the reference's logits in any case. emitted: the token that the row gave, or
 * NULL. */
sb_status sb_free_row(sb_free *f, sb_free_sequence *s, size_t first_verdict, size_t row, int needed,
                      const uint32_t *emitted, sb_error *err);
void sb_free_fail_row(sb_free *f, const sb_free_sequence *s, sb_token_verdict *t, sb_place *place);

/* Sets the verdict of a row within its bound: NEAR_TIE if its largest logit is another token's,
 * else `otherwise`. */
void sb_free_choice(sb_free *f, sb_token_verdict *t, sb_verdict otherwise);

/* The engine's data of row `row` of the step, or NULL. */
const float *sb_free_row_data(const sb_step *step, const char *name, size_t row, size_t *cols);

/* T-44: bounds of one row. pair: for the distance of two logits. */
typedef struct sb_row_bound {
    double tight, loose, pair;
} sb_row_bound;

/* Log-probabilities of row `at` of the step, in any form, against s->logits
 * (free_token_logprobs.c). */
int sb_free_has_logprobs(const sb_free *f, size_t at);
void sb_free_logprobs(sb_free *f, sb_free_sequence *s, sb_token_verdict *t, size_t at,
                      const sb_row_bound *b);

/* Hidden states (free_hidden.c). take: before a call of n rows, copies those that the step has.
 * hidden: judges them after the call. */
sb_status sb_free_take_hidden(sb_free *f, sb_free_sequence *s, size_t n, sb_error *err);
void sb_free_drop_hidden(const sb_free *f, sb_free_sequence *s);
sb_status sb_free_hidden(sb_free *f, sb_free_sequence *s, size_t first_verdict, size_t rows,
                         sb_error *err);

/* Judges the token that the engine took from the last call of s. */
sb_status sb_free_chosen(sb_free *f, sb_free_sequence *s, uint32_t token, sb_error *err);

/* Sequences whose sampler is declared (free_sampler.c). declare: reads the declarations of the
 * step. is_greedy: the engine emits the token of the largest logit. feed: the tokens of a call.
 * draw_row: row `row` of the call gives the next token. drawn: judges this token. */
sb_status sb_free_declare(sb_free *f, const sb_step *step, sb_error *err);
int sb_free_samples(const sb_free *f, const sb_free_sequence *s);
int sb_free_is_greedy(const sb_free *f, const sb_free_sequence *s);
sb_status sb_free_feed_draws(sb_free *f, const sb_free_sequence *s, const sb_step_row *rows,
                             size_t n, sb_error *err);
sb_status sb_free_draw_row(sb_free *f, const sb_free_sequence *s, size_t verdict, size_t row,
                           sb_error *err);
sb_status sb_free_drawn(sb_free *f, const sb_free_sequence *s, size_t verdict, uint32_t token,
                        sb_error *err);
void sb_free_judge_draws(sb_free *f);

/* Stores row `row` of the step, a draft. The draft is judged with the following verify call
 * (free_draft.c). */
sb_status sb_free_take_draft(sb_free *f, sb_free_sequence *s, size_t row, sb_error *err);
void sb_free_drop_drafts(sb_free_sequence *s);

/* True if the drafts are those of the head or of the drafter, and are judged. */
int sb_free_judges_drafts(const sb_free *f);

/* drafts: judges the drafts before a verify call of n rows and notes them in `round`. round: judges
 * the round after the call (free_round.c). */
sb_status sb_free_drafts(sb_free *f, sb_free_sequence *s, const uint32_t *tokens, size_t n,
                         sb_round_verdict *round, sb_error *err);
sb_status sb_free_round(sb_free *f, sb_free_sequence *s, const sb_step_round *recorded,
                        const sb_round_verdict *round, size_t first_verdict, size_t rows,
                        sb_error *err);

/* The round that ended with rows of the sequence in this step, or NULL. */
const sb_step_round *sb_free_find_round(const sb_step *step, uint32_t sequence);

/* Judges the recorded state of s against the reference's (free_state.c). */
sb_status sb_free_state(sb_free *f, sb_free_sequence *s, const sb_step_state *state, sb_error *err);

/* T-85: the rows of a cache (free_kept.c). changed: finds the first of theirs (n) that differs from
 * the state recorded before; returns its old value and sets *at, or returns NULL. keep_rows: stores
 * theirs for the next state. */
int sb_free_is_cache(const sb_piece *piece);
const float *sb_free_changed(const sb_free_sequence *s, size_t index, const float *theirs, size_t n,
                             size_t *at);
sb_status sb_free_keep_rows(sb_free_sequence *s, size_t index, const float *theirs, size_t n,
                            sb_error *err);
void sb_free_drop_rows(sb_free_sequence *s);

/* T-48: an element of a cache of codes (free_code.c): the reference's value before it became a
 * code, and its bound. unknown: for a value that is known only as a code. */
typedef struct sb_free_code {
    double before, bound;
} sb_free_code;
sb_free_code sb_free_code_unknown(double code, double bound);

/* The share of the bound by which `before` has to move to become theirs, accurate to a factor of 2;
 * above 1 if the whole bound is not enough. */
double sb_free_code_ratio(const sb_free_code *of, double theirs);

/* The largest distance from the reference's code to a code that the bound allows. */
double sb_free_code_reach(const sb_free_code *of, double code);

/* Note a digest without data, of a piece or of a whole state. judge_digests: judges them, at the
 * end. */
void sb_free_digest_of_piece(sb_free *f, const sb_free_sequence *s, const sb_piece *piece,
                             const sb_digest *theirs, sb_state_verdict *out);
sb_status sb_free_digest_of_whole(sb_free *f, const sb_free_sequence *s,
                                  const sb_step_state *recorded, sb_error *err);
void sb_free_judge_digests(sb_free *f);

/* Notes that a row of logits was compared, of the head or of the model. */
void sb_free_see_row(sb_free *f, int is_head, const sb_near_difference *d);

/* True if the sequence continues another one and has made no call of its own. */
int sb_free_begins(const sb_free *f, const sb_free_sequence *s);

/* The verdict of this part of the state that the last round left, or that a sequence begins with
 * which continues another one; NULL: neither. */
sb_state_verdict *sb_free_part(sb_free *f, const sb_free_sequence *s, sb_state_part part);

/* Adds hypotheses about the state that a sequence begins with which continues another one
 * (free_hit.c). */
sb_status sb_free_suspect_hit(sb_free *f, sb_free_sequence *s, sb_error *err);

/* Fails the last round, or the hit that the sequence begins with. */
void sb_free_fail_origin(sb_free *f, const sb_free_sequence *s);

/* Counts a failure and keeps the first. */
void sb_free_fail(sb_free *f, const sb_free_sequence *s, uint64_t position, sb_place *place);

/* Writes the explanation of the rollback mistakes (rollback.h) into the verdict of the last round.
 */
void sb_free_explain(sb_free *f, sb_free_sequence *s);

#endif
