/* explain.h - searches for a change of the reference that makes a difference vanish: another value
 * of a knob, or a mistake in an op.
 *
 * A change is tried where the first failure lies, alone, and then in all that was judged before: in
 * the smallest place that the failures show, and everywhere. It explains the difference only if all
 * of that is judged again and lies within bounds. */
#ifndef SB_COMPARE_EXPLAIN_H
#define SB_COMPARE_EXPLAIN_H

#include "ref/ops/knob.h"
#include "tools/judge/compare/differ.h"
#include "tools/judge/fault/site.h"

/* A change of the reference. */
typedef struct sb_change {
    char name[96];           /* "beta=act", "mistake gate_up_swapped" */
    char words[SB_WORDS];    /* "beta rounded to the activation type" */
    sb_knob_value value;     /* SB_VALUE_COUNT: it changes no knob */
    const sb_planted *fault; /* a mistake in an op; NULL: none */
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

/* Adds every mistake of a list that can be planted in an op. */
sb_status sb_changes_of_mistakes(sb_changes *changes, const sb_planted *list, sb_error *err);

/* Describes the behaviour of a model with this value, without "behaves like". */
void sb_knob_words(sb_knob_value value, char words[SB_WORDS]);

/* Describes a place: "in layer 3, in columns 128 to 191"; "" for everywhere. columns: width of the
 * output that `part` divides; 0: it divides a state. layers: of the trunk. */
void sb_site_words(const sb_site *site, uint64_t columns, uint32_t layers, char words[SB_WORDS]);

/* Copies of the steps before and behind the first failure, as many as can be run again in a short
 * time. */
typedef struct sb_keep {
    sb_step *steps;
    size_t count, room;
    size_t bytes, rows;
    size_t from;    /* the last step before the failure that can be compared without earlier ones */
    size_t prior;   /* the one before: from there comes the state that `from` begins with */
    size_t failed;  /* the number of kept steps up to the failed one */
    int after;      /* a step has failed, which may be lost */
    size_t dropped; /* steps that were dropped, all before the others */
    int more;       /* there were more steps behind the failure */
    int whole;      /* no steps are dropped */
    int lost;       /* the steps took too much memory */
} sb_keep;

/* Keeps a step. Call it before the step is compared. */
sb_status sb_keep_step(sb_keep *keep, const sb_step *step, sb_error *err);

/* Notes that the last step has failed, if none has before. */
void sb_keep_failed(sb_keep *keep);
void sb_keep_free(sb_keep *keep);

/* The last token of the kept steps. */
uint64_t sb_keep_end(const sb_keep *keep);

/* A view of a step without the rows after this position, if all rows belong to one sequence: no
 * earlier row depends on them. The caller frees out->taps.items if they are not step's. 0 if memory
 * runs out. */
int sb_keep_cut(const sb_step *step, uint64_t position, sb_step *out);

typedef void (*sb_explain_progress)(void *unused, const char *what, uint64_t done, uint64_t total);

/* Runs the kept steps under the changes and fills in verdicts->explanations: those that fit, the
 * best first, or else the nearest. differ: the options of the comparison that failed. */
sb_status sb_explain(const sb_model *model, const sb_differ_options *differ, const sb_keep *keep,
                     const sb_changes *changes, sb_explain_progress progress, sb_verdicts *verdicts,
                     sb_error *err);

#endif
