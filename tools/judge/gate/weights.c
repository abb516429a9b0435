/* weights.c - quantized matrices of a case: from values to tensors. */
#include "tools/judge/gate/weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tools/judge/gate/weights_parts.h"

static const sb_gate_weight_format formats[] = {
    {"bf16", SB_SCHEME_plain, SB_FORMAT_bf16, SB_GATE_CODING_none},
    {"f16", SB_SCHEME_plain, SB_FORMAT_f16, SB_GATE_CODING_none},
    {"f32", SB_SCHEME_plain, SB_FORMAT_f32, SB_GATE_CODING_none},
    {"fp8-block", SB_SCHEME_fp8_block, SB_FORMAT_e4m3, SB_GATE_CODING_none},
    {"fp8-block-ue8m0", SB_SCHEME_fp8_block_ue8m0, SB_FORMAT_e4m3, SB_GATE_CODING_none},
    {"fp8-channel", SB_SCHEME_fp8_channel, SB_FORMAT_e4m3, SB_GATE_CODING_none},
    {"fp8-tensor", SB_SCHEME_fp8_tensor, SB_FORMAT_e4m3, SB_GATE_CODING_none},
    {"nvfp4-ct", SB_SCHEME_nvfp4a16_ct, SB_FORMAT_e2m1, SB_GATE_CODING_none},
    {"nvfp4-modelopt", SB_SCHEME_nvfp4_modelopt, SB_FORMAT_e2m1, SB_GATE_CODING_none},
    {"mxfp4", SB_SCHEME_mxfp4, SB_FORMAT_e2m1, SB_GATE_CODING_none},
    {"mxfp8", SB_SCHEME_mxfp8, SB_FORMAT_e4m3, SB_GATE_CODING_none},
    {"int4-gptq", SB_SCHEME_int4_gptq, SB_FORMAT_uint4, SB_GATE_CODING_none},
    {"int4-awq", SB_SCHEME_int4_awq, SB_FORMAT_uint4, SB_GATE_CODING_none},
    {"int4-ct", SB_SCHEME_int4_ct, SB_FORMAT_uint4, SB_GATE_CODING_none},
    {"int8-gptq", SB_SCHEME_int8_gptq, SB_FORMAT_uint8, SB_GATE_CODING_none},
    {"nvfp4-w4a4", SB_SCHEME_nvfp4a16_ct, SB_FORMAT_e2m1, SB_GATE_CODING_nvfp4},
    {"fp8-block-w8a8", SB_SCHEME_fp8_block, SB_FORMAT_e4m3, SB_GATE_CODING_fp8_block},
    {"fp8-channel-w8a8", SB_SCHEME_fp8_channel, SB_FORMAT_e4m3, SB_GATE_CODING_fp8_channel},
    {"fp8-tensor-w8a8", SB_SCHEME_fp8_tensor, SB_FORMAT_e4m3, SB_GATE_CODING_fp8_tensor},
};

/* The row of a case's format; ops with weights list only formats of the table. */
const sb_gate_weight_format *sb_gate_weight_format_of(const sb_gate_case *c)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, c->format) == 0)
            return &formats[i];
    return formats;
}

sb_gate_coding sb_gate_coding_of(const sb_gate_case *c)
{
    return sb_gate_weight_format_of(c)->coding;
}

static int is_int(sb_scheme scheme)
{
    return sb_scheme_at(scheme)->group != 0;
}

static int is_nvfp4(sb_scheme scheme)
{
    return scheme == SB_SCHEME_nvfp4a16_ct || scheme == SB_SCHEME_nvfp4_modelopt;
}

/* V-130: "An INT4 or INT8 group has the length that it has in `samebit make`, 128 or 32, if that
 * divides K, else 32"
 */
uint32_t sb_gate_group_of(sb_scheme scheme, uint32_t cols)
{
    uint32_t usual = sb_scheme_at(scheme)->group;
    return usual && cols % usual != 0 ? 32 : usual;
}

uint64_t sb_gate_all_rows(const sb_gate_stored *s)
{
    return (uint64_t)s->parts * s->rows + s->spare;
}

/* V-131: "scales in blocks of 128 rows and 4 groups" */
uint64_t sb_gate_swizzled(uint64_t row, uint64_t group, uint64_t groups)
{
    uint64_t across = (groups + 3) / 4;
    return (row / 128 * across + group / 4) * 512 + row % 32 * 16 + row / 32 % 4 * 4 + group % 4;
}

static uint64_t up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

