/* judged.h - one pair of files, a case and what a kernel made of it, with all that is said of it.
 */
#ifndef SB_GATE_JUDGED_H
#define SB_GATE_JUDGED_H

#include "tools/compare/verdict.h"
#include "tools/gate/got.h"
#include "tools/gate/infer.h"

typedef struct sb_gate_wish {
    const char *arith; /* NULL: to be inferred */
    const char *need;  /* an output that must be given, "all"; or NULL */
} sb_gate_wish;

typedef struct sb_gate_judged {
    const char *name; /* of the case, as the caller calls it */
    sb_gate_case *c;  /* NULL: nothing could be read */
    sb_gate_gots gots;
    sb_gate_arith ar; /* the arithmetic of the verdict */
    size_t rows, row; /* of the table, that was inferred; rows 0: it was given */
    sb_gate_result result;
    sb_gate_power power;
    sb_status refused; /* of several cases, one that could not be judged */
    sb_error why;
} sb_gate_judged;

/* Reads both files and judges. SB_OK whatever the verdict is; else *out is empty. */
sb_status sb_gate_judged_open(const sb_gate_wish *wish, const char *name, const char *file,
                              const char *got, sb_gate_judged *out, sb_error *err);
void sb_gate_judged_close(sb_gate_judged *judged);

/* "linear nvfp4-ct, rows=4,k=256, input BF16, regime normal, seed 42" */
void sb_gate_judged_title(const sb_gate_judged *judged, char *text, size_t size);

#endif
