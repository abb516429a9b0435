/* verdict.h - the results of a comparison: one structure, from which every report is made. */
#ifndef SB_COMPARE_VERDICT_H
#define SB_COMPARE_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/run/hook.h"
#include "ref/run/round.h"
#include "tools/judge/compare/coverage.h"

/* In ascending order of severity. The verdict of a whole is the most severe of its parts, but
 * SKIPPED and INHERITED parts never count as passed. */
typedef enum sb_verdict {
    SB_VERDICT_none,       /* not compared */
    SB_VERDICT_IDENTICAL,  /* every bit */
    SB_VERDICT_WITHIN,     /* inside a derived bound */
    SB_VERDICT_NEAR_TIE,   /* a discrete choice that the bound leaves open */
    SB_VERDICT_INHERITED,  /* the backend fell back to the reference */
    SB_VERDICT_SKIPPED,    /* could not be compared */
    SB_VERDICT_MISTRUSTED, /* the data could not have shown a fault */
    SB_VERDICT_FAIL
} sb_verdict;
const char *sb_verdict_name(sb_verdict verdict);
sb_verdict sb_verdict_worse(sb_verdict a, sb_verdict b);

enum { SB_ELEMENT_RANK = 3, SB_WORDS = 320 };

/* The place of a finding. */
typedef struct sb_place {
    uint32_t sequence;
    uint64_t token; /* position of the token */
    uint32_t layer; /* SB_NO_LAYER: none; L: the MTP head; L + 1: a drafter */
    char op[24];    /* "delta_rule", "router", "logits", "state" */
    char name[96];  /* the tap or piece */
    size_t rank;    /* length of `element` */
    uint64_t
        element[SB_ELEMENT_RANK]; /* within the row: {column}, or {head, row, col} of a state */
    double found, expected, bound;
    char after[96];       /* T-91: the fault lies behind this tap and not behind `name`; or "" */
    char words[SB_WORDS]; /* one line for people */
} sb_place;

/* T-91: how values of ops were judged. Each tap of each call counts once. */
typedef struct sb_judged {
    size_t alone;      /* on recorded inputs */
    size_t inside;     /* in a segment between recorded values */
    size_t not_judged; /* not at all */
} sb_judged;

/* The values of one tap in one kind of layers. */
typedef struct sb_tap_judged {
    char name[48];     /* within the layer */
    const char *where; /* "linear attention", "full attention", "MTP head", "outside the layers" */
    sb_op op;
    sb_judged values;
} sb_tap_judged;

/* T-98: in which way the errors of an op are not those of round to nearest. */
typedef enum sb_bias_direction {
    SB_BIAS_none,
    SB_BIAS_away,   /* results too large */
    SB_BIAS_toward, /* too small: toward zero */
    SB_BIAS_up,
    SB_BIAS_down,
    SB_BIAS_DIRECTIONS
} sb_bias_direction;

/* "too large"; "none" */
const char *sb_bias_way(sb_bias_direction direction);

typedef struct sb_op_bias {
    size_t rows; /* that were tested; 0: nothing can be said */
    sb_bias_direction direction;
    double relative, absolute; /* mean errors, in u of the result and of the mean magnitude */
    double odds;               /* what the best bet has won so far: 10^odds to 1 */
    sb_place place;            /* of the row that decided */
    const char *null;          /* what a correct engine may be like */
    char words[200];           /* "": none */
} sb_op_bias;

/* T-100: the units whose results those of linear layers may be. */
enum { SB_FIT_ROWS = 16 };
typedef struct sb_fit_row {
    const char *name; /* row of docs/atoms.md, the first of equal ones */
    int fits;
    double odds; /* against it: 10^odds to 1 */
} sb_fit_row;
typedef struct sb_fit_verdict {
    sb_fit_row rows[SB_FIT_ROWS];
    size_t count, groups; /* groups of results that were tried; 0: nothing can be said */
    int sums;             /* binary32 sums, rounded to nearest, fit */
    const char *tightest; /* of the rows that fit; NULL: none */
    int declared;         /* the engine declares its matrix unit */
} sb_fit_verdict;

/* One op of ops.def over all steps, in the forced comparison. */
typedef struct sb_op_verdict {
    /* number of elements; open: of elements with a bound other than 0 */
    size_t compared, identical, open;
    sb_judged values;
    size_t near_ties; /* router choices that the bounds leave open */
    double worst;     /* largest error / bound */
    double median;    /* tightness (T-16) */
    sb_op_bias bias;
    sb_verdict verdict;
} sb_op_verdict;

