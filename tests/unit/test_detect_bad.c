/* test_detect_bad.c - layers with one error each: the status, and the words in the message. Q-4,
 * Variants without an error and some harmless differences are among them. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tests/lib/quant_layer.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef enum base { NV, MO, M4, M8, BL, CH, TE, I8, GQ, AW, CT, CS, PR, SC, SN, ST, SI } base;

#define C(id) .container = SB_CONTAINER_##id
#define D(id) SB_DTYPE_##id
#define FP4 .rows = 4, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F8_E4M3), .scale_rank = 2

static const quant_spec bases[] = {
    [NV] = {C(nvfp4_ct), FP4, .factor = D(F32), .factor_rank = 1, .input = 1},
    [MO] = {C(nvfp4_modelopt), FP4, .factor = D(F32), .input = 1},
    [M4] = {C(mxfp4), .rows = 4, .cols = 64, .bits = 4, .block = {1, 32}, .scale = D(U8),
            .scale_rank = 2},
    [M8] = {C(mxfp8), .rows = 4, .cols = 64, .bits = 8, .block = {1, 32}, .scale = D(U8),
            .scale_rank = 2},
    [BL] = {C(fp8_block), .rows = 130, .cols = 200, .bits = 8, .block = {128, 128},
            .scale = D(BF16), .scale_rank = 2},
    [CH] = {C(fp8_channel), .rows = 6, .cols = 40, .bits = 8, .block = {1, 40}, .scale = D(BF16),
            .scale_rank = 2},
    [TE] = {C(fp8_tensor), .rows = 6, .cols = 40, .bits = 8, .block = {6, 40}, .scale = D(F32),
            .factor = D(F32), .input = 1},
    [I8] = {C(int8_channel), .rows = 6, .cols = 40, .bits = 8, .block = {1, 40}, .scale = D(BF16),
            .scale_rank = 2},
    [GQ] = {C(int_gptq), .rows = 8, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F16),
            .index = INDEX_ANY},
    [AW] = {C(int_awq), .rows = 8, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F16)},
    [CT] = {C(int_ct), .rows = 8, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(BF16),
            .scale_rank = 2, .asymmetric = 1, .index = INDEX_TRIVIAL},
    [CS] = {C(int_ct), .rows = 8, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(BF16),
            .scale_rank = 2},
    [PR] = {C(int4_modelopt), .rows = 4, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F32),
            .scale_rank = 2},
    [SC] = {C(fp8_channel), .experts = 3, .rows = 6, .cols = 40, .bits = 8, .block = {1, 40},
            .scale = D(BF16), .scale_rank = 2, .names = NAMES_LOW},
    [SN] = {C(nvfp4_modelopt), .experts = 3, FP4, .factor = D(F32), .factor_rank = 1, .input = 1},
    [ST] = {C(fp8_tensor), .experts = 3, .rows = 6, .cols = 40, .bits = 8, .block = {6, 40},
            .scale = D(F32)},
    [SI] = {C(int_ct), .experts = 3, .rows = 8, .cols = 32, .bits = 4, .block = {1, 16},
            .scale = D(BF16), .scale_rank = 2, .asymmetric = 1},
};

typedef struct bad_layer {
    base base;
    const char *removed; /* parts of the layer, or NULL */
    const char *added;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[5];
    const char *set; /* a part of the layer: its four bytes from `at` on become `value` */
    uint32_t at, value;
    sb_status status;
    const char *message[4];
    uint32_t experts; /* replaces the number of the base if not 0 */
    uint64_t rows, cols;
} bad_layer;

/* One change each. */
#define GONE(b, part, ...)                                                                         \
    {                                                                                              \
        b, part, NULL, D(U8), 0, {0}, NULL, 0, 0, SB_ERR_INPUT, {__VA_ARGS__}, 0, 0, 0             \
    }
#define NEW(b, part, dtype, rank, shape, status, ...)                                              \
    {                                                                                              \
        b, NULL, part, D(dtype), rank, shape, NULL, 0, 0, status, {__VA_ARGS__}, 0, 0, 0           \
    }
