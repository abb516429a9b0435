/* judged.h - a pair of files, a case and a kernel's output, with the judgement. */
#ifndef SB_GATE_JUDGED_H
#define SB_GATE_JUDGED_H

#include "tools/judge/compare/verdict.h"
#include "tools/judge/gate/got.h"
#include "tools/judge/gate/infer.h"

typedef struct sb_gate_wish {
    const char *arith; /* NULL: infer it */
    const char *need;  /* an output that must be given, "all"; or NULL */
} sb_gate_wish;

typedef struct sb_gate_judged {
    const char *name; /* the caller's name of the case */
    sb_gate_case *c;  /* NULL: the files could not be read */
    sb_gate_gots gots;
    sb_gate_arith ar; /* the arithmetic of the verdict */
    size_t rows, row; /* row: the inferred row of the table, which has `rows` rows; rows 0: the
                         arithmetic was given */
    sb_gate_result result;
    sb_gate_power power;
    sb_status refused; /* the error if this case, one of several, could not be judged */
    sb_error why;
} sb_gate_judged;

/* Reads both files and judges. Returns SB_OK for every verdict; after an error *out is empty. */
sb_status sb_gate_judged_open(const sb_gate_wish *wish, const char *name, const char *file,
                              const char *got, sb_gate_judged *out, sb_error *err);
void sb_gate_judged_close(sb_gate_judged *judged);

/* "linear nvfp4-ct, rows=4,k=256, input BF16, regime normal, seed 42" */
void sb_gate_judged_title(const sb_gate_judged *judged, char *text, size_t size);

#endif
