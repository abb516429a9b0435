/* e2m1_forms.h - E2M1 codes as engines and quantizers choose them. They agree on ordinary numbers
 * and part at NaN, at -0 and what rounds to it, at ties, and far beyond 6: docs/e2m1.md. */
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

/* The code, 0 to 15, that a form gives x, any binary32. */
uint8_t sb_e2m1_encode(sb_e2m1_form form, float x);

/* The six of them, all with ties to the even code unless it says otherwise. NaN becomes ... */
uint8_t sb_e2m1_hardware(float x);   /* 7 */
uint8_t sb_e2m1_thresholds(float x); /* 7 or 15: no comparison holds, and the sign bit is kept */
uint8_t sb_e2m1_predicates(float x); /* 0 or 8: no comparison counts, and the sign bit is kept */

/* The first of the least distances in binary32, over the codes in order: ties go to the smaller
 * magnitude, code 8 is never chosen, and where the distances of several codes round to the same
 * number, far beyond 6, the smallest of these codes is. NaN and infinities: 0. */
uint8_t sb_e2m1_ggml(float x);

/* The sign bit is x < 0: -0 becomes 0, and what rounds to zero from below 8. NaN becomes 7. */
uint8_t sb_e2m1_modelopt(float x);

/* Rounded magnitude times sign(x), which is 0 of both zeros; then the first nearest code and the
 * sign bit of that product: -0 becomes 0, what rounds to zero from below 8, NaN 0. */
uint8_t sb_e2m1_compressed_tensors(float x);

#endif