#define CHANGED(b, part, dtype, rank, shape, status, ...)                                          \
    {                                                                                              \
        b, part, part, D(dtype), rank, shape, NULL, 0, 0, status, {__VA_ARGS__}, 0, 0, 0           \
    }
#define SET(b, part, at, value, status, ...)                                                       \
    {                                                                                              \
        b, NULL, NULL, D(U8), 0, {0}, part, at, value, status, {__VA_ARGS__}, 0, 0, 0              \
    }
#define ASKED(b, experts, rows, cols, status, ...)                                                 \
    {                                                                                              \
        b, NULL, NULL, D(U8), 0, {0}, NULL, 0, 0, status, {__VA_ARGS__}, experts, rows, cols       \
    }
#define S(...)                                                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define IN SB_ERR_INPUT
#define UN SB_ERR_UNSUPPORTED

static const bad_layer missing[] = {
    GONE(NV, "weight_packed", "has scales but no codes", "weight_packed"),
    GONE(NV, "weight_scale", "lacks tensor weight_scale"),
    GONE(NV, "weight_global_scale", "lacks tensor weight_global_scale"),
    GONE(MO, "weight", "has scales but no codes", "expected weight"),
    GONE(MO, "weight_scale", "lacks tensor weight_scale"),
    GONE(MO, "weight_scale_2", "lacks tensor weight_scale_2"),
    GONE(M4, "weight_packed", "has scales but no codes"),
    GONE(M4, "weight_scale", "lacks tensor weight_scale"),
    GONE(BL, "weight", "has scales but no codes"),
    GONE(GQ, "qweight", "has scales but no codes", "qweight"),
    GONE(GQ, "qzeros", "lacks tensor qzeros"),
    GONE(GQ, "scales", "lacks tensor scales"),
    GONE(AW, "qzeros", "lacks tensor qzeros"),
    GONE(CT, "weight_packed", "has scales but no codes"),
    GONE(CT, "weight_scale", "lacks tensor weight_scale"),
    GONE(CT, "weight_shape", "lacks tensor weight_shape"),
    GONE(PR, "weight_scale", "lacks tensor weight_scale"),
    GONE(SN, "weight_scale_2", "lacks tensor weight_scale_2"),
};

/* Codes without scales are not damaged, but their meaning is unknown. */
static const bad_layer unexplained[] = {
    {M8,
     "weight_scale",
     NULL,
     D(U8),
     0,
     {0},
     NULL,
     0,
     0,
     UN,
     {"weight has dtype F8_E4M3", "no scales explain", "expected BF16, F16 or F32"},
     0,
     0,
     0},
    {BL, "weight_scale_inv", NULL, D(U8), 0, {0}, NULL, 0, 0, UN, {"F8_E4M3"}, 0, 0, 0},
    {I8, "weight_scale", NULL, D(U8), 0, {0}, NULL, 0, 0, UN, {"weight has dtype I8"}, 0, 0, 0},
    CHANGED(CH, "weight", F8_E5M2, 2, S(6, 40), UN, "weight has dtype F8_E5M2"),
    CHANGED(CH, "weight", F64, 2, S(6, 40), UN, "weight has dtype F64"),
    NEW(PR, "pre_quant_scale", F32, 1, S(32), UN, "has a pre_quant_scale", "not read"),
    NEW(MO, "pre_quant_scale", F32, 1, S(32), UN, "has a pre_quant_scale"),
};

