/* free_parts.h - what the parts of free.h share. */
#ifndef SB_COMPARE_FREE_PARTS_H
#define SB_COMPARE_FREE_PARTS_H

#include "ref/state/piece.h"
#include "tools/compare/envelope.h"
#include "tools/compare/free.h"
#include "tools/compare/near.h"
#include "tools/compare/rollback.h"

/* A step of the engine's head that has not been judged: its row, and its logits if it has any. */
typedef struct sb_free_draft {
    uint64_t position;
    uint32_t token;
    float *logits; /* (V), or NULL */
} sb_free_draft;

typedef struct sb_free_sequence {
    uint32_t number;
    sb_envelope *envelope;
    sb_trials *trials;  /* of --explain, or NULL */
    uint64_t position;  /* of row 0 of the last call */
    size_t rows;        /* of the last call; 0: there was none */
    int verify;         /* its rows have still to be cut */
    size_t kept;        /* that a round said; 0: nobody did */
    uint32_t last;      /* the token that it emitted last */
    size_t accepted[2]; /* of the last round, and of the one before */
    uint64_t call;      /* number of the step of its last round */
    int has_round;
    size_t round;  /* verdict of the last round */
    float *logits; /* (V) of the reference, of the row that gives the next token */
    sb_free_draft drafted[SB_MAX_DRAFTS]; /* since the last call */
    size_t drafts;
    int waits;        /* that token has not come yet */
    size_t token;     /* verdict of that row */
    int within_tight; /* all of the last call was, and something was compared */
    int anew;         /* some runs took other experts where rows were fed again: T-85 */
    int flipped;      /* a state says that the engine did */
    int misplaced;    /* its rows went on from a wrong position */
    int lost;         /* it cannot be followed any more */
    int ended;        /* nothing comes any more: sessions and logits are released */
    int explained;    /* a failure has been, behind this round */
    size_t explained_round;
    struct sb_free_rows *rows_before; /* (pieces) of the last state recorded, or NULL */
    size_t pieces;
} sb_free_sequence;

/* Digests of states without data, and what says whether the engine makes the same bits
 * (free_digest.c): of the model, and of its head. */
typedef struct sb_free_digests {
    size_t same, apart; /* as the reference's, or not */
    size_t rows;        /* of whole logits that have all of its bits, and are not all one value */
    sb_place first;     /* that was not */
    size_t round;       /* behind which it was; SIZE_MAX: none */
} sb_free_digests;

struct sb_free {
    const sb_model *model;
    sb_free_options options;
    sb_knobs knobs;
    sb_verdicts *v;
    double factor; /* T-41, of V logits */
    sb_free_sequence *sequences;
    size_t count, room;
    const sb_step *step; /* the one at work */
    uint64_t steps;      /* that came */
    size_t first;        /* row 0 of the call at work */
    float *logits;       /* (V) of the reference */
    double *bounds;      /* of a piece of a state */
    size_t bounds_room;
    size_t compared, near_tokens, open_tokens, alone, choices, constant;
    size_t rows_judged, rows_wide; /* T-46: with logits; whose bound hides another distribution */
    sb_free_digests digests[2];
    size_t other_bits;    /* rows of logits and arrays of states with another bit */
    char doubt[SB_WORDS]; /* T-89: why nothing is decided, or "" */
    int varied;           /* not all tokens are one */
    uint32_t any_token;
    size_t rows;
};

/* error / bound; 0 for no error, infinity where there is no bound. */
double sb_free_ratio(double error, double bound);

/* One call of a sequence: rows [first, first + n) of the step, of which each gets a verdict
 * (free_call.c). */
sb_status sb_free_call(sb_free *f, sb_free_sequence *s, size_t first, size_t n, sb_error *err);

/* Row `row` of the call at work, whose verdicts begin at first_verdict (free_token.c). needed: the
 * reference's logits are wanted in any case; emitted: the token that the row gave, or NULL. */
sb_status sb_free_row(sb_free *f, sb_free_sequence *s, size_t first_verdict, size_t row, int needed,
                      const uint32_t *emitted, sb_error *err);
void sb_free_fail_row(sb_free *f, const sb_free_sequence *s, sb_token_verdict *t, sb_place *place);

