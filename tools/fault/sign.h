/* sign.h - what of a comparison fired, as words: what the list of faults asks for.
 *
 *   op:NAME       an op failed alone, on recorded inputs      kv conv recurrent mtp   a piece of
 * the state logits        a row of logits, or the token it gives      drafts    the head's drafts
 *   round         what was accepted or emitted                router    another expert set
 *   refused       the engine stopped, or its trace was refused
 *   mistrusted    the data could not have shown a fault       skipped   something was not compared
 *   near_tie      a choice that the bound leaves open         fail      anything at all
 *   stop:NAME     refused because of what the engine said of an op
 *   check:ID      a check of the files (docs/check.md)        values    the weights' digest */
#ifndef SB_FAULT_SIGN_H
#define SB_FAULT_SIGN_H

#include "tools/fault/trial.h"

enum { SB_SIGNS = 48 };

typedef struct sb_signs {
    char name[SB_SIGNS][40];
    size_t count;
} sb_signs;

void sb_sign_add(sb_signs *signs, const char *name);
int sb_sign_has(const sb_signs *signs, const char *name);

/* All that an outcome shows. */
void sb_signs_of(const sb_outcome *outcome, sb_signs *signs);

/* "a b|c": whether all are there. */
int sb_signs_all(const sb_signs *signs, const char *wanted);

/* Which of `quiet` is there, or NULL; "ops": an op that `fires` does not name. */
const char *sb_signs_loud(const sb_signs *signs, const char *quiet, const char *fires);

#endif