static const bad_layer superfluous[] = {
    NEW(NV, "weight", BF16, 2, S(4, 32), IN, ".weight does not belong", "nvfp4-ct"),
    NEW(NV, "weight_scale_2", F32, 0, S(0), IN, ".weight_scale_2 does not belong", "nvfp4-ct"),
    NEW(NV, "input_scale", F32, 0, S(0), IN, ".input_scale does not belong"),
    NEW(NV, "weight_shape", I64, 1, S(2), IN, ".weight_shape does not belong"),
    NEW(MO, "weight_global_scale", F32, 1, S(1), IN, ".weight_global_scale does not belong"),
    NEW(MO, "weight_packed", U8, 2, S(4, 16), IN, "lacks tensor weight_global_scale"),
    NEW(M4, "weight_global_scale", F32, 1, S(1), IN, ".weight_global_scale does not belong",
        "mxfp4"),
    NEW(M8, "input_scale", F32, 1, S(1), IN, ".input_scale does not belong", "mxfp8"),
    NEW(BL, "weight_scale", BF16, 2, S(2, 2), IN, ".weight_scale does not belong", "fp8-block"),
    NEW(CH, "weight_scale_2", F32, 0, S(0), IN, ".weight_scale_2 does not belong", "fp8-channel"),
    NEW(CH, "g_idx", I32, 1, S(40), IN, ".g_idx does not belong"),
    NEW(I8, "weight_zero_point", I8, 2, S(6, 1), IN, ".weight_zero_point does not belong"),
    NEW(GQ, "weight", BF16, 2, S(8, 32), IN, ".weight does not belong", "int-gptq"),
    NEW(GQ, "weight_packed", I32, 2, S(8, 4), IN, ".weight_packed does not belong"),
    NEW(AW, "g_idx", I32, 1, S(32), IN, ".g_idx does not belong", "int-awq"),
    NEW(CT, "qzeros", I32, 2, S(2, 1), IN, ".qzeros does not belong", "int-ct"),
    NEW(CS, "weight_global_scale", F32, 1, S(1), IN, ".weight_global_scale does not belong"),
    NEW(PR, "weight_scale_2", F32, 0, S(0), UN, "W4A8_AWQ", "not read"),
    CHANGED(CH, "weight", BF16, 2, S(6, 40), IN, ".weight_scale does not belong",
            "stored as plain"),
    NEW(SC, "weight_scale_2", F32, 1, S(3), IN, "_weight_scale_2 does not belong"),
    NEW(CH, "weight_scales", F32, 1, S(3), SB_OK, NULL), /* sb_weights_bind rejects it */
};

static const bad_layer types[] = {
    CHANGED(NV, "weight_packed", I8, 2, S(4, 16), IN, "weight_packed has dtype I8, expected U8"),
    CHANGED(NV, "weight_scale", F32, 2, S(4, 2), IN, "weight_scale has dtype F32", "F8_E4M3"),
    CHANGED(NV, "weight_scale", F8_E5M2, 2, S(4, 2), IN, "weight_scale has dtype F8_E5M2"),
    CHANGED(NV, "weight_global_scale", F64, 1, S(1), IN, "weight_global_scale has dtype F64",
            "expected F32, BF16 or F16"),
    CHANGED(NV, "input_global_scale", U8, 1, S(1), IN, "input_global_scale has dtype U8"),
    CHANGED(MO, "weight_scale", U8, 2, S(4, 2), IN,
            "weight_scale has shape [4, 2], expected [4, 1]"),
    CHANGED(M4, "weight_scale", F32, 2, S(4, 2), IN, "weight_scale has dtype F32", "expected"),
    CHANGED(M4, "weight_scale", BF16, 2, S(4, 2), IN, "weight_scale has dtype BF16"),
    CHANGED(M8, "weight_scale", F8_E4M3, 2, S(4, 2), IN, "weight_scale has dtype F8_E4M3",
            "expected scales of F32, BF16, F16, F8_E8M0 or U8"),
    CHANGED(BL, "weight_scale_inv", I32, 2, S(2, 2), IN, "weight_scale_inv has dtype I32"),
    CHANGED(I8, "weight_scale", U8, 2, S(6, 1), IN, "weight_scale has dtype U8",
            "expected scales of F32, BF16 or F16"),
    CHANGED(GQ, "qweight", U32, 2, S(4, 8), IN, "qweight has dtype U32, expected I32"),
    CHANGED(GQ, "qzeros", I64, 2, S(2, 1), IN, "qzeros has dtype I64, expected I32"),
    CHANGED(GQ, "scales", U8, 2, S(2, 8), IN, "scales has dtype U8"),
    CHANGED(GQ, "g_idx", I64, 1, S(32), IN, "g_idx has dtype I64, expected I32"),
    CHANGED(CT, "weight_scale", F8_E8M0, 2, S(8, 2), IN, "weight_scale has dtype F8_E8M0"),
    CHANGED(CT, "weight_shape", I32, 1, S(2), IN, "weight_shape has dtype I32, expected I64"),
    CHANGED(CT, "weight_zero_point", I8, 2, S(1, 2), IN,
            "weight_zero_point has dtype I8, expected I32"),
    CHANGED(CT, "weight_g_idx", I8, 1, S(32), IN, "weight_g_idx has dtype I8, expected I32"),
    CHANGED(PR, "weight_scale", F8_E8M0, 2, S(4, 2), IN,
            "weight has shape [2, 32], expected [4, 16]"),
    CHANGED(AW, "scales", BF16, 2, S(2, 8), SB_OK, NULL),
};

