/* act_quant.h - the input of a linear layer as the layer multiplies it: quantized on the way in.
 *
 * Which layers quantize their input is a matter of the engine, not of the file: the container of
 * the weight says how it could be done, knobs K-18 to K-23 say whether and by which formula. */
#ifndef SB_OPS_ACT_QUANT_H
#define SB_OPS_ACT_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/formats/matrix.h"
#include "ref/math/exact.h"
#include "ref/ops/knobs.h"

/* What the groups of an input are, and what is known of them beforehand. */
typedef enum sb_act_scheme {
    SB_SCHEME_none,
    SB_SCHEME_nvfp4,     /* E2M1, an E4M3 scale per row and 16 columns, a factor of the file */
    SB_SCHEME_mxfp4,     /* E2M1, an E8M0 scale per row and 32 columns */
    SB_SCHEME_mxfp8,     /* E4M3, an E8M0 scale per row and 32 columns */
    SB_SCHEME_fp8_group, /* E4M3, a binary32 scale per row and block_cols columns of the weight */
    SB_SCHEME_fp8_token, /* E4M3, a binary32 scale per row */
    SB_SCHEME_fp8_static /* E4M3, the scale of the file */
} sb_act_scheme;

/* The input of a linear layer as the layer multiplies it. */
typedef struct sb_input {
    double *values;       /* (T, K) each code * scale, exactly, without the factor; NaN: poisoned */
    unsigned char *codes; /* (T, K) one to a byte, or NULL where nothing is quantized */
    sb_format format;     /* of the codes */
    sb_scalar factor; /* what all rows share: the static scale of FP8, the global one of NVFP4 */
    float
        *rounded; /* (T, K) or NULL where no knob rounds the weights (K-2, K-17): the values in
                     binary32 as K-25 rounds them, factor included but under dequant=factor_last */
    float
        *scales; /* (T, groups) or NULL where nothing is quantized: of each group; NaN: poisoned */
    size_t group, groups; /* columns of a group, the last one may have fewer; groups of a row */
} sb_input;

/* How this layer's input is quantized under these knobs; SB_SCHEME_none if it is not. */
sb_act_scheme sb_input_scheme(const sb_knobs *knobs, const sb_matrix *weight);

/* Room for the values of `rows` rows, and what all of them share. */
sb_status sb_input_open(const sb_knobs *knobs, const sb_matrix *weight, size_t rows, sb_input *out);

/* Quantizes in (rows, weight->cols). With SB_SCHEME_none the values are those of `in`. values are
 * as sb_dot_wide takes them. SB_ERR_MEMORY leaves nothing to free. */
sb_status sb_quantize_input(const sb_knobs *knobs, const sb_matrix *weight, const float *in,
                            size_t rows, sb_input *out);
void sb_input_free(sb_input *input);

#endif
