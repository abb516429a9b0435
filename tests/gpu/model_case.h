/* model_case.h - runs a whole synthetic checkpoint by the kernels in the emulator and compares it
 * with the reference, as `samebit diff --engine emu` does, but without report files. */
#ifndef SB_TESTS_GPU_MODEL_CASE_H
#define SB_TESTS_GPU_MODEL_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/judge/compare/verdict.h"

typedef struct model_case {
    const char *preset, *format, *profile;
    unsigned layers;         /* of the trunk; 0: as in the preset */
    size_t length, generate; /* tokens of the prompt, which is one call; tokens generated after
                              * it */
    size_t drafts;           /* per round after the prompt; 0: steps */
    uint64_t seed;           /* of the emulator's schedule */
    int history;             /* whether races are looked for (Y-14) */
    int forced;              /* only op by op; otherwise both sides also run on their own */
} model_case;

/* Makes the checkpoint in the folder `name`, unless the last case has left the same one there. No
 * other process may use the folder. Returns NULL if everything is IDENTICAL or WITHIN, ops that
 * leave no order of summation open are IDENTICAL, and every op that ran was judged. Otherwise
 * returns the error, which is valid until the next call. *worst: the largest error of an op, in
 * units of its bound. */
const char *model_case_judge(const model_case *c, const char *name, double *worst);

#endif
