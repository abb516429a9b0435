/* act_group.h - one group of a layer's input, quantized to a scale and codes as an engine does it.
 *
 * Each form of knobs K-18 to K-23 is a function in act_fp4.c or act_fp8.c. The function follows its
 * clause step by step, one binary32 operation at a time. */
#ifndef SB_OPS_ACT_GROUP_H
#define SB_OPS_ACT_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/matrix.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knobs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_act_group {
    const sb_knobs *knobs;
    const float *x; /* (n) finite */
    size_t n;
    float amax;       /* the largest magnitude in x */
    sb_factor input;  /* the factor of the file, if the scheme has one */
    sb_format format; /* of the codes: e2m1 or e4m3 */
    float scale;      /* out: the multiplier of the codes, without the factor */
    uint8_t *codes;   /* (n) out */
} sb_act_group;

/* These functions set scale and codes in the form that the knob names. The knob must not be
 * `off`. */
void sb_act_nvfp4(sb_act_group *group);      /* K-18 */
void sb_act_fp8_group(sb_act_group *group);  /* K-19, K-20 */
void sb_act_fp8_token(sb_act_group *group);  /* K-21 */
void sb_act_fp8_static(sb_act_group *group); /* K-22; scale is 1 */
void sb_act_mx(sb_act_group *group);         /* K-23 */

/* The groups of a scheme other than `none`. */
typedef struct sb_act_groups {
    sb_format format; /* of the codes */
    size_t columns;   /* columns that share a scale */
    sb_factor input;  /* the factor of the file, if the scheme has one */
    void (*quantize)(sb_act_group *group);
} sb_act_groups;
sb_act_groups sb_act_groups_of(sb_act_scheme scheme, const sb_matrix *weight);

#ifdef __cplusplus
}
#endif

#endif
