/* trial.h - an engine of this program, with something planted in it, at work on a short script, and
 * its steps held against the reference: what `samebit diff` does with a live engine, and what other
 * testers' criteria make of the same logits.
 *
 * The script: a prompt in two calls, then the engine's own tokens: one by one, then in rounds of
 * drafts, which are its head's unless the script says otherwise. */
#ifndef SB_FAULT_TRIAL_H
#define SB_FAULT_TRIAL_H

#include "ref/run/session.h"
#include "tools/compare/differ.h"
#include "tools/fault/op_faults.h"
#include "tools/fault/peers.h"
#include "tools/fault/site.h"
#include "tools/sim/sim.h"
#include "tools/trace/head.h"

/* Changes a recorded step before it is compared: a fault of the trace. */
typedef struct sb_spoiler {
    sb_status (*spoil)(struct sb_spoiler *spoiler, sb_step *step);
    void *ctx;
    size_t seen;         /* counts */
    int drop;            /* no step is handed on */
    const sb_site *site; /* NULL: every step */
} sb_spoiler;

/* Who drafts, and who says how many drafts are accepted. */
typedef enum sb_drafting {
    SB_DRAFTING_own,      /* the head; the model */
    SB_DRAFTING_external, /* nobody's head; the model, and in every second round nobody */
    SB_DRAFTING_forced    /* the head; nobody */
} sb_drafting;

typedef struct sb_script {
    size_t prompt, decode, rounds, drafts;
    size_t sequences; /* a slip is planted in the first */
    size_t calls;     /* of the prompt, about equal; 0: two, of two thirds and a third */
    sb_drafting drafting;
    size_t phrase;    /* the prompt is its first so many tokens again and again; 0: no repeat */
    int replay;       /* a round is undone by feeding its rows again, also where snapshots could */
    const char *name; /* of the tokens */
} sb_script;

typedef struct sb_trial {
    const sb_model *reference;
    const sb_model *engine; /* another checkpoint; NULL: the reference's */
    sb_knobs knobs;         /* of the reference */
    sb_knobs engine_knobs;  /* of the engine */
    const sb_sim *sim;      /* NULL: the reference's ops */
    int self;               /* the reference's ops pass for another engine's */
    sb_op_hook hook;        /* planted; NULL: nothing */
    void *hook_ctx;
    sb_tap_fn tap; /* changes recorded values as they are made; NULL: nothing */
    void *tap_ctx;
    const sb_planted *slip;     /* NULL: none */
    const sb_site *site;        /* of the slip, or of `feeds_other`; NULL: everywhere */
    int feeds_other;            /* behind that round another token is fed than was emitted */
    sb_trace_rollback rollback; /* as a trace of it says, whatever the script does */
    sb_spoiler *spoiler;        /* NULL: none */
    sb_step_fn record;          /* gets the engine's steps, too; or NULL */
    void *record_ctx;
    sb_script script;
    int with_forced, with_free; /* which comparisons are made, each by itself */
    int together;               /* one comparison in both ways instead, as samebit diff makes it */
    int levels;                 /* and one of what a trace of each level has, in both ways */
    size_t perturbed;           /* runs of the envelope */
    uint64_t seed;
} sb_trial;

typedef struct sb_outcome {
    sb_verdicts forced, free;
    int refused; /* the engine stopped, or the comparison refused its steps: why stands in `words`
                  */
    char words[SB_WORDS];
    sb_peers peers;
    sb_verdict level[SB_TRACE_LEVELS]; /* of a recording of this level; none unless asked for */
    size_t tokens;                     /* rows compared */
} sb_outcome;

/* Runs it. SB_OK also where the engine failed or was refused; sb_outcome_clear in any case. */
sb_status sb_trial_run(const sb_trial *trial, sb_outcome *out, sb_error *err);
void sb_outcome_clear(sb_outcome *outcome);

#endif