static const bad_layer shapes[] = {
    CHANGED(NV, "weight_packed", U8, 2, S(4, 15), IN,
            "weight_packed has shape [4, 15], expected [4, 16]"),
    CHANGED(NV, "weight_packed", U8, 1, S(64), IN,
            "weight_packed has shape [64], expected a matrix"),
    CHANGED(NV, "weight_packed", U8, 3, S(1, 4, 16), IN, "has shape [1, 4, 16], expected a matrix"),
    CHANGED(NV, "weight_scale", F8_E4M3, 2, S(4, 1), IN,
            "has a block scale for each 32 columns, expected one for each 16"),
    CHANGED(NV, "weight_scale", F8_E4M3, 2, S(2, 4), IN,
            "weight_scale has shape [2, 4], expected [4, 2]"),
    CHANGED(NV, "weight_scale", F8_E4M3, 1, S(8), IN,
            "weight_scale has shape [8], expected [4, 2]"),
    CHANGED(NV, "weight_scale", F8_E4M3, 3, S(4, 2, 1), IN, "weight_scale has shape [4, 2, 1]"),
    CHANGED(NV, "weight_global_scale", F32, 1, S(2), IN, "weight_global_scale has shape [2]"),
    CHANGED(MO, "weight_scale_2", F32, 2, S(4, 1), IN, "weight_scale_2 has shape [4, 1]"),
    CHANGED(MO, "input_scale", F32, 1, S(32), IN, "input_scale has shape [32]"),
    CHANGED(M4, "weight_scale", U8, 2, S(4, 4), IN,
            "weight_scale has shape [4, 4], expected [4, 2]"),
    CHANGED(M8, "weight", F8_E4M3, 2, S(64, 4), IN, "weight has shape [64, 4], expected [4, 64]"),
    CHANGED(M8, "weight_scale", U8, 2, S(4, 3), IN, "[4, 64] has [4, 3] scales"),
    CHANGED(BL, "weight_scale_inv", BF16, 2, S(3, 3), IN, "[130, 200] has [3, 3] scales"),
    CHANGED(BL, "weight_scale_inv", BF16, 3, S(1, 2, 2), IN,
            "weight_scale_inv has shape [1, 2, 2]"),
    CHANGED(BL, "weight_scale_inv", BF16, 4, S(2, 2, 2, 1), IN, "has shape [2, 2, 2, 1]"),
    CHANGED(BL, "weight", F8_E4M3, 4, S(130, 1, 200, 1), IN, "[130, 1, 200, 1], expected a matrix"),
    CHANGED(CH, "weight_scale", BF16, 2, S(1, 6), IN, "has shape [1, 6], expected [6, 1]"),
    CHANGED(CH, "weight_scale", BF16, 1, S(7), IN, "[6, 40] has [7, 1] scales"),
    CHANGED(I8, "weight_scale", BF16, 2, S(6, 3), IN, "has shape [6, 3], expected [6, 1]"),
    CHANGED(I8, "weight_scale", BF16, 2, S(1, 5), IN, "has shape [1, 5], expected [6, 1]"),
    CHANGED(I8, "weight_scale", BF16, 1, S(3), IN, "has shape [3], expected [6, 1]"),
    CHANGED(GQ, "qweight", I32, 2, S(3, 8), IN, "qweight has shape [3, 8], expected [4, 8]"),
    CHANGED(GQ, "qweight", I32, 1, S(32), IN, "qweight has shape [32], expected a matrix"),
    CHANGED(GQ, "qweight", I32, 2, S(8, 4), IN, "qweight has shape [8, 4], expected [32, 1]"),
    CHANGED(GQ, "qzeros", I32, 2, S(1, 1), IN, "qzeros has shape [1, 1], expected [2, 1]"),
    CHANGED(GQ, "qzeros", I32, 2, S(2, 3), UN, "has 3 words of zero points for 8 rows"),
    CHANGED(GQ, "qzeros", I32, 1, S(2), IN, "qzeros has shape [2], expected a matrix"),
    CHANGED(GQ, "scales", F16, 2, S(2, 9), UN, "1 words of zero points for 9 rows"),
    CHANGED(GQ, "scales", F16, 1, S(16), IN, "scales has shape [16], expected a matrix"),
    CHANGED(GQ, "g_idx", I32, 1, S(31), IN, "g_idx has shape [31], expected [32, 1]"),
    CHANGED(AW, "qweight", I32, 2, S(31, 1), IN, "qweight has shape [31, 1], expected [32, 1]"),
    CHANGED(AW, "qzeros", I32, 2, S(2, 2), UN, "AWQ codes of 8 bits, expected 4"),
    CHANGED(CT, "weight_packed", I32, 2, S(7, 4), IN, "has shape [7, 4], expected [8, 4]"),
    CHANGED(CT, "weight_packed", I32, 2, S(8, 3), UN, "has codes of 3 bits (W3A16)"),
    CHANGED(CT, "weight_packed", I32, 2, S(8, 5), UN, "has codes of 5 bits (W5A16)"),
    CHANGED(CT, "weight_scale", BF16, 2, S(8, 3), IN, "3 groups", "32 columns"),
    CHANGED(CT, "weight_scale", BF16, 2, S(4, 2), IN,
            "weight_scale has shape [4, 2], expected [8, 2]"),
    CHANGED(CT, "weight_scale", BF16, 3, S(8, 2, 1), IN, "weight_scale has shape [8, 2, 1]"),
    CHANGED(CT, "weight_shape", I64, 1, S(3), IN, "weight_shape has 3 elements", "expected 2"),
    CHANGED(CT, "weight_shape", I64, 2, S(1, 2), IN, "weight_shape has 2 elements in 2 dimensions"),
    CHANGED(CT, "weight_zero_point", I32, 2, S(2, 2), IN,
            "weight_zero_point has shape [2, 2], expected [1, 2]"),
    CHANGED(CT, "weight_g_idx", I32, 2, S(1, 32), IN, "weight_g_idx has shape [1, 32]"),
    CHANGED(PR, "weight", U8, 2, S(4, 16), IN, "weight has shape [4, 16], expected [2, 32]"),
    CHANGED(PR, "weight_scale", F32, 2, S(4, 3), IN, "3 groups", "32 columns"),
    CHANGED(PR, "weight_scale", F32, 2, S(2, 2), IN,
            "weight_scale has shape [2, 2], expected [4, 2]"),
    CHANGED(PR, "weight", U8, 1, S(64), IN, "weight has shape [64], expected a matrix"),
};

