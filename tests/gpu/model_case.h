/* model_case.h - a synthetic checkpoint, run whole by the kernels on the emulator and held against
 * the reference: what `samebit diff --engine emu` does, without the files of its reports. */
#ifndef SB_TESTS_GPU_MODEL_CASE_H
#define SB_TESTS_GPU_MODEL_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/compare/verdict.h"

typedef struct model_case {
    const char *preset, *format, *profile;
    unsigned layers;         /* of the trunk; 0: the preset's */
    size_t length, generate; /* of the prompt, which is one call; and behind it */
    size_t drafts;           /* of each round behind the prompt; 0: steps */
    uint64_t seed;           /* of the emulator's schedule */
    int history;             /* races are looked for (Y-14) */
    int forced;              /* ops alone; else both sides are also run on their own */
} model_case;

/* Makes the checkpoint in the folder `name`, which no other process uses, where the last case has
 * left another one there. NULL if all of it is IDENTICAL or WITHIN, ops that
 * leave no order of a sum open IDENTICAL, and every op that ran was judged; else what is wrong,
 * which lives up to the next call. *worst: the largest error of an op, in units of its bound. */
const char *model_case_judge(const model_case *c, const char *name, double *worst);

#endif
