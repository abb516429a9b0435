/* math_functions.h - the functions of gpu/math, for C. */
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

/* A function, the function of ref/math that it must equal, its exceptions, and the range of
 * argument sizes in which exceptions are possible, for positive and for negative arguments. rsqrt
 * scales its argument to [1, 4); sine and cosine have one range for both signs. Outside the range,
 * the result is a constant, the argument or its half; if `partial` is set, the function is never
 * called there. */
typedef struct math_function {
    const char *name;
    float (*run)(float), (*right)(float);
    const uint32_t *exceptions; /* argument, result, argument, result, ... */
    int count;
    uint32_t above, above_end, below, below_end;
    int partial;
} math_function;

/* Whether the function is ever called with the argument of these bits. */
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
