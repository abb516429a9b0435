/* test_act_group.c - scales of single groups (K-18 to K-21), in cases where the values do not show
 * the scale. */
#include "tests/lib/suite.h"

#include <math.h>

#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"
#include "ref/ops/act_group.h"
#include "ref/ops/knob.h"
#include "tests/lib/plain.h"
#include "tests/unit/act_plain.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* With all codes 0 no value shows the scale, but the scale byte in a kernel's output does: K-18
 * "0.125 where that is 0", K-19 "the distance of 1 from the next value of the activation type". */
TEST(test_scale_of_nothing)
{
    static const struct {
        const char *settings;
        void (*quantize)(sb_act_group *group);
        float scale, tiny; /* for zeros; for one element of 0.001 */
    } cases[] = {
        {"act_fp4=ct", sb_act_nvfp4, 0.125f, 0.125f},
        {"act_fp4=vllm_ref", sb_act_nvfp4, 0, 0},
        {"act_fp4=fast", sb_act_nvfp4, 0, 0},
        {"act_fp4=modelopt", sb_act_nvfp4, 1, 0x1p-9f},
        {"act_fp8_group=ct", sb_act_fp8_group, 0x1p-23f, 0.001f / 448},
        {"act_fp8_group=ct act=bf16", sb_act_fp8_group, 0x1p-7f, 0x1.2cp-19f},
        {"act_fp8_group=ct act=f16", sb_act_fp8_group, 0x1p-10f, 0x1.28p-19f},
        {"act_fp8_group=hf", sb_act_fp8_group, 0, 0.001f / 448},
        {"act_fp8_token=sglang", sb_act_fp8_token, 0, 0.001f / 448},
        {"act_fp8_token=vllm", sb_act_fp8_token, 1 / 229376.0f, 1 / 229376.0f},
    };
    static const float zeros[16], tiny[16] = {[5] = 0.001f};
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        sb_knobs knobs = test_knobs(cases[i / 2].settings);
        int fp4 = cases[i / 2].quantize == sb_act_nvfp4;
        uint8_t codes[16];
        sb_act_group g = {.knobs = &knobs,
                          .x = i % 2 ? tiny : zeros,
                          .n = 16,
                          .amax = i % 2 ? 0.001f : 0,
                          .input = {SB_DIVISOR, 1},
                          .format = fp4 ? SB_FORMAT_e2m1 : SB_FORMAT_e4m3,
                          .codes = codes};
        cases[i / 2].quantize(&g);
        float want = i % 2 ? cases[i / 2].tiny : cases[i / 2].scale;
        if (g.scale != want)
            fail_msg("%s: scale %a, expected %a", cases[i / 2].settings, (double)g.scale,
                     (double)want);
        for (size_t c = 0; c < 16; c++)
            assert_true(codes[c] == 0 || (i % 2 && c == 5 && (!fp4 || want == 0x1p-9f)));
    }
}

/* Largest magnitudes whose E4M3 scale is within an ulp or two of a tie: there every last bit of the
 * formulas of K-18 matters. */
TEST(test_scales_near_ties)
{
    static const float divisors[] = {5, 7, 11, 13, 100, 384, 2688.0f / 11.0625f, 0.3f};
    for (unsigned v = SB_act_fp4_ct; sb_knob_of_value((sb_knob_value)v) == SB_KNOB_act_fp4; v++)
        for (size_t d = 0; d < 2 * COUNT(divisors); d++)
            for (unsigned i = 0; i < 16 * 5; i++) {
                const char *form = sb_knob_value_name((sb_knob_value)v);
                sb_knobs knobs = test_knobs("");
                knobs.value[SB_KNOB_act_fp4] = (sb_knob_value)v;
                sb_factor input = {SB_DIVISOR, divisors[d / 2]};
                if (d % 2)
                    input = (sb_factor){SB_MULTIPLIER, 1 / divisors[d / 2]};
                float tie = ldexpf(17.0f + 2 * (float)(i % 8), (int)(i / 8 % 2)); /* a tie */
                uint32_t at = sb_bits_f32(tie * 6 / divisors[d / 2]) + i / 16 - 2;
                float x = sb_f32_from_bits(at);
                uint8_t code;
                plain_group want = plain_quantize(&knobs, "nvfp4", form, input, &x, 1);
                sb_act_group g = {.knobs = &knobs,
                                  .x = &x,
                                  .n = 1,
                                  .amax = x,
                                  .input = input,
                                  .format = SB_FORMAT_e2m1,
                                  .codes = &code};
                sb_act_nvfp4(&g);
                if ((double)g.scale != want.scale || (double)sb_e2m1_to_f32(code) != want.code[0])
                    fail_msg("act_fp4=%s: G %a, amax %a gives %a, expected %a", form,
                             (double)divisors[d / 2], (double)x, (double)g.scale, want.scale);
            }
}
