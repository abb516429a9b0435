/* test_ops.c - every op of ops.def against a plain computation, and exact structured cases: for the
 * twin (ref/fast) or the kernel set of SAMEBIT_ISA, and for the definition (ref/ops). */
#include "tests/lib/suite.h"
#include "tests/unit/ops.h"

#include "ref/fast/dot/dot.h"
#include "ref/formats/plain_row.h"
#include "ref/ops/knob.h"

/* K-2: "act first rounds each parameter to the activation type" */
float *plain_param(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row)
{
    float *values = test_copy(NULL, matrix->cols);
    sb_matrix_row(matrix, row, values);
    int rounds = SB_IS(knobs, params, act) || SB_IS(knobs, params, plain_act);
    for (uint32_t i = 0; rounds && i < matrix->cols; i++)
        values[i] = sb_act(knobs, values[i]);
    return values;
}

TEST_FIXTURE(start)
{
    sb_error err;
    if (sb_math_start(NULL, &err) == SB_OK)
        return 0;
    print_error("%s\n", err.text);
    return -1;
}

#define SB_OP(name, clause) TEST_OF(test_##name, NULL, test_release)
#include "ref/ops/ops.def"
#undef SB_OP
#define STRUCTURED(name) TEST_OF(test_##name, NULL, test_release)
STRUCTURED_TESTS(STRUCTURED)
TEST_FIXTURE(by_definition)
{
    return sb_math_start("exact", NULL) != SB_OK;
}

static int back(void **state)
{
    return sb_math_start(NULL, NULL) != SB_OK || test_release(state);
}

TEST_ROWS(definition)
{
#define DEFINITION(name)                                                                           \
    suite_add(place,                                                                               \
              (struct CMUnitTest){"definition_" #name, test_##name, by_definition, back, NULL});
#define SB_OP(name, clause) DEFINITION(name)
#include "ref/ops/ops.def"
#undef SB_OP
    STRUCTURED_TESTS(DEFINITION)
}
TEST_GROUP(start, NULL)
