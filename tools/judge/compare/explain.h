/* explain.h - searches for a change of the reference that makes a difference vanish: another value
 * of a knob, or a mistake in an op. Tries all single changes on the steps up to the failure, then
 * pairs of the best. */
#ifndef SB_COMPARE_EXPLAIN_H
#define SB_COMPARE_EXPLAIN_H

#include "ref/ops/knob.h"
#include "tools/judge/compare/differ.h"

/* A change of the reference. */
typedef struct sb_change {
    char name[96];        /* "beta=act" */
    char words[SB_WORDS]; /* "beta rounded to the activation type" */
    sb_knob_value value;  /* SB_VALUE_COUNT: it changes no knob */
    sb_op_hook twin;      /* runs ops in place of the reference's; NULL: it changes no op */
    void *twin_ctx;
    void (*begin)(void *twin_ctx); /* called before each use, or NULL */
} sb_change;

typedef struct sb_changes {
    sb_change *items;
    size_t count, room;
} sb_changes;

/* NULL if memory runs out. The pointer is valid until the next call. */
sb_change *sb_changes_add(sb_changes *changes);
void sb_changes_free(sb_changes *changes);

/* Adds, for every knob that can matter to a difference in this layer of the model, every value
 * other than the value in `knobs`. */
sb_status sb_changes_of_knobs(sb_changes *changes, const sb_model *model, const sb_knobs *knobs,
                              uint32_t layer, sb_error *err);

/* Describes the behaviour of a model with this value. */
void sb_behaves_like(sb_knob_value value, char words[SB_WORDS]);

/* Copies of the steps up to the first failure: all, or only from the last step on that can be
 * compared without earlier steps. */
typedef struct sb_keep {
    sb_step *steps;
    size_t count, room;
    size_t bytes;
    int whole;  /* all steps are kept */
    int frozen; /* the last step has failed: no more are kept */
    int lost;   /* the steps took too much memory */
} sb_keep;

/* Keeps a step. Call it before the step is compared. */
sb_status sb_keep_step(sb_keep *keep, const sb_step *step, sb_error *err);
void sb_keep_free(sb_keep *keep);

/* Drops the rows after the failed row if all rows belong to one sequence: no earlier row depends on
 * them. */
void sb_keep_cut(sb_keep *keep, uint64_t position);

typedef void (*sb_explain_progress)(void *unused, const char *what, uint64_t done, uint64_t total);

/* Runs the kept steps under every change and fills in verdicts->explanations, the best first. There
 * are none if no change reduces the difference. differ: the options of the comparison that failed.
 */
sb_status sb_explain(const sb_model *model, const sb_differ_options *differ, const sb_keep *keep,
                     const sb_changes *changes, sb_explain_progress progress, sb_verdicts *verdicts,
                     sb_error *err);

#endif