/* The tensors of schemes.def are [N, ...] or [K, ...]; a stack adds a leading expert axis. */
static const char *axes_of(const sb_gate_stored *s, sb_scheme scheme, const sb_scheme_tensor *t)
{
    sb_container container = sb_scheme_at(scheme)->container;
    int across = container == SB_CONTAINER_int_gptq || container == SB_CONTAINER_int_awq;
    switch (t->content) {
    case SB_CONTENT_codes:
        if (t->dtype != SB_DTYPE_I32)
            return t->dtype == SB_DTYPE_U8 ? "expert,row,byte" : "expert,row,column";
        if (across)
            return container == SB_CONTAINER_int_gptq ? "expert,word,row" : "expert,column,word";
        return "expert,row,word";
    case SB_CONTENT_scales:
        return across ? "expert,block,row" : "expert,row,block";
    case SB_CONTENT_zeros:
        return "expert,block,word";
    case SB_CONTENT_index:
        return "expert,column";
    case SB_CONTENT_factor:
        return s->parts > 1 ? "expert,part" : "expert";
    default:
        return "expert,element";
    }
}

/* Without the axis of a stack. */
static const char *inner_axes(const char *axes)
{
    const char *comma = strchr(axes, ',');
    return comma ? comma + 1 : "element";
}

/* Tensor i of a layer in the case; returns 0 if there are no more. The last tensor of NVFP4 has the
 * scales in blocks. */
int sb_gate_stored_tensor(const sb_gate_case *c, const sb_gate_stored *s, size_t i,
                          sb_gate_stored_part *out)
{
    const sb_gate_weight_format *f = sb_gate_weight_format_of(c);
    uint32_t group = sb_gate_group_of(f->scheme, s->cols);
    sb_scheme_tensor t = {.suffix = "weight",
                          .rank = 2,
                          .shape = {sb_gate_all_rows(s), s->cols},
                          .content = SB_CONTENT_codes};
    t.dtype = f->stored == SB_FORMAT_bf16  ? SB_DTYPE_BF16
              : f->stored == SB_FORMAT_f16 ? SB_DTYPE_F16
                                           : SB_DTYPE_F32;
    int swizzled = 0;
    if (f->scheme == SB_SCHEME_plain) {
        if (i > 0)
            return 0;
    } else {
        size_t at = 0, seen = 0;
        while (sb_scheme_tensor_at(f->scheme, at++, sb_gate_all_rows(s), s->cols, group, &t))
            if (t.content != SB_CONTENT_input && seen++ == i)
                break;
        swizzled = seen == i && is_nvfp4(f->scheme);
        if (seen <= i && !swizzled)
            return 0;
    }
    if (swizzled)
        t = (sb_scheme_tensor){"weight_scale_swizzled",
                               SB_DTYPE_U8,
                               2,
                               {up(sb_gate_all_rows(s), 128), up(s->cols / 16, 4)},
                               SB_CONTENT_scales};
    *out = (sb_gate_stored_part){.dtype = t.dtype, .content = t.content, .swizzled = swizzled};
    out->axes = axes_of(s, f->scheme, &t);
    if (s->experts)
        out->shape[out->rank++] = s->experts;
    else
        out->axes = inner_axes(out->axes);
    if (t.content == SB_CONTENT_factor && s->experts) {
        if (s->parts > 1)
            out->shape[out->rank++] = s->parts;
    } else {
        for (unsigned d = 0; d < t.rank; d++)
            out->shape[out->rank++] = t.shape[d];
    }
    const char *suffix = s->input ? t.suffix + strlen("weight") : t.suffix;
    size_t length = strlen(s->prefix);
    memcpy(out->name, s->prefix, length);
    memcpy(out->name + length, suffix, strlen(suffix) + 1);
    return 1;
}

/* --- values ----------------------------------------------------------------------------------- */

/* A copy of the case with another regime. */
sb_gate_case sb_gate_in_regime(const sb_gate_case *c, sb_gate_regime regime)
{
    sb_gate_case other = *c;
    other.regime = regime;
    return other;
}

/* V-133: "Blocks of 128 x 128, experts and parts differ in size", so that using a neighbour's scale
 * shows. Regimes about sizes keep the factor 1. */
float sb_gate_size_of(const sb_gate_case *c, uint64_t matrix, uint64_t row, uint64_t col)
{
    static const float size[] = {1.0f, 0.625f, 0.3125f};
    if (c->regime == SB_GATE_REGIME_ties || c->regime == SB_GATE_REGIME_subnormal)
        return 1.0f;
    return size[(row / 128 + col / 128 + matrix) % 3];
}

