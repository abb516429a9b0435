/* act_quant.h - the input of a linear layer in the form that the layer multiplies: quantized if the
 * knobs say so.
 *
 * The engine, not the file, decides which layers quantize their input. The container of the weight
 * sets the possible scheme; knobs K-18 to K-23 say if the scheme is used, and with which
 * formula. */
#ifndef SB_OPS_ACT_QUANT_H
#define SB_OPS_ACT_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/formats/matrix.h"
#include "ref/math/exact.h"
#include "ref/ops/knobs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The format of the codes, and the groups of elements that share a scale. */
typedef enum sb_act_scheme {
    SB_SCHEME_none,
    SB_SCHEME_nvfp4,     /* E2M1, an E4M3 scale per row and 16 columns, a factor of the file */
    SB_SCHEME_mxfp4,     /* E2M1, an E8M0 scale per row and 32 columns */
    SB_SCHEME_mxfp8,     /* E4M3, an E8M0 scale per row and 32 columns */
    SB_SCHEME_fp8_group, /* E4M3, a binary32 scale per row and block_cols columns of the weight */
    SB_SCHEME_fp8_token, /* E4M3, a binary32 scale per row */
    SB_SCHEME_fp8_static /* E4M3, the scale of the file */
} sb_act_scheme;

/* The input of a linear layer in the form that the layer multiplies. */
typedef struct sb_input {
    double *values; /* (T, K) code * scale, exact, without the factor; NaN in a group that is not
                       finite */
    unsigned char *codes; /* (T, K) one per byte; NULL if nothing is quantized */
    sb_format format;     /* of the codes */
    sb_scalar factor; /* shared by all rows: the static scale of FP8, the global scale of NVFP4 */
    float *rounded;   /* (T, K) the values in binary32 as K-25 rounds them, with the factor except
                         under dequant=factor_last; NULL if no knob rounds the weights (K-2, K-17) */
    float *scales;    /* (T, groups) NULL if nothing is quantized; NaN: the group is not finite */
    size_t group, groups; /* columns of a group (the last group may have fewer); groups of a row */
} sb_input;

/* The scheme of this layer's input under these knobs; SB_SCHEME_none if it is not quantized. */
sb_act_scheme sb_input_scheme(const sb_knobs *knobs, const sb_matrix *weight);

/* Allocates the arrays for `rows` rows and sets the members that all rows share. */
sb_status sb_input_open(const sb_knobs *knobs, const sb_matrix *weight, size_t rows, sb_input *out);

/* Quantizes in (rows, weight->cols). With SB_SCHEME_none the values are those of `in`. values are
 * valid inputs of sb_dot_wide. SB_ERR_MEMORY leaves nothing to free. */
sb_status sb_quantize_input(const sb_knobs *knobs, const sb_matrix *weight, const float *in,
                            size_t rows, sb_input *out);
void sb_input_free(sb_input *input);

#ifdef __cplusplus
}
#endif

#endif
