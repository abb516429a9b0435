/* envelope.h - how far a model moves when every rounding of it goes another way.
 *
 * One sequence of the reference, and N more in lockstep with it, in which the result of every op is
 * moved by a unit in the last place by chance, T-40. Half of the sequences keep the codes that the
 * reference has of quantized inputs; the others take another where rounding leaves it open (T-42).
 * Of the choices of experts, too, half keep to the reference's; the others take the runner-up at
 * random where rounding leaves the choice open (T-43), so that there are two estimates of the
 * noise: without such choices and codes, and with them.
 *
 * Everything is a function of the seed, the calls and the model: no order of threads enters. */
#ifndef SB_COMPARE_ENVELOPE_H
#define SB_COMPARE_ENVELOPE_H

#include "ref/run/session.h"
#include "tools/compare/ball.h"

typedef struct sb_envelope sb_envelope;

typedef struct sb_envelope_options {
    const sb_knobs *knobs;           /* NULL: profile exact */
    const sb_arithmetic *arithmetic; /* of the other program; NULL: library */
    size_t perturbed;                /* N; 0: no noise is estimated */
    uint64_t seed;
    int mtp;
    int replays;     /* rejected rows are undone by feeding the others again: T-85 */
    sb_op_hook twin; /* runs the ops in place of sb_op_run, or NULL */
    void *twin_ctx;
} sb_envelope_options;

/* N where nobody asks for another. */
enum { SB_PERTURBED = 4 };

sb_status sb_envelope_new(const sb_model *model, const sb_envelope_options *options,
                          sb_envelope **out, sb_error *err);
void sb_envelope_free(sb_envelope *envelope);

/* The expert set of another program for a row of the next calls, `kept` ids in any order; 0 if it
 * is not known. NULL: none is. */
typedef int (*sb_expert_source)(void *ctx, uint32_t layer, size_t row, uint32_t *ids, size_t kept);
void sb_envelope_adopt(sb_envelope *envelope, sb_expert_source source, void *ctx);

/* As the functions of session.h, on all sequences. After a call that failed the envelope is good
 * for sb_envelope_free and sb_envelope_reset. */
sb_status sb_envelope_feed(sb_envelope *envelope, const uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_envelope_verify(sb_envelope *envelope, const uint32_t *tokens, size_t n,
                             sb_error *err);
sb_status sb_envelope_keep(sb_envelope *envelope, size_t kept, sb_error *err);

/* Whether in the last keep some took other experts for the rows that were kept: T-85. */
int sb_envelope_chose_anew(const sb_envelope *envelope);
void sb_envelope_reset(sb_envelope *envelope);

/* Where a sequence that chose other experts left the others, it is made a copy of one that did not
 * (T-43). Between calls only, and not before a keep. */
sb_status sb_envelope_rejoin(sb_envelope *envelope, sb_error *err);

/* Root mean square of the differences from the reference. */
typedef struct sb_noise {
    double tight; /* of the sequences with the reference's experts and codes */
    double loose; /* of those that choose others, too; at least `tight` */
    int flipped;  /* some did choose otherwise */
} sb_noise;

/* Logits (V) of the reference for a row of the last call, and their noise. */
sb_status sb_envelope_logits(sb_envelope *envelope, size_t row, float *logits, sb_noise *noise,
                             sb_error *err);

/* One step of the head on all sequences, as sb_session_draft. */
sb_status sb_envelope_draft(sb_envelope *envelope, uint32_t token, float *logits, sb_noise *noise,
                            sb_error *err);
void sb_envelope_forget_drafts(sb_envelope *envelope);

/* Expert sets that were adopted in the last call: the router logit that the reference would have to
 * be wrong by, and how much of that rounding explains. */
typedef struct sb_adopted {
    uint32_t layer;
    size_t row;
    uint32_t ours, theirs; /* the experts on both sides of the margin */
    double margin, bound;
} sb_adopted;
const sb_adopted *sb_envelope_adopted(const sb_envelope *envelope, size_t *count);

/* Sequence 0 is the reference; 1 .. N are the others. Whether one keeps to its experts and codes.
 */
const sb_session *sb_envelope_session(const sb_envelope *envelope, size_t i);
int sb_envelope_is_tight(const sb_envelope *envelope, size_t i);
size_t sb_envelope_count(const sb_envelope *envelope); /* N + 1 */

/* Keys or values of sequence i before they became codes, each divided by its scale: the rows of
 * that piece of its state (piece.h). NULL where the cache keeps no codes, or none of this piece. */
const float *sb_envelope_uncoded(const sb_envelope *envelope, size_t i, size_t piece);

/* T-41: a value of a program of this arithmetic (NULL: library) is expected within so many root
 * mean squares of the noise of `runs` sequences; `among` values are compared at a time. */
double sb_envelope_factor(const sb_model *model, const sb_knobs *knobs,
                          const sb_arithmetic *arithmetic, size_t among);

#endif
