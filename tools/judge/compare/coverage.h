/* coverage.h - which regimes the compared data reached: experts, borders of chunks, the ends of the
 * gates, accepted counts. A fault that shows only in a regime that was not reached cannot have been
 * seen. */
#ifndef SB_COMPARE_COVERAGE_H
#define SB_COMPARE_COVERAGE_H

#include "ref/model/config.h"
#include "ref/run/hook.h"
#include "ref/run/round.h"

typedef enum sb_regime {
#define SB_REGIME(name, words, unit) SB_REGIME_##name,
#include "tools/judge/compare/regimes.def"
#undef SB_REGIME
    SB_REGIMES
} sb_regime;

/* "softplus", "softplus beyond 20", "gates". */
const char *sb_regime_name(sb_regime regime);
const char *sb_regime_words(sb_regime regime);
const char *sb_regime_unit(sb_regime regime);

typedef struct sb_coverage {
    uint32_t layers, experts; /* L + 1, the last is the MTP head's; E */
    unsigned char *routed;    /* (L + 1, E): 1 if the expert of this layer was chosen */
    int has_gates;            /* gates of a linear attention ran */
    /* counts; of SB_REGIME_position the largest position. SB_REGIME_experts and SB_REGIME_accepted
     * are 0 here: sb_coverage_seen counts them in `routed` and `accepted` */
    uint64_t reached[SB_REGIMES];
    unsigned char accepted[SB_MAX_DRAFTS + 1]; /* 1 if a round accepted this number of drafts */
    size_t drafted;                            /* the largest number of drafts of a round */
} sb_coverage;

/* Returns 0 if memory runs out. */
int sb_coverage_begin(sb_coverage *coverage, const sb_config *config);
void sb_coverage_free(sb_coverage *coverage);

/* Takes the values of an op that has run. */
void sb_coverage_op(sb_coverage *coverage, const sb_op_call *call);

/* Takes a round of an engine. */
void sb_coverage_round(sb_coverage *coverage, size_t drafted, size_t accepted);

/* One regime. Not every regime applies: a dense model has no experts. */
typedef struct sb_regime_seen {
    int applies;
    uint64_t reached, of; /* of: 0 if there is no such number */
    char detail[96];      /* "layer 3 lacks 17 of 64"; may be empty */
} sb_regime_seen;
sb_regime_seen sb_coverage_seen(const sb_coverage *coverage, sb_regime regime);

/* True if a regime applies and was not reached, or not as a whole. */
int sb_regime_missed(const sb_regime_seen *seen);

/* Adds what `other` reached. Returns the number of regimes, experts and accepted counts that are
 * new. */
size_t sb_coverage_add(sb_coverage *coverage, const sb_coverage *other);

#endif
