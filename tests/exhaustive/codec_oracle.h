/* codec_oracle.h - the expected result of every encoder and decoder of ref/formats, from the
 * definition of the formats. It uses lists of values in binary64 made with ldexp, and finds the
 * nearest value by comparing with exact midpoints. Of the bits of the argument it reads only the
 * sign. */
#ifndef SB_TESTS_CODEC_ORACLE_H
#define SB_TESTS_CODEC_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/formats.h"

typedef enum codec_kind {
    CODEC_FLOATING, /* (1 + f 2^-fraction_bits) 2^(e - bias), or a subnormal */
    CODEC_POWERS,   /* 2^(code - bias), positive */
    CODEC_INTEGERS, /* lowest, lowest + 1, ... */
} codec_kind;

typedef enum codec_rule {
    CODEC_NEAREST, /* ties to even codes, saturating at the last value of the list; powers: ties
                    * upward */
    CODEC_UP,
    CODEC_EXACT,
    CODEC_BLOCK, /* the rule of compressed-tensors; `argument` is the element's exponent */
} codec_rule;

typedef struct codec {
    const char *name;
    sb_format format; /* the target format */
    uint32_t (*encode)(float x);
    codec_kind kind;
    codec_rule rule;
    int fraction_bits, bias, lowest, argument;
    uint32_t finite; /* the number of codes without a sign that are numbers */
    uint32_t list;   /* the length of the list of values that the encoder chooses from */
    uint32_t sign;   /* the sign bit of a code, or 0 */
    uint32_t nan;    /* the code of a NaN, without its sign */
    int nan_signed;
} codec;

extern const codec codec_table[];
extern const size_t codec_count;

/* Makes the lists of values. One thread has to call it before the other functions. */
void codec_prepare(void);

/* Entry i of the list of a codec. In a list longer than `finite`, entry `finite` is the number that
 * would follow, although its code is an infinity or a NaN. */
double codec_value(const codec *c, uint32_t i);

/* The code of x. *hint is any number below c->list; the next call uses it as a starting point. */
uint32_t codec_expected(const codec *c, float x, uint32_t *hint);

#endif
