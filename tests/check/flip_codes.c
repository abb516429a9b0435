#include "tests/check/flip_codes.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

static int ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

static double value_of(int fp4, unsigned code)
{
    return fp4 ? sb_e2m1_to_f32((uint8_t)code) : sb_e4m3_to_f32((uint8_t)code);
}

/* True if code is nearest to some number in t - slack .. t + slack; slack is |t| 2^-8. */
static int is_nearest(int fp4, unsigned code, double t)
{
    unsigned top = fp4 ? 7 : 0x7e, sign = fp4 ? 8 : 0x80, magnitude = code & (sign - 1);
    double slack = fabs(t) * 0x1p-8, least = t - slack, most = t + slack;
    if (magnitude > top)
        return 0; /* NaN */
    double value = value_of(fp4, magnitude);
    double below = magnitude ? (value + value_of(fp4, magnitude - 1)) / 2 : 0;
    double above = magnitude == top ? INFINITY : (value + value_of(fp4, magnitude + 1)) / 2;
    if (magnitude == 0)
        return least <= above && most >= -above; /* both zeros */
    return code & sign ? -least >= below && -most <= above : most >= below && least <= above;
}

static float scalar(const sb_checkpoint *c, const char *name)
{
    const sb_tensor *t = sb_checkpoint_find(c, name);
    float value;
    if (!t)
        return 0;
    assert_int_equal(t->dtype, SB_DTYPE_F32);
    sb_decode(SB_FORMAT_f32, t->data, 1, &value);
    return value;
}

/* The original's weight for an element of a layer. The original may have its experts stacked. */
static double original_weight(const sb_checkpoint *original, const char *module, uint64_t row,
                              uint64_t col)
{
    char name[256], layer[200];
    unsigned expert = 0;
    float value;
    snprintf(name, sizeof name, "%s.weight", module);
    const sb_tensor *w = sb_checkpoint_find(original, name);
    if (!w) {
        const char *at = strstr(module, ".experts.");
        assert_non_null(at);
        expert = (unsigned)strtoul(at + 9, NULL, 10);
        int down = ends(module, "down_proj");
        snprintf(layer, sizeof layer, "%.*s", (int)(at - module), module);
        snprintf(name, sizeof name, "%s.experts.%s", layer, down ? "down_proj" : "gate_up_proj");
        w = sb_checkpoint_find(original, name);
        assert_non_null(w);
        row += expert * w->shape[1] + (ends(module, "up_proj") ? w->shape[1] / 2 : 0);
    }
    uint64_t cols = w->shape[w->rank - 1];
    sb_decode(SB_FORMAT_bf16, w->data + 2 * (row * cols + col), 1, &value);
    return value;
}

/* The factor of a code of an NVFP4 layer: block scale and global scale. */
static double fp4_scale(const sb_checkpoint *c, const char *module, uint64_t block)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight_scale", module);
    double scale = sb_e4m3_to_f32(sb_checkpoint_find(c, name)->data[block]);
    snprintf(name, sizeof name, "%s.weight_global_scale", module);
    float divisor = scalar(c, name);
    snprintf(name, sizeof name, "%s.weight_scale_2", module);
    return divisor != 0 ? scale / (double)divisor : scale * (double)scalar(c, name);
}

static double fp8_scale(const sb_checkpoint *c, const char *module, uint64_t row, uint64_t col)
{
    char name[256];
    float scale;
    snprintf(name, sizeof name, "%s.weight_scale_inv", module);
    const sb_tensor *scales = sb_checkpoint_find(c, name);
    sb_decode(SB_FORMAT_bf16, scales->data + 2 * (row / 128 * scales->shape[1] + col / 128), 1,
              &scale);
    return scale;
}

int flip_stays_nearest(const sb_checkpoint *c, const sb_checkpoint *original, const char *tensor,
                       uint64_t bit)
{
    const sb_tensor *codes = sb_checkpoint_find(c, tensor);
    int fp4 = codes->dtype == SB_DTYPE_U8;
    char module[200];
    snprintf(module, sizeof module, "%s", tensor);
    *strrchr(module, '.') = '\0';
    uint64_t element = bit / (fp4 ? 4 : 8), cols = codes->shape[1] * (fp4 ? 2 : 1);
    uint64_t row = element / cols, col = element % cols;
    unsigned code =
        fp4 ? (unsigned)codes->data[element / 2] >> element % 2 * 4 & 15u : codes->data[element];
    code ^= 1u << bit % (fp4 ? 4 : 8);
    double scale = fp4 ? fp4_scale(c, module, element / 16) : fp8_scale(c, module, row, col);
    return scale == 0 || is_nearest(fp4, code, original_weight(original, module, row, col) / scale);
}
