/* e2m1_forms.h - E2M1 codes as engines and quantizers choose them. They agree on ordinary numbers.
 * They differ for NaN, for -0 and numbers that round to -0, for ties, and far beyond 6
 * (docs/e2m1.md). */
#ifndef SB_FORMATS_E2M1_FORMS_H
#define SB_FORMATS_E2M1_FORMS_H

#include <stdint.h>

typedef enum sb_e2m1_form {
#define SB_E2M1_FORM(id, who) SB_E2M1_FORM_##id,
#include "ref/formats/e2m1_forms.def"
#undef SB_E2M1_FORM
    SB_E2M1_FORM_COUNT
} sb_e2m1_form;

const char *sb_e2m1_form_name(sb_e2m1_form form); /* "hardware" */
const char *sb_e2m1_form_who(sb_e2m1_form form);

/* The code, 0 to 15, that a form gives to any binary32 x. */
uint8_t sb_e2m1_encode(sb_e2m1_form form, float x);

/* The six forms. Ties go to the even code unless noted. The comment gives the code of NaN. */
uint8_t sb_e2m1_hardware(float x);   /* 7 */
uint8_t sb_e2m1_thresholds(float x); /* 7 or 15: no comparison is true; the sign bit is kept */
uint8_t sb_e2m1_predicates(float x); /* 0 or 8: counts true comparisons; the sign bit is kept */

/* The first code, in order, with the smallest distance in binary32. Ties go to the smaller
 * magnitude. Code 8 is never chosen. Far beyond 6 the distances of several codes round to the same
 * number; then the smallest of these codes is chosen. NaN and infinities: 0. */
uint8_t sb_e2m1_ggml(float x);

/* The sign bit is x < 0: -0 becomes 0, and negative numbers that round to zero become 8. NaN: 7. */
uint8_t sb_e2m1_modelopt(float x);

/* Rounded magnitude times sign(x), which is 0 for both zeros; then the first nearest code and the
 * sign bit of that product. So -0 becomes 0, and negative numbers that round to zero become 8. NaN:
 * 0. */
uint8_t sb_e2m1_compressed_tensors(float x);

#endif
