/* math_functions.h - the functions of gpu/math, as C sees them. */
#ifndef SB_TESTS_GPU_MATH_FUNCTIONS_H
#define SB_TESTS_GPU_MATH_FUNCTIONS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MATH_FUNCTION_NAMES(X)                                                                     \
    X(exp)                                                                                         \
    X(sigmoid)                                                                                     \
    X(silu)                                                                                        \
    X(softplus)                                                                                    \
    X(rsqrt)                                                                                       \
    X(log)                                                                                         \
    X(sin)                                                                                         \
    X(cos)                                                                                         \
    X(log1p_minus)

enum {
#define X(name) MATH_FUNCTION_##name,
    MATH_FUNCTION_NAMES(X)
#undef X
        MATH_FUNCTIONS
};

/* A function, that of ref/math which it must equal, its exceptions, and the sizes of arguments
 * among which these can be: those of positive and of negative arguments. rsqrt scales its argument
 * to [1, 4); sine and cosine go by size. Outside, the result is a constant, the argument or its
 * half; or, where `partial` says so, the function is never asked. */
typedef struct math_function {
    const char *name;
    float (*run)(float), (*right)(float);
    const uint32_t *exceptions; /* argument, result, argument, result, .. */
    int count;
    uint32_t above, above_end, below, below_end;
    int partial;
} math_function;

/* Whether the function is ever asked for the argument with these bits. */
static inline int math_function_asked(const math_function *f, uint32_t input)
{
    return !f->partial || (input >= f->above && input < f->above_end);
}

const math_function *math_function_row(int i);

float math_fma_in_double(float a, float b, float c);

#ifdef __cplusplus
}
#endif
#endif
