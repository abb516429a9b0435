/* codec_oracle.h - what every encoder and decoder of ref/formats has to give, from the definition
 * of the formats: lists of values in binary64 made with ldexp, and the nearest of them found by
 * comparing with exact midpoints. Nothing here looks at bits of the argument but its sign. */
#ifndef SB_TESTS_CODEC_ORACLE_H
#define SB_TESTS_CODEC_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/format.h"

typedef enum codec_kind {
    CODEC_FLOATING, /* (1 + f 2^-fraction_bits) 2^(e - bias), or a subnormal */
    CODEC_POWERS,   /* 2^(code - bias), positive */
    CODEC_INTEGERS, /* lowest, lowest + 1, ... */
} codec_kind;

typedef enum codec_rule {
    CODEC_NEAREST, /* ties to even codes, saturating at the last of the list; powers: ties upward */
    CODEC_UP,
    CODEC_EXACT,
    CODEC_BLOCK, /* the rule of compressed-tensors; `argument` is the element's exponent */
} codec_rule;

typedef struct codec {
    const char *name;
    sb_format format; /* what it encodes into */
    uint32_t (*encode)(float x);
    codec_kind kind;
    codec_rule rule;
    int fraction_bits, bias, lowest, argument;
    uint32_t finite; /* codes without a sign that stand for numbers */
    uint32_t list;   /* how many of them, and of what follows, the encoder chooses from */
    uint32_t sign;   /* the sign bit of a code, or 0 */
    uint32_t nan;    /* the code of a NaN, less its sign */
    int nan_signed;
} codec;

extern const codec codec_table[];
extern const size_t codec_count;

/* Makes the lists of values; before the first call of the others, by one thread. */
void codec_prepare(void);

/* Entry i of the list of a codec. Entry `finite` of a list that is longer is the number that would
 * follow, though its code stands for an infinity or a NaN. */
double codec_value(const codec *c, uint32_t i);

/* The code of x. *hint is any number less than c->list and is kept for the next call. */
uint32_t codec_expected(const codec *c, float x, uint32_t *hint);

#endif
