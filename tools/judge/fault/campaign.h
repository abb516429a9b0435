/* campaign.h - plants faults one after the other, runs correct engines that must pass, and keeps
 * the score. */
#ifndef SB_FAULT_CAMPAIGN_H
#define SB_FAULT_CAMPAIGN_H

#include "tools/judge/fault/faults.h"
#include "tools/judge/fault/sign.h"
#include "tools/judge/trace/cut.h"

typedef enum sb_fault_result {
    SB_FAULT_CAUGHT,
    SB_FAULT_SURVIVED,  /* not all required signs fired, or T-70 is violated */
    SB_FAULT_MISPLACED, /* caught, but a sign fired that should be quiet */
    SB_FAULT_ALARM,     /* a correct engine failed */
    SB_FAULT_PASSED,    /* a correct engine passed */
    SB_FAULT_SKIPPED    /* not planted here */
} sb_fault_result;
const char *sb_fault_result_name(sb_fault_result result);

typedef struct sb_finding_of_fault {
    const sb_fault *fault; /* NULL: a correct engine */
    char name[96];         /* of a correct engine: "T1 bf16 mistakes hf sequential" */
    sb_fault_result result;
    sb_signs signs;
    char place[SB_WORDS]; /* the first failure, or the reason of SKIPPED */
    int has_peers, peers[SB_PEERS];
    int has_levels;
    sb_verdict level[SB_TRACE_VIEWS]; /* the verdict on a trace of this level */
    size_t tokens;
} sb_finding_of_fault;

/* Called with each finding. */
typedef void (*sb_finding_fn)(void *ctx, const sb_finding_of_fault *finding);

typedef struct sb_campaign_options {
    const char *folder; /* where checkpoints are made: has to exist, is restored at the end */
    int keep;   /* not restored: one fault leaves "checkpoint", an edited "engine" and a "trace" */
    int levels; /* each run is also judged by a trace of every level */
    uint64_t seed;
    sb_finding_fn found;
    void *found_ctx;
} sb_campaign_options;

typedef struct sb_campaign sb_campaign;

/* Counts for one kind of correct engine, e.g. axis "engine", name "pairwise". */
typedef struct sb_clean_kind {
    const char *axis, *name;
    uint64_t tokens;
    size_t runs, false_alarms, mistrusted;
} sb_clean_kind;

/* The faults of one kind; failed[i]: the number of them that fail with a trace of level i. */
typedef struct sb_level_score {
    size_t planted, failed[SB_TRACE_VIEWS];
} sb_level_score;

enum { SB_CLEAN_KINDS = 96 };

typedef struct sb_score {
    size_t planted, caught, survived, misplaced, skipped;
    size_t benign, false_alarms, mistrusted;
    uint64_t clean_tokens;
    size_t peers_caught[SB_PEERS], peers_alarms[SB_PEERS];
    size_t peers_faults, peers_clean; /* runs that had logits for the peers to judge */
    /* Only with sb_campaign_options.levels: a score per kind of plant, and one for correct engines,
     * which must not fail at any level. */
    sb_level_score levels[SB_PLANT_covered + 1], correct;
    sb_clean_kind kinds[SB_CLEAN_KINDS]; /* by axis, each axis in the order of its list */
    size_t kind_count;
} sb_score;

sb_status sb_campaign_new(const sb_campaign_options *options, sb_campaign **out, sb_error *err);

/* Also removes the files made. */
void sb_campaign_free(sb_campaign *campaign);

/* Runs a fault, or a benign row of the list. */
sb_status sb_campaign_fault(sb_campaign *campaign, const sb_fault *fault, sb_error *err);

/* Runs correct engines of every kind until `tokens` tokens are compared. Different parts have no
 * run in common, so a campaign of many hours can be split into parts. */
sb_status sb_campaign_clean(sb_campaign *campaign, uint64_t tokens, uint32_t part, sb_error *err);

const sb_score *sb_campaign_score(const sb_campaign *campaign);

/* Makes and keeps the checkpoint of a vehicle ("T1 bf16 mistakes"). */
sb_status sb_campaign_model(sb_campaign *campaign, const char *vehicle, const sb_model **out,
                            sb_error *err);

#endif
