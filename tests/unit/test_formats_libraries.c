/* test_formats_libraries.c - our codecs against those of ml_dtypes, numpy and torch, recorded in
 * golden/quant/codecs.safetensors for chosen arguments and for all codes. Any NaN equals any other:
 * payloads and signs differ from library to library and from one vector path of torch to another.
 * Run from the root of the repository. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <math.h>

#include "ref/container/safetensors.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

static sb_safetensors file;

static const sb_tensor *tensor(const char *format, const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", format, what);
    for (size_t i = 0; i < file.count; i++)
        if (strcmp(file.tensors[i].name, name) == 0)
            return &file.tensors[i];
    fail_msg("%s: no tensor %s", "golden/quant/codecs.safetensors", name);
    return NULL;
}

static uint32_t element(const sb_tensor *t, size_t i)
{
    unsigned bits = sb_dtype_bits(t->dtype);
    return bits == 32   ? sb_load_u32(t->data + 4 * i)
           : bits == 16 ? sb_load_u16(t->data + 2 * i)
                        : t->data[i];
}

/* --- the expected result of each library, where it differs from ours * ------------------------ */
static uint32_t e4m3_unsaturated(float x)
{
    return sb_f32_to_e4m3_unsaturated(x);
}

static uint32_t e4m3_saturated(float x)
{
    return sb_f32_to_e4m3(x);
}

static uint32_t e5m2_ieee(float x)
{
    return sb_f32_to_e5m2_ieee(x);
}

/* ml_dtypes encodes NaN as a zero of the other sign, the hardware as +6. */
static uint32_t e2m1_ml_dtypes(float x)
{
    return x == x ? sb_f32_to_e2m1(x) : signbit(x) ? 0 : 8;
}

/* Both libraries round a subnormal between 2^-127 and 1.5 * 2^-127 to 2^-126; the nearest is
 * 2^-127. */
static uint32_t e8m0_of(float x)
{
    return x > 0x1p-127f && x < 0x1.8p-127f ? 1 : sb_f32_to_e8m0(x);
}

/* Zero has no code. */
static uint32_t e8m0_ml_dtypes(float x)
{
    return x == 0 ? 255 : e8m0_of(x);
}

/* The sign is ignored. */
static uint32_t e8m0_torch(float x)
{
    return e8m0_of(fabsf(x));
}

static uint32_t bf16(float x)
{
    return sb_f32_to_bf16(x);
}

static uint32_t f16(float x)
{
    return sb_f32_to_f16(x);
}

static const struct {
    const char *name, *library;
    sb_format format;
    uint32_t (*encode)(float x);
} libraries[] = {
    {"e4m3fn", "ml_dtypes", SB_FORMAT_e4m3, e4m3_unsaturated},
    {"e4m3fn", "torch", SB_FORMAT_e4m3, e4m3_saturated},
    {"e5m2", "ml_dtypes", SB_FORMAT_e5m2, e5m2_ieee},
    {"e5m2", "torch", SB_FORMAT_e5m2, e5m2_ieee},
    {"e2m1", "ml_dtypes", SB_FORMAT_e2m1, e2m1_ml_dtypes},
    {"e8m0", "ml_dtypes", SB_FORMAT_e8m0, e8m0_ml_dtypes},
    {"e8m0", "torch", SB_FORMAT_e8m0, e8m0_torch},
    {"bf16", "ml_dtypes", SB_FORMAT_bf16, bf16},
    {"bf16", "torch", SB_FORMAT_bf16, bf16},
    {"fp16", "numpy", SB_FORMAT_f16, f16},
    {"fp16", "torch", SB_FORMAT_f16, f16},
};

static int is_nan_code(sb_format format, uint32_t code)
{
    float x = sb_code_to_f32(format, code);
    return x != x;
}

TEST(test_encoding)
{
    for (size_t k = 0; k < sizeof libraries / sizeof libraries[0]; k++) {
        sb_format format = libraries[k].format;
        const sb_tensor *in = tensor(libraries[k].name, "in");
        const sb_tensor *codes = tensor(libraries[k].name, libraries[k].library);
        assert_true(in->shape[0] >= 20000 && codes->shape[0] == in->shape[0]);
        for (size_t i = 0; i < in->shape[0]; i++) {
            float x = sb_f32_from_bits(element(in, i));
            uint32_t want = element(codes, i), got = libraries[k].encode(x);
            if (got != want && !(is_nan_code(format, got) && is_nan_code(format, want)))
                fail_msg("%s of %s: %a (%08x) is %02x there and %02x here", libraries[k].name,
                         libraries[k].library, (double)x, (unsigned)element(in, i), (unsigned)want,
                         (unsigned)got);
        }
    }
}

TEST(test_decoding)
{
    for (size_t k = 0; k < sizeof libraries / sizeof libraries[0]; k++) {
        char what[64];
        snprintf(what, sizeof what, "decoded.%s", libraries[k].library);
        const sb_tensor *codes = tensor(libraries[k].name, "codes");
        const sb_tensor *values = tensor(libraries[k].name, what);
        assert_true(codes->shape[0] >= 16 && values->shape[0] == codes->shape[0]);
        for (size_t i = 0; i < codes->shape[0]; i++) {
            uint32_t want = element(values, i);
            float x = sb_code_to_f32(libraries[k].format, element(codes, i));
            if (x != x ? (want & 0x7fffffffu) <= 0x7f800000u : sb_bits_f32(x) != want)
                fail_msg("%s of %s: code %02x is %08x there and %08x here", libraries[k].name,
                         libraries[k].library, (unsigned)element(codes, i), (unsigned)want,
                         (unsigned)sb_bits_f32(x));
        }
    }
}

TEST_FIXTURE(open_file)
{
    sb_error err;
    return sb_safetensors_open("golden/quant/codecs.safetensors", &file, &err) ? -1 : 0;
}

TEST_FIXTURE(close_file)
{
    sb_safetensors_close(&file);
    return 0;
}

TEST_GROUP(open_file, close_file)
