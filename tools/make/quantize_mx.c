/* MXFP4 and MXFP8: E2M1 or E4M3 codes, an E8M0 scale per 32 columns.
 *
 * G-14: "the E8M0 code that F-11 gives a block, c = E2M1(w / S) or E4M3(w / S)": a quotient by a
 * power of two is exact, unless it is so small that its code is 0. */
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/quantize.h"

enum { GROUP = 32 };

/* Never -0, as everywhere in compressed-tensors. */
static unsigned fp4(float w, float s)
{
    return sb_e2m1_compressed_tensors(sb_round_to(SB_FORMAT_bf16, w / s));
}

static unsigned fp8(float w, float s)
{
    float q = sb_round_to(SB_FORMAT_bf16, w / s);
    return q == 0.0f ? 0 : sb_f32_to_e4m3(q);
}

/* G-24: "MXFP4 of Quark has the bytes of G-14" */
void sb_quantize_mxfp4(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols / GROUP; i++) {
        const float *w = b->weights + i * GROUP;
        b->scales[i] = sb_f32_to_e8m0_ct(sb_largest(w, GROUP), 2);
        float s = sb_e8m0_to_f32(b->scales[i]);
        for (unsigned k = 0; k < GROUP / 2; k++)
            b->codes[i * (GROUP / 2) + k] =
                (unsigned char)(fp4(w[2 * k], s) | fp4(w[2 * k + 1], s) << 4);
    }
}

void sb_quantize_mxfp8(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols / GROUP; i++) {
        const float *w = b->weights + i * GROUP;
        b->scales[i] = sb_f32_to_e8m0_ct(sb_largest(w, GROUP), 8);
        float s = sb_e8m0_to_f32(b->scales[i]);
        for (unsigned k = 0; k < GROUP; k++)
            b->codes[i * GROUP + k] = (unsigned char)fp8(w[k], s);
    }
}