/* A row within its bound: a NEAR_TIE where its largest is another, else what it was otherwise. */
void sb_free_choice(sb_free *f, sb_token_verdict *t, sb_verdict otherwise);

/* The engine's data of row `row` of the step, or NULL. */
const float *sb_free_row_data(const sb_step *step, const char *name, size_t row, size_t *cols);

/* T-44: bounds of one row: of a logit, of the distance of two. */
typedef struct sb_row_bound {
    double tight, loose, pair;
} sb_row_bound;

/* Log-probabilities of row `at` of the step, in any of their forms, against s->logits
 * (free_token_logprobs.c). */
int sb_free_has_logprobs(const sb_free *f, size_t at);
void sb_free_logprobs(sb_free *f, sb_free_sequence *s, sb_token_verdict *t, size_t at,
                      const sb_row_bound *b);

/* The token that the last call of s gave, as the engine has it. */
sb_status sb_free_chosen(sb_free *f, sb_free_sequence *s, uint32_t token, sb_error *err);

/* Row `row` of the step, a draft: it is judged with the verify call behind it (free_draft.c). */
sb_status sb_free_take_draft(sb_free *f, sb_free_sequence *s, size_t row, sb_error *err);
void sb_free_drop_drafts(sb_free_sequence *s);

/* Drafts before a verify call of n rows; and the round behind it (free_round.c). `round` is what is
 * known of it. */
sb_status sb_free_drafts(sb_free *f, sb_free_sequence *s, const uint32_t *tokens, size_t n,
                         sb_round_verdict *round, sb_error *err);
sb_status sb_free_round(sb_free *f, sb_free_sequence *s, const sb_step_round *recorded,
                        const sb_round_verdict *round, size_t first_verdict, size_t rows,
                        sb_error *err);

/* The round that ended with rows of s in this step, or NULL. */
const sb_step_round *sb_free_find_round(const sb_step *step, uint32_t sequence);

/* The recorded state of s against the reference's (free_state.c). */
sb_status sb_free_state(sb_free *f, sb_free_sequence *s, const sb_step_state *state, sb_error *err);

/* T-85: the rows of a cache (free_kept.c). The first of theirs (n) that is another than in the
 * state before: what it was, and which element; NULL: none is. Then theirs are kept. */
int sb_free_is_cache(const sb_piece *piece);
const float *sb_free_changed(const sb_free_sequence *s, size_t index, const float *theirs, size_t n,
                             size_t *at);
sb_status sb_free_keep_rows(sb_free_sequence *s, size_t index, const float *theirs, size_t n,
                            sb_error *err);
void sb_free_drop_rows(sb_free_sequence *s);

/* T-48: an element of a cache that keeps codes (free_code.c): the reference's value before it
 * became one, and its bound. Unknown: of a value of which only the code is known. */
typedef struct sb_free_code {
    double before, bound;
} sb_free_code;
sb_free_code sb_free_code_unknown(double code, double bound);

/* How much of the bound `before` has to be moved by to become theirs, to a factor of 2; above 1
 * where all of it does not do. */
double sb_free_code_ratio(const sb_free_code *of, double theirs);

/* How far from the reference's code the others are that it may become. */
double sb_free_code_reach(const sb_free_code *of, double code);

/* A digest without data, of a piece and of a whole state; and what they say, at the end. */
void sb_free_digest_of_piece(sb_free *f, const sb_free_sequence *s, const sb_piece *piece,
                             const sb_digest *theirs, sb_state_verdict *out);
sb_status sb_free_digest_of_whole(sb_free *f, const sb_free_sequence *s,
                                  const sb_step_state *recorded, sb_error *err);
void sb_free_judge_digests(sb_free *f);

/* A row of logits was compared, of the head or of the model. */
void sb_free_see_row(sb_free *f, int is_head, const sb_near_difference *d);

/* Counts a failure and keeps the first. */
void sb_free_fail(sb_free *f, const sb_free_sequence *s, uint64_t position, sb_place *place);

/* What the hypotheses say, into the verdict of the last round. */
void sb_free_explain(sb_free *f, sb_free_sequence *s);

#endif