/* V-133: "Weights of INT4 and INT8 are 2^-10 as large where a regime is about scales, so that these
 * are subnormal binary16 numbers; others 2^-27 in tiny and 2^-76 in least" */
static float order_of(const sb_gate_case *c, const sb_gate_stored *s)
{
    const sb_gate_weight_format *f = sb_gate_weight_format_of(c);
    const int plain = f->scheme == SB_SCHEME_plain;
    if (c->regime == SB_GATE_REGIME_subnormal)
        return is_int(f->scheme) ? 0x1p-10f : 1.0f;
    if ((c->regime != SB_GATE_REGIME_tiny && c->regime != SB_GATE_REGIME_least) || s->steady ||
        (plain && (!s->small || f->stored == SB_FORMAT_f16)))
        return 1.0f;
    if (is_int(f->scheme))
        return 0x1p-10f;
    return c->regime == SB_GATE_REGIME_tiny ? 0x1p-27f : 0x1p-76f;
}

/* V-133: "In regime zeros these are 0: every eighth row; every fourth block of 16 columns, shifted
 * from row to row; and with more than 256 columns, the last 128 of them in the first 128 rows" -
 * never all weights of a nonzero input. */
static int is_zero(const sb_gate_case *c, const sb_gate_stored *s, uint64_t row, uint64_t col)
{
    int last = s->cols > 256 && row < 128 && col / 128 == (s->cols - 1) / 128;
    return c->regime == SB_GATE_REGIME_zeros && (row % 8 == 5 || (row + col / 16) % 4 == 3 || last);
}

/* The regime for drawing the values. is_zero sets the zeros later; order_of makes the subnormal
 * scales of INT4 and INT8. */
static sb_gate_regime drawn_regime(const sb_gate_case *c)
{
    int ints = is_int(sb_gate_weight_format_of(c)->scheme);
    if (c->regime == SB_GATE_REGIME_zeros || (ints && c->regime == SB_GATE_REGIME_subnormal))
        return SB_GATE_REGIME_normal;
    return c->regime;
}