static const bad_layer stacks[] = {
    CHANGED(SC, "weight", F8_E4M3, 2, S(18, 40), IN,
            "has shape [18, 40], expected a matrix for each of 3"),
    CHANGED(SC, "weight", F8_E4M3, 3, S(2, 6, 40), IN,
            "[2, 6, 40], expected a matrix for each of 3"),
    CHANGED(SC, "weight", F8_E4M3, 3, S(3, 40, 6), IN,
            "has shape [3, 40, 6], expected per expert [6, 40]"),
    CHANGED(SC, "weight_scale", BF16, 2, S(6, 1), IN, "_weight_scale has shape [6, 1]"),
    CHANGED(SC, "weight_scale", BF16, 3, S(2, 6, 1), IN, "_weight_scale has shape [2, 6, 1]"),
    CHANGED(SC, "weight_scale", BF16, 1, S(6), IN, "_weight_scale has shape [6]"),
    CHANGED(SN, "weight_scale_2", F32, 1, S(2), IN, "weight_scale_2 has shape [2]"),
    CHANGED(SN, "input_scale", F32, 1, S(4), IN, "input_scale has shape [4]"),
    CHANGED(SI, "weight_zero_point", I32, 3, S(3, 2, 2), IN,
            "[3, 2, 2], expected per expert [1, 2]"),
    CHANGED(SI, "weight_zero_point", I32, 2, S(1, 2), IN, "weight_zero_point has shape [1, 2]"),
    ASKED(GQ, 3, 0, 0, UN, "stack of experts stored as GPTQ or AWQ", "expected a layer for each"),
    ASKED(PR, 3, 0, 0, UN, "stack of experts stored as int4-modelopt"),
    CHANGED(ST, "weight_scale", F32, 0, S(0), SB_OK, NULL),
    CHANGED(ST, "weight_scale", F32, 1, S(1), SB_OK, NULL),
    CHANGED(SN, "weight_scale_2", F32, 0, S(0), SB_OK, NULL),
};

