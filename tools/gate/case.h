/* case.h - what the files of tools/gate share about cases beyond gate.h. */
#ifndef SB_GATE_CASE_H
#define SB_GATE_CASE_H

#include "tools/gate/gate.h"

/* sb_gate_case_make for an op that is in hand; its name in the request is not read. */
sb_status sb_gate_case_of(const sb_gate_op *op, const sb_gate_request *request, sb_gate_case **out,
                          sb_error *err);

/* The case with its inputs, and outputs without values; and the values of these. */
sb_status sb_gate_case_begin(const sb_gate_op *op, const sb_gate_request *request, int with_inputs,
                             sb_gate_case **out, sb_error *err);
sb_status sb_gate_case_expected(sb_gate_case *c, sb_error *err);

/* All parameters, "rows=4,k=256". */
typedef struct sb_gate_shape {
    char text[SB_GATE_PARAMS * (SB_GATE_NAME + 22)];
} sb_gate_shape;
sb_gate_shape sb_gate_shape_of(const sb_gate_case *c);

/* The words of a list that NULL ends, "a, b, c"; `none` of an empty one. */
const char *sb_gate_words(const char *const *list, const char *none, char *text, size_t bytes);

/* The number format of a dtype whose elements are numbers of one: BF16, F8_E4M3, ...; 0: none. */
int sb_gate_format(sb_dtype dtype, sb_format *out);

#endif
