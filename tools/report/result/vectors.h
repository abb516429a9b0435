/* vectors.h - what samebit vectors can write: ops, regimes, arithmetics. */
#ifndef SB_REPORT_VECTORS_H
#define SB_REPORT_VECTORS_H

#include <jansson.h>

#include "tools/judge/gate/case.h"

/* One op with the arrays of `of`; all ops if it is NULL. */
void sb_vectors_list_print(const sb_gate_case *of);
json_t *sb_vectors_list_json(const sb_gate_case *of);

#endif
