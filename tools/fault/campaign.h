/* campaign.h - faults planted one after the other, and correct engines that must pass: the score.
 */
#ifndef SB_FAULT_CAMPAIGN_H
#define SB_FAULT_CAMPAIGN_H

#include "tools/fault/faults.h"
#include "tools/fault/sign.h"

typedef enum sb_fault_result {
    SB_FAULT_CAUGHT,
    SB_FAULT_SURVIVED,  /* nothing that should fire did */
    SB_FAULT_MISPLACED, /* it was caught, and something fired that should be quiet */
    SB_FAULT_ALARM,     /* a correct engine was not believed */
    SB_FAULT_PASSED,    /* a correct engine was */
    SB_FAULT_SKIPPED    /* not planted here */
} sb_fault_result;
const char *sb_fault_result_name(sb_fault_result result);

typedef struct sb_finding_of_fault {
    const sb_fault *fault; /* NULL: a clean variant */
    char name[96];         /* of a clean variant: "T1 bf16 mistakes hf sequential" */
    sb_fault_result result;
    sb_signs signs;
    char place[SB_WORDS]; /* the first failure, or why not */
    int has_peers, peers[SB_PEERS];
    int has_levels;
    sb_verdict level[SB_TRACE_LEVELS]; /* of a recording of this level */
    size_t tokens;
} sb_finding_of_fault;

/* One is ready. */
typedef void (*sb_finding_fn)(void *ctx, const sb_finding_of_fault *finding);

typedef struct sb_campaign_options {
    const char *folder; /* where checkpoints are made: must exist, is left as it is afterwards */
    int keep;   /* but not then: one fault leaves "checkpoint", an edited "engine" and a "trace" */
    int levels; /* each is judged by a recording of every level, too */
    uint64_t seed;
    sb_finding_fn found;
    void *found_ctx;
} sb_campaign_options;

typedef struct sb_campaign sb_campaign;

/* What was compared of one kind of correct engine: "engine", "pairwise". */
typedef struct sb_clean_kind {
    const char *axis, *name;
    uint64_t tokens;
    size_t runs, false_alarms, mistrusted;
} sb_clean_kind;

/* How many faults of one kind fail by a trace of each level alone. */
typedef struct sb_level_score {
    size_t planted, failed[SB_TRACE_LEVELS];
} sb_level_score;

enum { SB_CLEAN_KINDS = 96 };

typedef struct sb_score {
    size_t planted, caught, survived, misplaced, skipped;
    size_t benign, false_alarms, mistrusted;
    uint64_t clean_tokens;
    size_t peers_caught[SB_PEERS], peers_alarms[SB_PEERS];
    size_t peers_faults, peers_clean; /* of so many they had logits */
    /* Only with sb_campaign_options.levels: one score for each kind of plant, and one for correct
     * engines, which must not fail at any level. */
    sb_level_score levels[SB_PLANT_covered + 1], correct;
    sb_clean_kind kinds[SB_CLEAN_KINDS]; /* by axis, each axis in the order of its list */
    size_t kind_count;
} sb_score;

sb_status sb_campaign_new(const sb_campaign_options *options, sb_campaign **out, sb_error *err);

/* Removes what was made. */
void sb_campaign_free(sb_campaign *campaign);

/* Plants a fault, or a benign row of the list. */
sb_status sb_campaign_fault(sb_campaign *campaign, const sb_fault *fault, sb_error *err);

/* Correct engines of every kind, until so many tokens have been compared. Parts have no run in
 * common: what needs many hours is made in parts. */
sb_status sb_campaign_clean(sb_campaign *campaign, uint64_t tokens, uint32_t part, sb_error *err);

const sb_score *sb_campaign_score(const sb_campaign *campaign);

/* A made checkpoint, kept: "T1 bf16 mistakes". */
sb_status sb_campaign_model(sb_campaign *campaign, const char *vehicle, const sb_model **out,
                            sb_error *err);

#endif
