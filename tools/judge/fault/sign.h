/* sign.h - the signs of a comparison: the words with which the list of faults names what has to
 * fire.
 *
 *   op:NAME       an op failed alone, on recorded inputs
 *   kv conv recurrent mtp                       a piece of the state
 *   logits        a row of logits, or its token
 *   drafts        the drafts of the head or of a drafter
 *   tap:NAME      the first wrong value of a drafter, on recorded inputs
 *   round         accepted drafts or emitted tokens
 *   router        another expert set
 *   refused       the engine stopped, or its trace was refused
 *   mistrusted    the data could not have shown a fault
 *   skipped       something was not compared
 *   near_tie      a choice that the bound leaves open
 *   fail          any failure
 *   stop:NAME     the engine stopped with a message about this op
 *   check:ID      a check of the files (docs/check.md)
 *   values        the weights' digest */
#ifndef SB_FAULT_SIGN_H
#define SB_FAULT_SIGN_H

#include "tools/judge/fault/trial.h"

enum { SB_SIGNS = 48 };

typedef struct sb_signs {
    char name[SB_SIGNS][40];
    size_t count;
} sb_signs;

void sb_sign_add(sb_signs *signs, const char *name);
int sb_sign_has(const sb_signs *signs, const char *name);

/* Collects all signs of an outcome. */
void sb_signs_of(const sb_outcome *outcome, sb_signs *signs);

/* True if all signs of `wanted` ("a b|c") are there. */
int sb_signs_all(const sb_signs *signs, const char *wanted);

/* A sign of `quiet` that is there, or NULL. "ops" stands for any op that `fires` does not name. */
const char *sb_signs_loud(const sb_signs *signs, const char *quiet, const char *fires);

#endif