/* The values of all matrices before they are quantized, (matrices, all_rows, cols). */
static void draw_weights(const sb_gate_case *c, const sb_gate_stored *s, float *w)
{
    const sb_gate_weight_format *f = sb_gate_weight_format_of(c);
    const sb_gate_case as = sb_gate_in_regime(c, drawn_regime(c));
    const float order = order_of(c, s);
    const sb_format to = f->scheme == SB_SCHEME_plain ? f->stored : SB_FORMAT_bf16;
    const uint64_t rows = sb_gate_all_rows(s), count = s->experts ? s->experts : 1;
    char name[SB_GATE_NAME] = "";
    strncat(name, s->prefix, sizeof name - sizeof "weight");
    strcat(name, "weight");
    sb_gate_draw(&as, name, SB_GATE_WEIGHT, count * rows, s->cols, w);
    for (uint64_t m = 0; m < count; m++)
        for (uint64_t row = 0; row < rows; row++)
            for (uint64_t col = 0; col < s->cols; col++, w++) {
                float size = sb_gate_size_of(c, m + row / s->rows, row, col);
                *w = is_zero(c, s, row, col) ? 0.0f : sb_round_to(to, *w * size * order);
                if (c->regime == SB_GATE_REGIME_padding && row >= (uint64_t)s->parts * s->rows &&
                    f->scheme == SB_SCHEME_plain)
                    *w = sb_f32_from_bits(0x7fc00000u);
            }
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Bytes of one expert in a tensor of a stack. */
static unsigned char *expert_bytes(const sb_gate_array *a, const sb_gate_stored *s, uint32_t expert)
{
    return a->data + (s->experts ? a->bytes / s->experts * expert : 0);
}

const sb_gate_array *sb_gate_stored_find(const sb_gate_case *c, const sb_gate_stored *s,
                                         sb_content content, int swizzled)
{
    sb_gate_stored_part part;
    for (size_t i = 0; sb_gate_stored_tensor(c, s, i, &part); i++)
        if (part.content == content && part.swizzled == swizzled)
            return sb_gate_input(c, part.name);
    return NULL;
}

unsigned char *sb_gate_stored_bytes(const sb_gate_case *c, const sb_gate_stored *s,
                                    sb_content content, uint32_t expert)
{
    const sb_gate_array *a = sb_gate_stored_find(c, s, content, 0);
    return a ? expert_bytes(a, s, expert) : NULL;
}

/* Quantizes rows first .. first + rows - 1 of an expert, band by band. */
static void quantize_rows(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                          const float *w, uint64_t first, uint64_t rows, float factor)
{
    const sb_scheme scheme = sb_gate_weight_format_of(c)->scheme;
    const sb_scheme_info *info = sb_scheme_at(scheme);
    const uint64_t each = info->band ? info->band : rows, all = sb_gate_all_rows(s);
    const sb_gate_array *codes = sb_gate_stored_find(c, s, SB_CONTENT_codes, 0),
                        *scales = sb_gate_stored_find(c, s, SB_CONTENT_scales, 0);
    const uint64_t stack = s->experts ? s->experts : 1, bands = (all + each - 1) / each;
    for (uint64_t row = first; row < first + rows; row += each) {
        uint64_t left = first + rows - row;
        sb_band b = {.weights = w + row * s->cols,
                     .rows = left < each ? left : each,
                     .cols = s->cols,
                     .group = sb_gate_group_of(scheme, s->cols),
                     .factor = factor,
                     .rule = scheme == SB_SCHEME_int4_awq          ? SB_SCALE_RULE_min_max
                             : is_int(scheme)                      ? SB_SCALE_RULE_rtn
                             : scheme == SB_SCHEME_fp8_block_ue8m0 ? SB_SCALE_RULE_reciprocal
                                                                   : SB_SCALE_RULE_amax,
                     .codes = expert_bytes(codes, s, expert) + codes->bytes / stack / all * row,
                     .zeros = sb_gate_stored_bytes(c, s, SB_CONTENT_zeros, expert)};
        if (scales)
            b.scales =
                expert_bytes(scales, s, expert) + scales->bytes / stack / bands * (row / each);
        info->quantize(&b);
    }
}

/* V-133: "Every other block of zeros has the scale 0", even if the quantizer gives another
 * scale. */
static void clear_zero_scales(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert)
{
    const unsigned char *codes = sb_gate_stored_bytes(c, s, SB_CONTENT_codes, expert);
    unsigned char *scales = sb_gate_stored_bytes(c, s, SB_CONTENT_scales, expert);
    for (uint64_t g = 0; g < sb_gate_all_rows(s) * (s->cols / 16); g++, codes += 8) {
        unsigned any = 0;
        for (unsigned i = 0; i < 8; i++)
            any |= codes[i] & 0x77u;
        if (!any && g % 2 == 0)
            scales[g] = 0;
    }
}

/* V-131: copies the scales of an expert into blocks of 128 x 4. Padding is 0x7F in regime padding,
 * else 0. */
static void swizzle(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                    unsigned char *out, uint64_t bytes)
{
    const unsigned char *scales = sb_gate_stored_bytes(c, s, SB_CONTENT_scales, expert);
    const uint64_t groups = s->cols / 16;
    memset(out, c->regime == SB_GATE_REGIME_padding ? 0x7f : 0, (size_t)bytes);
    for (uint64_t row = 0; row < sb_gate_all_rows(s); row++)
        for (uint64_t g = 0; g < groups; g++)
            out[sb_gate_swizzled(row, g, groups)] = scales[row * groups + g];
}

sb_status sb_gate_swizzle_again(sb_gate_case *c, const sb_gate_stored *s)
{
    sb_gate_stored_part part;
    for (size_t i = 0; sb_gate_stored_tensor(c, s, i, &part); i++)
        for (size_t a = 0; part.swizzled && a < c->arrays; a++) {
            sb_gate_array *array = &c->array[a];
            if (strcmp(array->name, part.name) != 0)
                continue;
            const uint64_t bytes = part.shape[0] * part.shape[1];
            unsigned char *data = sb_realloc(array->data, (size_t)bytes, 1);
            if (!data)
                return SB_ERR_MEMORY;
            array->data = data;
            array->bytes = bytes;
            memcpy(array->shape, part.shape, 2 * sizeof *part.shape);
            swizzle(c, s, 0, data, bytes);
        }
    return SB_OK;
}

static void put_constants(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert)
{
    unsigned char *shape = sb_gate_stored_bytes(c, s, SB_CONTENT_shape, expert);
    unsigned char *index = sb_gate_stored_bytes(c, s, SB_CONTENT_index, expert);
    uint32_t group = sb_gate_group_of(sb_gate_weight_format_of(c)->scheme, s->cols);
    if (shape) {
        sb_store_u64(shape, sb_gate_all_rows(s));
        sb_store_u64(shape + 8, s->cols);
    }
    for (uint32_t k = 0; index && k < s->cols; k++)
        sb_store_u32(index + (size_t)4 * k, k / group);
}

/* V-135: "In regime padding the rows that no token has are NaN" */
static void spoil_spare(const sb_gate_case *c, const sb_gate_stored *s, sb_content content)
{
    const sb_gate_array *a = sb_gate_stored_find(c, s, content, 0);
    const uint64_t row = a->bytes / sb_gate_all_rows(s);
    memset(a->data + row * s->parts * s->rows, 0x7f, (size_t)(row * s->spare));
}

/* One expert, or the only matrix. The parts share all tensors except the factor. */
static void quantize_expert(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                            const float *w)
{
    const sb_scheme_info *info = sb_scheme_at(sb_gate_weight_format_of(c)->scheme);
    unsigned char *factors = sb_gate_stored_bytes(c, s, SB_CONTENT_factor, expert);
    const sb_gate_array *blocks = sb_gate_stored_find(c, s, SB_CONTENT_scales, 1);
    if (!info->factor)
        quantize_rows(c, s, expert, w, 0, sb_gate_all_rows(s), 1.0f);
    for (uint32_t p = 0; info->factor && p < s->parts; p++) {
        uint64_t first = (uint64_t)p * s->rows, rows = s->rows + (p + 1 == s->parts ? s->spare : 0);
        float amax = sb_largest(w + first * s->cols, (size_t)(rows * s->cols));
        float factor = info->factor(amax, SB_SCALE_RULE_amax);
        sb_store_u32(factors + (size_t)4 * p, sb_bits_f32(factor));
        quantize_rows(c, s, expert, w, first, rows, factor);
    }
    put_constants(c, s, expert);
    if (s->spare && c->regime == SB_GATE_REGIME_padding)
        spoil_spare(c, s, blocks ? SB_CONTENT_scales : SB_CONTENT_codes);
    if (blocks && c->regime == SB_GATE_REGIME_zeros)
        clear_zero_scales(c, s, expert);
    if (blocks)
        swizzle(c, s, expert, expert_bytes(blocks, s, expert),
                blocks->bytes / (s->experts ? s->experts : 1));
}

static sb_status check_shape(const sb_gate_case *c, const sb_gate_stored *s, sb_error *err)
{
    const sb_scheme scheme = sb_gate_weight_format_of(c)->scheme;
    uint32_t group = sb_gate_group_of(scheme, s->cols), step = sb_scheme_at(scheme)->step;
    uint32_t words = scheme == SB_SCHEME_int8_gptq                                   ? 4
                     : scheme == SB_SCHEME_int4_gptq || scheme == SB_SCHEME_int4_awq ? 8
                                                                                     : 1;
    uint32_t cols = group > step ? group : step;
    if (s->cols % cols != 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s has rows of %" PRIu32 " columns here, expected a multiple of %" PRIu32,
                       c->format, s->cols, cols);
    if (sb_gate_all_rows(s) % words != 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s has %" PRIu64 " rows here, expected a multiple of %" PRIu32, c->format,
                       sb_gate_all_rows(s), words);
    return SB_OK;
}

sb_status sb_gate_store(sb_gate_case *c, const sb_gate_stored *s, sb_error *err)
{
    const sb_gate_weight_format *f = sb_gate_weight_format_of(c);
    const uint64_t stack = s->experts ? s->experts : 1, each = sb_gate_all_rows(s) * s->cols;
    sb_gate_stored_part part;
    sb_status status = check_shape(c, s, err);
    for (size_t i = 0; !status && sb_gate_stored_tensor(c, s, i, &part); i++)
        if (!sb_gate_add(c, part.name, part.dtype, part.axes, part.rank, part.shape))
            status = SB_ERR_MEMORY;
    float *w = status ? NULL : sb_alloc((size_t)(stack * each), sizeof *w);
    if (status || !w)
        return status ? status : SB_ERR_MEMORY;
    if (s->input)
        sb_gate_draw_codes(c, s, w);
    else
        draw_weights(c, s, w);
    if (f->scheme == SB_SCHEME_plain)
        sb_encode(f->stored, w, (size_t)(stack * each),
                  sb_gate_stored_find(c, s, SB_CONTENT_codes, 0)->data);
    for (uint32_t e = 0; f->scheme != SB_SCHEME_plain && e < stack; e++)
        quantize_expert(c, s, e, w + e * each);
    free(w);
    return SB_OK;
}
