/* trial.h - runs an engine of this program, with a planted fault, on a short script, and compares
 * its steps with the reference as `samebit diff` does with a live engine. Other testers' criteria
 * judge the same logits.
 *
 * The script: a prompt in two calls, then the engine's own tokens, first one by one, then in rounds
 * of drafts. The head makes the drafts unless the script says otherwise. */
#ifndef SB_FAULT_TRIAL_H
#define SB_FAULT_TRIAL_H

#include "ref/run/session.h"
#include "tools/judge/compare/differ.h"
#include "tools/judge/fault/drafter.h"
#include "tools/judge/fault/drawer.h"
#include "tools/judge/fault/op_faults.h"
#include "tools/judge/fault/peers.h"
#include "tools/judge/fault/site.h"
#include "tools/judge/sim/sim.h"
#include "tools/judge/trace/cut.h"

/* Changes a recorded step before it is compared: a fault of the trace. */
typedef struct sb_spoiler {
    sb_status (*spoil)(struct sb_spoiler *spoiler, sb_step *step);
    void *ctx;
    size_t seen;         /* steps so far */
    int drop;            /* drop all steps */
    const sb_site *site; /* NULL: every step */
} sb_spoiler;

/* The source of drafts, and of the number of accepted drafts. */
typedef enum sb_drafting {
    SB_DRAFTING_own,      /* drafts by the head; the model accepts */
    SB_DRAFTING_external, /* random drafts; the model accepts, in every second round a random number
                           */
    SB_DRAFTING_forced    /* drafts by the head; a random number is accepted */
} sb_drafting;

typedef struct sb_script {
    size_t prompt, decode, rounds, drafts;
    size_t sequences; /* a slip is planted only in the first */
    size_t calls;     /* calls of the prompt, about equal; 0: two, of 2/3 and 1/3 */
    sb_drafting drafting;
    size_t phrase; /* length of the phrase that the prompt repeats; 0: no repeat */
    int replay;    /* undo rounds by feeding rows again, even if snapshots could undo them */
    size_t hit; /* after all sequences, one more continues the first at this position of its prompt;
                   0: none */
    size_t block;     /* of the mistakes in that state, below `hit` */
    const char *name; /* names the random tokens */
} sb_script;

typedef struct sb_trial {
    const sb_model *reference;
    const sb_model *engine; /* another checkpoint; NULL: the reference's */
    sb_knobs knobs;         /* of the reference */
    sb_knobs engine_knobs;  /* of the engine */
    const sb_sim *sim;      /* NULL: the reference's ops */
    int self;               /* the reference's ops pose as another engine */
    sb_op_hook hook;        /* the planted fault; NULL: none */
    void *hook_ctx;
    sb_tap_fn tap; /* changes values as they are recorded; NULL: none */
    void *tap_ctx;
    const sb_planted *slip;                /* NULL: none */
    const sb_planted *hit;                 /* a mistake in the state of script.hit; NULL: none */
    const sb_eagle3 *drafter;              /* makes the drafts; NULL: the head does */
    const sb_drafter_fault *drafter_fault; /* a mistake of the engine in it; NULL: none */
    const sb_draw_fault *draw;  /* tokens are drawn, not the largest logits; NULL: they are not */
    const sb_site *site;        /* site of the slip, or of `feeds_other`; NULL: everywhere */
    int feeds_other;            /* after that round another token is fed than the emitted one */
    sb_trace_rollback rollback; /* as declared in a trace, independent of the script */
    sb_spoiler *spoiler;        /* NULL: none */
    sb_step_fn record;          /* also receives the engine's steps; or NULL */
    void *record_ctx;
    sb_script script;
    int with_forced, with_free; /* make these comparisons, separately */
    int together;               /* instead, one comparison in both ways, as samebit diff makes it */
    unsigned view;              /* what that one sees (cut.h); 0: everything */
    uint64_t view_seed;
    int levels;       /* also one comparison in both ways for a trace of each level */
    size_t perturbed; /* runs of the envelope */
    uint64_t seed;
} sb_trial;

typedef struct sb_outcome {
    sb_verdicts forced, free;
    int refused; /* the engine stopped, or its steps were refused; reason in `words` */
    char words[SB_WORDS];
    sb_peers peers;
    sb_verdict level[SB_TRACE_VIEWS]; /* for a trace of this level; none if not requested */
    size_t tokens;                    /* compared rows */
} sb_outcome;

/* Runs the trial. SB_OK even if the engine failed or was refused. Call sb_outcome_clear in any
 * case. */
sb_status sb_trial_run(const sb_trial *trial, sb_outcome *out, sb_error *err);
void sb_outcome_clear(sb_outcome *outcome);

#endif