static const bad_layer values[] = {
    SET(NV, "weight_global_scale", 0, 0, IN, "weight_global_scale, element 0, is 0",
        "expected a finite divisor above 0"),
    SET(NV, "weight_global_scale", 0, 0x80000000, IN, "weight_global_scale, element 0, is -0"),
    SET(NV, "weight_global_scale", 0, 0x7f800000, IN, "weight_global_scale", "is inf"),
    SET(NV, "weight_global_scale", 0, 0x7fc00000, IN, "weight_global_scale", "nan"),
    SET(NV, "weight_global_scale", 0, 0xbf800000, IN, "weight_global_scale", "is -1"),
    SET(NV, "weight_global_scale", 0, 0x00000001, SB_OK, NULL),
    SET(NV, "input_global_scale", 0, 0x7f800000, IN, "input_global_scale", "is inf", "divisor"),
    SET(NV, "input_global_scale", 0, 0, IN, "input_global_scale", "is 0"),
    SET(MO, "weight_scale_2", 0, 0, SB_OK, NULL), /* a layer of zeros */
    SET(MO, "weight_scale_2", 0, 0xff800000, IN, "weight_scale_2", "is -inf", "multiplier"),
    SET(MO, "weight_scale_2", 0, 0xffc00001, IN, "weight_scale_2", "nan", "finite multiplier"),
    SET(MO, "weight_scale_2", 0, 0x80000001, IN, "weight_scale_2", "is -1.4", "0 or above"),
    SET(MO, "input_scale", 0, 0x7fc00000, IN, "input_scale", "nan"),
    SET(TE, "input_scale", 0, 0xc0000000, IN, "input_scale", "is -2"),
    SET(TE, "input_scale", 0, 0, IN, "input_scale, element 0, is 0", "expected a scale above 0"),
    SET(SN, "input_scale", 8, 0, IN, "input_scale, element 2, is 0", "expected a scale above 0"),
    SET(SN, "weight_scale_2", 8, 0x7f800000, IN, "weight_scale_2, element 2, is inf"),
    SET(SN, "input_scale", 4, 0xbf800000, IN, "input_scale, element 1, is -1"),
    SET(NV, "weight_scale", 0, 0xff7f80ff, SB_OK, NULL), /* NaN elements, but a valid layer */
    SET(BL, "weight_scale_inv", 0, 0xff800000, SB_OK, NULL),
    SET(GQ, "g_idx", 4 * 31, 2, IN, "g_idx, element 31, is group 0x2, expected 0 to 1"),
    SET(GQ, "g_idx", 4 * 7, 0xffffffff, IN, "g_idx, element 7, is group 0xffffffff"),
    SET(GQ, "g_idx", 0, 0x80000000, IN, "g_idx, element 0, is group 0x80000000"),
    SET(CT, "weight_g_idx", 4 * 5, 0xffffffff, IN, "weight_g_idx, element 5"),
    SET(CT, "weight_shape", 0, 16, IN, "weight_shape says [16, 32], expected [8, 32]"),
    SET(CT, "weight_shape", 8, 64, IN, "weight_shape says [8, 64], expected [8, 32]"),
    SET(CT, "weight_shape", 8, 0, IN, "weight_shape says [8, 0]"),
    SET(CT, "weight_shape", 4, 1, IN, "weight_shape says [4294967304, 32]"),
    SET(CT, "weight_shape", 4, 0xffffffff, IN, "weight_shape says [18446744069414584328, 32]"),
};

