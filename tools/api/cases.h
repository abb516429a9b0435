/* cases.h - the case of ref/samebit.h. */
#ifndef SB_API_CASES_H
#define SB_API_CASES_H

#include <stdio.h>

#include "tools/api/api.h"
#include "tools/compare/verdict.h"
#include "tools/gate/case.h"

struct samebit_case {
    sb_gate_case *c;
    int own; /* its inputs are the caller's: no seed gives them */
    sb_gate_shape shape;
    struct {
        char text[SB_GATE_NAME + 8]; /* "out", "out.NAME" */
    } output[SB_GATE_OUTPUTS];
};

/* A handle of a case, which it does not copy. */
void sb_api_case(sb_gate_case *c, samebit_case *handle);

/* Output i is there. */
sb_status sb_api_output(const samebit_case *c, size_t i, sb_error *err);

/* One line for people, from a text of the library. */
#define SB_API_TEXT(to, from) snprintf(to, sizeof(to), "%s", from)

samebit_status sb_api_verdict(sb_verdict verdict);

/* The data of an array is as large as its type and shape say. */
sb_status sb_api_whole(const samebit_array *a, sb_dtype *dtype, sb_error *err);

#endif
