/* quantize.h - weights to codes and scales, as the programs that publish checkpoints compute them.
 *
 * All functions work on a band: some whole rows of a matrix, or all of them. Its weights are BF16
 * numbers, those that `--format bf16` of the same options holds, so that a folder of that format is
 * the original of every quantized one. G-7: "by the formula of the program that writes the
 * container" - each clause of a formula stands at the function that computes it. */
#ifndef SB_TOOLS_MAKE_QUANTIZE_H
#define SB_TOOLS_MAKE_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

/* How scales are chosen where a container leaves a choice. */
typedef enum sb_scale_rule {
#define SB_SCALE_RULE(id, name, help) SB_SCALE_RULE_##id,
#include "tools/make/scale_rules.def"
#undef SB_SCALE_RULE
    SB_SCALE_RULES
} sb_scale_rule;

typedef struct sb_band {
    const float *weights; /* (rows, cols) */
    uint64_t rows, cols;
    uint32_t group; /* columns that share a scale; 0 where the scheme has no choice */
    float factor;   /* what the whole tensor shares, as it is stored */
    sb_scale_rule rule;
    /* Where the result goes, as the tensors hold it; NULL where the scheme has no such tensor. */
    unsigned char *codes, *scales, *zeros;
} sb_band;

/* One per row of schemes.def: fills codes, scales and zeros of a band. */
#define SB_SCHEME(id, container, rows, group, step, factor, fused, quantize)                       \
    void sb_quantize_##quantize(const sb_band *band);
#include "tools/make/schemes.def"
#undef SB_SCHEME

/* What a tensor with the largest magnitude amax (of its fused partners, too) shares. */
typedef float (*sb_factor_fn)(float amax, sb_scale_rule rule);
float sb_factor_nvfp4_ct(float amax, sb_scale_rule rule);
float sb_factor_nvfp4_modelopt(float amax, sb_scale_rule rule);
float sb_factor_fp8_tensor(float amax, sb_scale_rule rule);

/* Largest magnitude of n weights; no order of them changes it. */
float sb_largest(const float *weights, size_t n);

#endif
