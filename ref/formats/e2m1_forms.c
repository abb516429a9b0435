/* F-14: "The row gives the code for every argument" */
#include "ref/formats/e2m1_forms.h"

#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"

static const struct {
    const char *name, *who;
    uint8_t (*encode)(float x);
} forms[] = {
#define SB_E2M1_FORM(id, who) {#id, who, sb_e2m1_##id},
#include "ref/formats/e2m1_forms.def"
#undef SB_E2M1_FORM
};

const char *sb_e2m1_form_name(sb_e2m1_form form)
{
    return forms[form].name;
}

const char *sb_e2m1_form_who(sb_e2m1_form form)
{
    return forms[form].who;
}

uint8_t sb_e2m1_encode(sb_e2m1_form form, float x)
{
    return forms[form].encode(x);
}

static float absolute(float x)
{
    return sb_f32_from_bits(sb_bits_f32(x) & 0x7fffffffu);
}

static uint8_t sign_bit(float x)
{
    return (uint8_t)(sb_bits_f32(x) >> 31 << 3);
}

uint8_t sb_e2m1_hardware(float x)
{
    return sb_f32_to_e2m1(x);
}

/* The code of a magnitude a: 7 if no comparison holds, as for NaN. */
static uint8_t first_threshold(float a)
{
    return a <= 0.25f   ? 0
           : a < 0.75f  ? 1
           : a <= 1.25f ? 2
           : a < 1.75f  ? 3
           : a <= 2.5f  ? 4
           : a < 3.5f   ? 5
           : a <= 5.0f  ? 6
                        : 7;
}

uint8_t sb_e2m1_thresholds(float x)
{
    return sign_bit(x) | first_threshold(absolute(x));
}

uint8_t sb_e2m1_predicates(float x)
{
    float a = absolute(x);
    int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) +
               (a > 5.0f);
    return (uint8_t)(sign_bit(x) | code);
}

/* The values in the order of codes (F-9), for both users of first_nearest. */
static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                 -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* The first of `count` codes whose distance from x, rounded to binary32, is smallest. */
static uint8_t first_nearest(float x, unsigned count)
{
    unsigned best = 0;
    float least = absolute(x);
    for (unsigned code = 1; code < count; code++) {
        float distance = absolute(values[code] - x);
        if (distance < least) {
            least = distance;
            best = code;
        }
    }
    return (uint8_t)best;
}

uint8_t sb_e2m1_ggml(float x)
{
    return first_nearest(x, 16);
}

/* Counts the bounds below the magnitude, then adds 1 if the magnitude equals a bound of odd
 * index. */
uint8_t sb_e2m1_modelopt(float x)
{
    static const float bounds[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    float a = absolute(x);
    unsigned code = 0;
    while (code < 7 && !(a <= bounds[code]))
        code++;
    code += a == bounds[1] || a == bounds[3] || a == bounds[5];
    return (uint8_t)((x < 0 ? 8u : 0u) | code);
}

uint8_t sb_e2m1_compressed_tensors(float x)
{
    if (x != x)
        return 0; /* no distance is smallest, and the product has no sign bit */
    float sign = (float)((x > 0) - (x < 0));
    float product = values[first_threshold(absolute(x))] * sign;
    return sign_bit(product) | first_nearest(absolute(product), 8);
}
