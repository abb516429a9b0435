/* envelope.h - how far a model's results move when its roundings go other ways.
 *
 * One sequence is the reference. N more run in lockstep with it, and every op's result in them is
 * moved at random by a unit in the last place (T-40). Half of the N sequences, the tight ones, keep
 * the reference's codes of quantized inputs and its choices of experts. The others, the loose ones,
 * take another code (T-42) or the runner-up expert (T-43) where rounding leaves that open. So there
 * are two estimates of the noise: without such codes and choices, and with them.
 *
 * Results depend only on the seed, the calls and the model, not on the order of threads. */
#ifndef SB_COMPARE_ENVELOPE_H
#define SB_COMPARE_ENVELOPE_H

#include "ref/run/eagle3.h"
#include "ref/run/session.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/compare/coverage.h"

typedef struct sb_envelope sb_envelope;

typedef struct sb_envelope_options {
    const sb_knobs *knobs;           /* NULL: profile exact */
    const sb_arithmetic *arithmetic; /* arithmetic of the other program; NULL: library */
    size_t perturbed;                /* N; 0: no noise is estimated */
    uint64_t seed;
    int mtp;
    const sb_eagle3 *drafter; /* makes the drafts; NULL: the head does. It must outlive this */
    sb_coverage *coverage;    /* receives the regimes of the reference's values, or NULL */
    int replays;     /* the engine undoes rejected rows by feeding the kept rows again: T-85 */
    sb_op_hook twin; /* runs the ops in place of sb_op_run, or NULL */
    void *twin_ctx;
} sb_envelope_options;

/* The default N. */
enum { SB_PERTURBED = 4 };

sb_status sb_envelope_new(const sb_model *model, const sb_envelope_options *options,
                          sb_envelope **out, sb_error *err);
void sb_envelope_free(sb_envelope *envelope);

/* Sets the source of another program's expert sets for the next calls; NULL: none. For a row the
 * source writes `kept` ids in any order and returns 1, or returns 0 if the set is not known. */
typedef int (*sb_expert_source)(void *ctx, uint32_t layer, size_t row, uint32_t *ids, size_t kept);
void sb_envelope_adopt(sb_envelope *envelope, sb_expert_source source, void *ctx);

/* As the functions of session.h, on all sequences. After a failed call only sb_envelope_free and
 * sb_envelope_reset may be called. */
sb_status sb_envelope_feed(sb_envelope *envelope, const uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_envelope_verify(sb_envelope *envelope, const uint32_t *tokens, size_t n,
                             sb_error *err);
sb_status sb_envelope_keep(sb_envelope *envelope, size_t kept, sb_error *err);

/* T-85: true if some sequences took other experts for the kept rows in the last keep. */
int sb_envelope_chose_anew(const sb_envelope *envelope);
void sb_envelope_reset(sb_envelope *envelope);

/* T-43: replaces each sequence that chose other experts by a copy of one that did not. Only between
 * calls; not between a verify and its keep. */
sb_status sb_envelope_rejoin(sb_envelope *envelope, sb_error *err);

/* Root mean squares of the differences from the reference. */
typedef struct sb_noise {
    double tight; /* of the tight sequences */
    double loose; /* of the loose sequences; at least `tight` */
    int flipped;  /* some sequence chose other experts */
} sb_noise;

/* The reference's logits (V) of a row of the last call, and their noise. */
sb_status sb_envelope_logits(sb_envelope *envelope, size_t row, float *logits, sb_noise *noise,
                             sb_error *err);

/* T-92: another program's hidden states of the next call, and of its rows if they are fed again:
 * (L + 2) arrays (rows, H) by sb_tap_hidden, each of which may be NULL. Every sequence keeps its
 * own values (sb_envelope_hidden) and goes on from these. They must stay valid. NULL: none. */
void sb_envelope_take_hidden(sb_envelope *envelope, float *const *theirs);

/* Hidden state `at` of all rows of the last call in sequence i (rows, H); NULL if there is none.
 */
const float *sb_envelope_hidden(const sb_envelope *envelope, size_t i, size_t at);

/* One step of the head on all sequences, as sb_session_draft; or of the drafter, with the logits
 * (Vd) of its head (S-15). */
sb_status sb_envelope_draft(sb_envelope *envelope, uint32_t token, float *logits, sb_noise *noise,
                            sb_error *err);
void sb_envelope_forget_drafts(sb_envelope *envelope);

/* An expert set that was adopted in the last call. margin: the error of router logits that would
 * explain the other choice. bound: the error that rounding explains. */
typedef struct sb_adopted {
    uint32_t layer;
    size_t row;
    uint32_t ours, theirs; /* the experts on both sides of the margin */
    double margin, bound;
} sb_adopted;
const sb_adopted *sb_envelope_adopted(const sb_envelope *envelope, size_t *count);

/* Sequence 0 is the reference; 1 .. N are the others. is_tight: true if the sequence keeps the
 * reference's experts and codes. */
const sb_session *sb_envelope_session(const sb_envelope *envelope, size_t i);
int sb_envelope_is_tight(const sb_envelope *envelope, size_t i);
size_t sb_envelope_count(const sb_envelope *envelope); /* N + 1 */

/* The mean square against which a value is compared, from the mean squares of the tight and of the
 * loose sequences. */
double sb_envelope_loose(const sb_envelope *envelope, double tight, double loose);

/* The rows of a piece (keys or values, piece.h) of sequence i before they became codes, each value
 * divided by its scale. NULL if the cache keeps no codes, or none of this piece. */
const float *sb_envelope_uncoded(const sb_envelope *envelope, size_t i, size_t piece);

/* T-41: the factor of the noise within which values of a program of this arithmetic (NULL: library)
 * are expected, if `among` values are compared together. */
double sb_envelope_factor(const sb_model *model, const sb_knobs *knobs,
                          const sb_arithmetic *arithmetic, size_t among);

#endif
