/* explain.h - which single change makes a difference vanish: another value of a knob, or a mistake
 * in an op, tried on the step that failed, one after the other, then pairs of the best. */
#ifndef SB_COMPARE_EXPLAIN_H
#define SB_COMPARE_EXPLAIN_H

#include "tools/compare/differ.h"

/* A change of the reference. */
typedef struct sb_change {
    char name[96];        /* "beta=act" */
    char words[SB_WORDS]; /* "beta rounded to the activation type" */
    sb_knob_value value;  /* SB_VALUE_COUNT: it changes no knob */
    sb_op_hook twin;      /* runs ops in place of the reference's; NULL: it changes no op */
    void *twin_ctx;
    void (*begin)(void *twin_ctx); /* before each use, or NULL */
} sb_change;

typedef struct sb_changes {
    sb_change *items;
    size_t count, room;
} sb_changes;

/* NULL if memory is out. The pointer is good until the next is added. */
sb_change *sb_changes_add(sb_changes *changes);
void sb_changes_free(sb_changes *changes);

/* Every value that `knobs` does not have of every knob that can matter to a difference in this
 * layer of the model. */
sb_status sb_changes_of_knobs(sb_changes *changes, const sb_model *model, const sb_knobs *knobs,
                              uint32_t layer, sb_error *err);

/* What a model behaves like that has this value. */
void sb_behaves_like(sb_knob_value value, char words[SB_WORDS]);

/* Copies of the steps that a comparison needs up to its first failure: from the last one that is
 * complete in itself, or all. */
typedef struct sb_keep {
    sb_step *steps;
    size_t count, room;
    size_t bytes;
    int whole;  /* from the first step on, whatever states they have */
    int frozen; /* the failure is the last of them */
    int lost;   /* they were too many */
} sb_keep;

/* Before a step is compared. */
sb_status sb_keep_step(sb_keep *keep, const sb_step *step, sb_error *err);
void sb_keep_free(sb_keep *keep);

/* Drops the rows behind the one that failed, where they all are of one sequence: nothing before
 * them depends on them. */
void sb_keep_cut(sb_keep *keep, uint64_t position);

typedef void (*sb_explain_progress)(void *unused, const char *what, uint64_t done, uint64_t total);

/* Runs the kept steps under every change, and fills in verdicts->explanations, the best first; none
 * if no change brings the worst difference down. differ: as it was when it failed. */
sb_status sb_explain(const sb_model *model, const sb_differ_options *differ, const sb_keep *keep,
                     const sb_changes *changes, sb_explain_progress progress, sb_verdicts *verdicts,
                     sb_error *err);

#endif