/* One row. */
typedef struct sb_token_verdict {
    uint32_t sequence;
    uint64_t position;
    uint32_t id;     /* token that was fed */
    uint32_t top[2]; /* token of the largest logit: of the reference, of the engine (or the engine's
                        token) */
    int has_top[2];
    int has_kl;
    int kl_is_lower; /* kl is a lower bound: T-64 */
    /* divergence of the reference's distribution from the engine's, in nats */
    double kl;
    /* distance between the reference's two largest logits; bound of its noise */
    double margin, envelope;
    double worst_ratio; /* largest error / bound in this row */
    sb_verdict verdict;
} sb_token_verdict;

/* A part of the state of one sequence at one moment. */
typedef struct sb_state_verdict {
    sb_verdict verdict;
    int has_first;
    sb_place first; /* {layer, head, row, col} */
} sb_state_verdict;

typedef enum sb_state_part {
    SB_STATE_kv,
    SB_STATE_conv,
    SB_STATE_recurrent,
    SB_STATE_mtp,
    SB_STATE_PARTS
} sb_state_part;
const char *sb_state_part_name(sb_state_part part);

typedef struct sb_round_verdict {
    uint32_t sequence;
    uint64_t round, position;
    size_t drafted[2]; /* number of drafts of the reference, and of the engine */
    uint32_t drafts[2][SB_MAX_DRAFTS];
    size_t accepted[2];
    int has_reference; /* the reference proposed, too: drafts[0] is valid */
    sb_verdict verdict;
    sb_state_verdict state[SB_STATE_PARTS]; /* state after the round */
    char hypothesis[SB_WORDS];              /* "behaves like ...": the rollback mistakes that fit */
} sb_round_verdict;

/* A sequence that continues another one (U-11): the state that it begins with, and its first call.
 */
typedef struct sb_hit_verdict {
    uint32_t sequence, parent;
    uint64_t position;
    size_t rows; /* of its first call; 0: not seen yet */
    sb_verdict verdict;
    sb_state_verdict state[SB_STATE_PARTS]; /* state before its first call */
    char hypothesis[SB_WORDS];              /* "behaves as if ..." */
} sb_hit_verdict;

/* The sampler of the sequences that declare theirs (U-12). */
typedef struct sb_sampler_verdict {
    size_t sequences, draws;
    size_t open, outside; /* draws at a cut that rounding decides; draws that no sampler makes */
    size_t tested;        /* draws whose frequencies were tested */
    size_t replayed;      /* draws that are those of the declared generator */
    sb_verdict verdict;   /* none: no draw was judged */
    int has_first;
    sb_place first;
    char lacks[160];     /* what the first sequence that leaves something open does not declare */
    char weak[SB_WORDS]; /* the mistakes that so few draws do not show */
} sb_sampler_verdict;

/* A finding of --explain. */
typedef struct sb_explanation {
    char change[SB_WORDS]; /* "beta=act", "mistake head_map_mod" */
    char words[SB_WORDS];  /* "behaves like beta rounded to bf16", "nearest known change, ..." */
    double before, after;  /* worst error / bound without and with the change */
    int fits;              /* with the change, all that was judged before lies within bounds */
} sb_explanation;
enum { SB_EXPLANATIONS = 5 };

/* The elements of an array around the first failure; element i has the column first + i. */
enum { SB_AROUND = 17 };
typedef struct sb_around {
    size_t count; /* 0: the failure is not in an array */
    uint64_t first;
    float found[SB_AROUND], expected[SB_AROUND];
    double bound[SB_AROUND];
} sb_around;

/* The largest error / bound of each layer in each row; SB_CELL_EMPTY: nothing was compared. */
typedef struct sb_cells {
    /* per row: the trunk's layers, the head, and one entry for values in no layer; 0: no cells */
    size_t layers;
    size_t rows, room;
    float *worst; /* (room, layers) */
} sb_cells;
#define SB_CELL_EMPTY (-1.0f)

/* T-92: one hidden state over all rows. */
typedef struct sb_hidden_verdict {
    char name[32];     /* "": not recorded */
    size_t rows, wide; /* wide: rows that were not judged, because their bounds say nothing */
    double worst;      /* largest error / bound */
} sb_hidden_verdict;

/* A tap, or a piece of a state, that failed when judged alone, with the smallest ranges that all of
 * its failed elements lie in. */
typedef struct sb_failing {
    char name[96]; /* as in sb_place */
    sb_op op;
    uint32_t layer; /* of the op's call: SB_NO_LAYER outside the layers */
    int state;      /* a piece of a state */
    int choice;     /* experts: without columns */
    unsigned kinds; /* a bit per sb_call_kind: the calls with failed elements */
    uint64_t token[2], column[2], columns; /* first and last; columns: width of a row */
} sb_failing;