static const bad_layer asked[] = {
    ASKED(NV, 0, 4, 64, IN, "weight_packed has shape [4, 16], expected [4, 32]"),
    ASKED(NV, 0, 5, 32, IN, "weight_packed has shape [4, 16], expected [5, 16]"),
    ASKED(NV, 0, 4, 33, IN, "rows of 33 columns, expected a multiple of 2"),
    ASKED(MO, 0, 4, 31, IN, "rows of 31 columns"),
    ASKED(M4, 0, 64, 4, IN, "has shape [4, 32], expected [64, 2]"),
    ASKED(BL, 0, 129, 200, IN, "weight has shape [130, 200], expected [129, 200]"),
    ASKED(GQ, 0, 16, 32, IN, "qweight has shape [4, 8], expected [4, 16]"),
    ASKED(GQ, 0, 8, 64, IN, "qweight has shape [4, 8], expected [8, 8]"),
    ASKED(AW, 0, 16, 32, IN, "qweight has shape [32, 1], expected [32, 2]"),
    ASKED(CT, 0, 9, 32, IN, "weight_shape says [8, 32], expected [9, 32]"),
    ASKED(PR, 0, 5, 32, IN, "has 5 rows, expected an even number"),
    ASKED(PR, 0, 6, 32, IN, "weight has shape [2, 32], expected [3, 32]"),
    ASKED(BL, 0, (uint64_t)1 << 40, 200, IN, "expected [1099511627776, 200]"),
    ASKED(GQ, 0, UINT64_MAX, 32, IN, "qweight has shape [4, 8]"),
    ASKED(GQ, 0, 8, UINT64_MAX, IN, "qweight has shape [4, 8]"),
    ASKED(PR, 0, UINT64_MAX - 1, 32, IN, "weight has shape [2, 32]"),
    ASKED(CH, 0, UINT64_MAX, UINT64_MAX, IN, "weight has shape [6, 40]"),
};

/* Detects the layer, and every expert of a stack. */
static sb_status detect(const sb_checkpoint *checkpoint, const quant_spec *s, uint64_t rows,
                        uint64_t cols, sb_error *err)
{
    sb_found found;
    sb_status status = sb_detect(checkpoint, QUANT_NAME, s->experts, rows, cols, &found, err);
    for (uint32_t e = 0; e < s->experts && !status; e++) {
        sb_matrix m;
        status = sb_found_expert(checkpoint, &found, e, &m, err);
    }
    return status;
}

