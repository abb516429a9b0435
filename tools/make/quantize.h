/* quantize.h - weights to codes and scales, as the programs that publish checkpoints compute them.
 *
 * All functions work on a band: some whole rows of a matrix, or all of them. Its weights are BF16
 * numbers, the same as in `--format bf16` with the same options. So a folder of that format is the
 * original of every quantized folder. G-7: "by the formula of the program that writes the
 * container" - each clause of a formula stands at the function that computes it. */
#ifndef SB_TOOLS_MAKE_QUANTIZE_H
#define SB_TOOLS_MAKE_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

/* The rule for scales, if the container leaves a choice. */
typedef enum sb_scale_rule {
#define SB_SCALE_RULE(id, name, help) SB_SCALE_RULE_##id,
#include "tools/make/scale_rules.def"
#undef SB_SCALE_RULE
    SB_SCALE_RULES
} sb_scale_rule;

typedef struct sb_band {
    const float *weights; /* (rows, cols) */
    uint64_t rows, cols;
    uint32_t group; /* columns per scale; 0 if the scheme has no choice */
    float factor;   /* the tensor's factor as stored */
    sb_scale_rule rule;
    /* The result in the layout of the tensors; NULL if the scheme has no such tensor. */
    unsigned char *codes, *scales, *zeros;
} sb_band;

/* One per row of schemes.def: fills codes, scales and zeros of a band. */
#define SB_SCHEME(id, container, rows, group, step, factor, fused, quantize)                       \
    void sb_quantize_##quantize(const sb_band *band);
#include "tools/make/schemes.def"
#undef SB_SCHEME

/* The factor of a tensor; amax is the largest magnitude of the tensor and its fused partners. */
typedef float (*sb_factor_fn)(float amax, sb_scale_rule rule);
float sb_factor_nvfp4_ct(float amax, sb_scale_rule rule);
float sb_factor_nvfp4_modelopt(float amax, sb_scale_rule rule);
float sb_factor_fp8_tensor(float amax, sb_scale_rule rule);

/* The largest magnitude of n weights; their order does not matter. */
float sb_largest(const float *weights, size_t n);

#endif