typedef struct sb_verdicts {
    sb_verdict verdict;
    char reason[SB_WORDS]; /* for FAIL, MISTRUSTED, SKIPPED: one line */
    char note[SB_WORDS];   /* e.g. why the free comparison could not decide although the ops did */
    sb_op_verdict ops[SB_OP_COUNT];
    sb_fit_verdict fit;
    sb_tap_judged *taps; /* in the order of the first call */
    size_t tap_count, tap_room;
    sb_hidden_verdict *hidden; /* in the order of the layers */
    size_t hidden_count;
    sb_token_verdict *tokens;
    size_t token_count, token_room;
    sb_round_verdict *rounds;
    size_t round_count, round_room;
    sb_hit_verdict *hits;
    size_t hit_count, hit_room;
    sb_failing *failing; /* the first SB_FAILING, in the order of their first failures */
    size_t failing_count;
    int has_failure;
    sb_place first_failure;
    sb_around around;
    char bundled[SB_WORDS];   /* the failure in the replay bundle; empty: no bundle */
    char unbundled[SB_WORDS]; /* why the first failure has no bundle */
    sb_cells cells;           /* cells of the forced comparison */
    sb_coverage coverage;
    sb_explanation explanations[SB_EXPLANATIONS]; /* the best first */
    size_t explanation_count;
    sb_sampler_verdict sampler;
    size_t near_ties, failures, skipped_taps;
    size_t digests; /* digests of states without data that differ and decide nothing */
    int lost;       /* some sequence could not be followed to its end; `reason` says why */
} sb_verdicts;

void sb_verdicts_free(sb_verdicts *verdicts);

/* Appends a zeroed row; NULL if memory runs out. The pointer is valid until the next call. */
sb_token_verdict *sb_verdicts_token(sb_verdicts *verdicts);
sb_round_verdict *sb_verdicts_round(sb_verdicts *verdicts);
sb_hit_verdict *sb_verdicts_hit(sb_verdicts *verdicts);

/* The hit that a sequence began with, or NULL. */
sb_hit_verdict *sb_verdicts_hit_of(const sb_verdicts *verdicts, uint32_t sequence);

/* Writes the reason from the first failure: its words, with its sequence, token and layer before
 * them unless the words name the token themselves. */
void sb_verdicts_reason(sb_verdicts *verdicts, uint32_t layers);

/* Appends the parent of its sequence to the words of a failure, if it has one. */
void sb_verdicts_name_parent(const sb_verdicts *verdicts, sb_place *place);

/* Adds a value to the counts of its tap and op. 0 if memory runs out. */
typedef enum sb_way { SB_WAY_not, SB_WAY_alone, SB_WAY_inside } sb_way;
int sb_verdicts_count(sb_verdicts *verdicts, const char *name, const char *where, sb_op op,
                      sb_way way);

/* FAIL, WITHIN, or SKIPPED if no row was judged. */
sb_verdict sb_hidden_judged(const sb_hidden_verdict *hidden);

/* Adds failed elements to the list of failing taps. `one` has their ranges. Without memory the list
 * stays as it is: it only makes an explanation narrower. */
enum { SB_FAILING = 64 };
void sb_verdicts_failing(sb_verdicts *verdicts, const sb_failing *one);

/* Makes room for the hidden states of a model. 0 if memory runs out. */
int sb_verdicts_hidden(sb_verdicts *verdicts, size_t count);

/* The counts of all ops together. */
sb_judged sb_verdicts_judged(const sb_verdicts *verdicts);

/* Sets the number of rows; new rows are empty. layers: of the model. 0 if memory runs out. */
int sb_cells_rows(sb_cells *cells, uint32_t layers, size_t rows);

/* Notes a ratio of a row. SB_NO_LAYER counts as one more layer, the last. */
void sb_cells_mark(sb_cells *cells, size_t row, uint32_t layer, double ratio);

/* True if anything was compared in a row. */
int sb_cells_any(const sb_cells *cells, size_t row);

/* Merges row other_row of `other` into a row. */
void sb_cells_add(sb_cells *cells, size_t row, const sb_cells *other, size_t other_row);

/* Counts a failure and keeps the first: the earliest token, and within a token the earliest call of
 * this function. True if `place` was kept; `around` is then empty. */
int sb_verdicts_fail(sb_verdicts *verdicts, const sb_place *place);

#endif