static void check(const bad_layer *bad, const char *group, size_t row)
{
    quant_spec s = bases[bad->base];
    quant_layer l = quant_layer_draw(&s, 4);
    sb_error err = {""};
    if (bad->removed)
        test_folder_remove(&l.folder, quant_part_name(&s, bad->removed));
    if (bad->added)
        test_folder_add(&l.folder, quant_part_name(&s, bad->added), bad->dtype,
                        bad->rank + (s.experts && !bad->removed && bad->rank > 1), bad->shape);
    if (bad->set)
        sb_store_u32(test_folder_find(&l.folder, quant_part_name(&s, bad->set))->bytes + bad->at,
                     bad->value);
    if (bad->experts)
        s.experts = bad->experts;
    sb_checkpoint *checkpoint = quant_open(&l.folder, "test_detect_bad");
    sb_status status = detect(checkpoint, &s, bad->rows ? bad->rows : s.rows,
                              bad->cols ? bad->cols : s.cols, &err);
    if (status != bad->status)
        fail_msg("%s %zu: status %d, expected %d: %s", group, row, (int)status, (int)bad->status,
                 err.text);
    for (size_t i = 0; status && i < COUNT(bad->message) && bad->message[i]; i++)
        if (!strstr(err.text, bad->message[i]))
            fail_msg("%s %zu: message \"%s\" lacks \"%s\"", group, row, err.text, bad->message[i]);
    if (status && (!strstr(err.text, "test_detect_bad-layer: ") || !strstr(err.text, QUANT_NAME) ||
                   strchr(err.text, '\n')))
        fail_msg("%s %zu: message \"%s\" is not one line with the file and the layer", group, row,
                 err.text);
    /* without expected rows and cols a good layer must be found, too */
    if (!bad->rows && (detect(checkpoint, &s, 0, 0, &err) == SB_OK) < (status == SB_OK))
        fail_msg("%s %zu: without rows and cols: %s", group, row, err.text);
    sb_checkpoint_close(checkpoint);
    quant_layer_free(&l);
}

#define CHECK_ALL(group)                                                                           \
    TEST(test_##group)                                                                             \
    {                                                                                              \
        for (size_t i = 0; i < COUNT(group); i++)                                                  \
            check(&group[i], #group, i);                                                           \
    }
CHECK_ALL(missing)
CHECK_ALL(unexplained)
CHECK_ALL(superfluous)
CHECK_ALL(types)
CHECK_ALL(shapes)
CHECK_ALL(stacks)
CHECK_ALL(values)
CHECK_ALL(asked)

TEST(test_nothing_wrong)
{
    for (unsigned b = 0; b < COUNT(bases); b++)
        check(&(bad_layer){.base = (base)b, .status = SB_OK}, quant_spec_text(&bases[b]), b);
}

/* Every pair of numbers in weight_shape, without expected rows and cols: found if they fit, else
 * refused. */
TEST(test_claimed_shapes)
{
    static const uint64_t claims[] = {0,
                                      1,
                                      2,
                                      4,
                                      8,
                                      16,
                                      31,
                                      32,
                                      33,
                                      64,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      (uint64_t)1 << 32,
                                      ((uint64_t)1 << 32) + 8,
                                      (uint64_t)1 << 59,
                                      (uint64_t)1 << 63,
                                      ((uint64_t)1 << 63) + 1,
                                      UINT64_MAX - 126,
                                      UINT64_MAX};
    for (size_t i = 0; i < COUNT(claims) * COUNT(claims) * 2; i++) {
        quant_spec s = bases[i % 2 ? CT : CS];
        quant_layer l = quant_layer_draw(&s, 4);
        uint64_t n = claims[i / 2 % COUNT(claims)], k = claims[i / 2 / COUNT(claims)];
        unsigned char *shape =
            test_folder_find(&l.folder, quant_part_name(&s, "weight_shape"))->bytes;
        sb_store_u64(shape, n);
        sb_store_u64(shape + 8, k);
        sb_checkpoint *checkpoint = quant_open(&l.folder, "test_detect_bad");
        sb_error err = {""};
        sb_status status = detect(checkpoint, &s, 0, 0, &err);
        int sound = n == 8 && (k == 32 || (k == 16 && i % 2 == 0)); /* 16 8-bit codes */
        if ((status == SB_OK) != sound)
            fail_msg("weight_shape [%llu, %llu]: %d %s", (unsigned long long)n,
                     (unsigned long long)k, (int)status, err.text);
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}
