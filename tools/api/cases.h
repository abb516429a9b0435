/* cases.h - the case of ref/samebit.h. */
#ifndef SB_API_CASES_H
#define SB_API_CASES_H

#include <stdio.h>

#include "tools/api/api.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/gate/case.h"

struct samebit_case {
    sb_gate_case *c;
    int own; /* its inputs come from the caller, not from a seed */
    sb_gate_shape shape;
    struct {
        char text[SB_GATE_NAME + 8]; /* "out", "out.NAME" */
    } output[SB_GATE_OUTPUTS];
};

/* Makes a handle of a case without copying the case. */
void sb_api_case(sb_gate_case *c, samebit_case *handle);

/* Fails if there is no output i. */
sb_status sb_api_output(const samebit_case *c, size_t i, sb_error *err);

/* Copies a text of the library to a fixed array. */
#define SB_API_TEXT(to, from) snprintf(to, sizeof(to), "%s", from)

samebit_status sb_api_verdict(sb_verdict verdict);

/* Checks that the size of an array's data matches its type and shape. */
sb_status sb_api_whole(const samebit_array *a, sb_dtype *dtype, sb_error *err);

#endif
