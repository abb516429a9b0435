/* case.h - functions on cases that the files of tools/judge/gate share, beyond gate.h. */
#ifndef SB_GATE_CASE_H
#define SB_GATE_CASE_H

#include "tools/judge/gate/gate.h"

/* sb_gate_case_make for a given op; request->op is not read. */
sb_status sb_gate_case_of(const sb_gate_op *op, const sb_gate_request *request, sb_gate_case **out,
                          sb_error *err);

/* sb_gate_case_begin makes the case with its inputs, and outputs without values;
 * sb_gate_case_expected computes these values. */
sb_status sb_gate_case_begin(const sb_gate_op *op, const sb_gate_request *request, int with_inputs,
                             sb_gate_case **out, sb_error *err);
sb_status sb_gate_case_expected(sb_gate_case *c, sb_error *err);

/* All parameters, "rows=4,k=256". */
typedef struct sb_gate_shape {
    char text[SB_GATE_PARAMS * (SB_GATE_NAME + 22)];
} sb_gate_shape;
sb_gate_shape sb_gate_shape_of(const sb_gate_case *c);

/* The words of a NULL-terminated list, "a, b, c"; `none` if it is empty. */
const char *sb_gate_words(const char *const *list, const char *none, char *text, size_t bytes);

/* The number format of a dtype (BF16, F8_E4M3, ...); returns 0 if it has none. */
int sb_gate_format(sb_dtype dtype, sb_format *out);

#endif
