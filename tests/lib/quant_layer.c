#include "tests/lib/quant_layer.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"

static uint64_t key, at;

static uint32_t below(uint32_t n)
{
    return sb_rng_below(key, at++, n);
}

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    assert_non_null(memory);
    return memory;
}

/* Writes field i of a packed tensor. Words are little-endian, so that the fields of word w begin at
 * number w * 32 / bits. */
static void put_field(unsigned char *bytes, uint64_t i, unsigned bits, uint32_t value)
{
    if (bits == 8)
        bytes[i] = (unsigned char)value;
    else
        bytes[i / 2] = (unsigned char)(i % 2 ? bytes[i / 2] | value << 4 : bytes[i / 2] | value);
}

static float e4m3(uint32_t c)
{
    int e = (int)(c >> 3 & 15), m = (int)(c & 7);
    if (e == 15 && m == 7)
        return NAN;
    double x = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return (float)(c & 0x80 ? -x : x);
}

static float e2m1(uint32_t c)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return c & 8 ? -values[c & 7] : values[c & 7];
}

static float half(uint32_t c)
{
    int e = (int)(c >> 10 & 31), m = (int)(c & 1023);
    if (e == 31)
        return m ? NAN : c & 0x8000 ? -INFINITY : INFINITY;
    double x = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(c & 0x8000 ? -x : x);
}

/* The value of a scale or factor from its stored bits. */
static float number(sb_dtype dtype, uint32_t raw)
{
    switch (dtype) {
    case SB_DTYPE_F8_E4M3:
        return e4m3(raw);
    case SB_DTYPE_F32:
        return sb_f32_from_bits(raw);
    case SB_DTYPE_BF16:
        return sb_f32_from_bits(raw << 16);
    case SB_DTYPE_F16:
        return half(raw);
    default: /* E8M0 */
        return raw == 255 ? NAN : (float)ldexp(1, (int)raw - 127);
    }
}

static void put_number(test_tensor *t, uint64_t i, uint32_t raw)
{
    if (t->dtype == SB_DTYPE_F32)
        sb_store_u32(t->bytes + 4 * i, raw);
    else if (t->dtype == SB_DTYPE_BF16 || t->dtype == SB_DTYPE_F16)
        sb_store_u16(t->bytes + 2 * i, (uint16_t)raw);
    else
        t->bytes[i] = (unsigned char)raw;
}

/* The bits of a scale: of middling size, and negative only where that is usual. Special scales have
 * any bits. */
static uint32_t draw_number(sb_dtype dtype, int negative, int special)
{
    static const uint32_t odd32[] = {0,           0x80000000u, 1,           0x007fffffu,
                                     0x7f800000u, 0x7fc00001,  0xff800000u, 0xffc00000u,
                                     0xbf800000u, 0x7f7fffffu};
    static const uint32_t odd16[] = {0, 0x8000, 1, 0x8001, 0x7fff, 0xffff, 0xbf80, 0x7f00, 0x0080};
    uint32_t sign = negative && below(3) == 0;
    special = special && below(3) == 0;
    switch (dtype) {
    case SB_DTYPE_F8_E4M3:
        return special ? below(256) : below(0x7f);
    case SB_DTYPE_F32:
        return special ? odd32[below(10)] : sign << 31 | (100 + below(40)) << 23 | below(1u << 23);
    case SB_DTYPE_BF16:
        return special ? odd16[below(9)] : sign << 15 | (100 + below(40)) << 7 | below(128);
    case SB_DTYPE_F16:
        return special ? odd16[below(9)] : sign << 15 | below(31) << 10 | below(1024);
    default:
        return special ? (below(2) ? 255 : 0) : 100 + below(40);
    }
}

const char *quant_part_name(const quant_spec *spec, const char *suffix)
{
    static char name[256];
    const char *layer = spec->name ? spec->name : QUANT_NAME;
    if (spec->names == NAMES_DOT)
        snprintf(name, sizeof name, "%s.%s", layer, suffix);
    else if (strcmp(suffix, "weight") == 0)
        snprintf(name, sizeof name, "%s", layer);
    else
        snprintf(name, sizeof name, "%s_%s", layer,
                 suffix + (spec->names == NAMES_SHORT && !strncmp(suffix, "weight_", 7) ? 7 : 0));
    return name;
}

/* A part of shape [E,] d0, d1. Lower ranks drop trailing dimensions; rank 4 is d0, 1, d1, 1. */
static test_tensor *part(quant_layer *l, const char *suffix, sb_dtype dtype, unsigned rank,
                         uint64_t d0, uint64_t d1, int shared)
{
    uint64_t shape[5] = {l->spec.experts};
    unsigned first = l->spec.experts && !shared;
    uint64_t *d = shape + first;
    d[0] = d0;
    d[1] = rank == 4 ? 1 : d1;
    if (rank == 4)
        d[2] = d1, d[3] = 1;
    assert_true(rank >= 2 || d1 == 1);
    return test_folder_add(&l->folder, quant_part_name(&l->spec, suffix), dtype, first + rank,
                           shape);
}

static int is_int(sb_container c)
{
    return sb_container_family(c) == SB_FAMILY_INT;
}

/* Integers in bytes of their own, with a sign. */
static int is_int8(sb_container c)
{
    return is_int(c) && sb_container_takes(c, SB_PART_weight) && c != SB_CONTAINER_int4_modelopt;
}

static const uint32_t awq_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/* The position of code (n, k) of expert e, in fields. */
static uint64_t code_place(const quant_spec *s, uint64_t e, uint64_t n, uint64_t k)
{
    uint64_t N = s->rows, K = s->cols, word = 32 / s->bits;
    if (s->container == SB_CONTAINER_int_gptq)
        return (k / word * N + n) * word + k % word;
    if (s->container == SB_CONTAINER_int_awq)
        return (k * (N / 8) + n / 8) * 8 + awq_order[n % 8];
    if (s->container == SB_CONTAINER_int4_modelopt)
        return (n / 2 * K + k) * 2 + n % 2;
    return (e * N + n) * K + k;
}

static uint64_t zero_place(const quant_spec *s, uint64_t groups, uint64_t e, uint64_t n, uint64_t g)
{
    uint64_t N = s->rows, word = 32 / s->bits;
    if (s->container == SB_CONTAINER_int_gptq)
        return (g * (N / word) + n / word) * word + n % word;
    if (s->container == SB_CONTAINER_int_awq)
        return (g * (N / 8) + n / 8) * 8 + awq_order[n % 8];
    return ((e * ((N + word - 1) / word) + n / word) * groups + g) * word + n % word;
}

static float code_value(const quant_spec *s, uint32_t raw)
{
    if (sb_container_is_fp4(s->container))
        return e2m1(raw);
    if (s->container == SB_CONTAINER_int4_modelopt)
        return (float)(raw < 8 ? (int)raw : (int)raw - 16);
    if (is_int8(s->container))
        return (float)(raw < 128 ? (int)raw : (int)raw - 256);
    return is_int(s->container) ? (float)raw : e4m3(raw);
}

static test_tensor *code_tensor(quant_layer *l)
{
    const quant_spec *s = &l->spec;
    uint64_t N = s->rows, K = s->cols;
    switch (s->container) {
    case SB_CONTAINER_nvfp4_ct:
    case SB_CONTAINER_mxfp4:
        return part(l, "weight_packed", SB_DTYPE_U8, 2, N, K / 2, 0);
    case SB_CONTAINER_nvfp4_modelopt:
        return part(l, "weight", SB_DTYPE_U8, 2, N, K / 2, 0);
    case SB_CONTAINER_int_gptq:
        return part(l, "qweight", SB_DTYPE_I32, 2, K * s->bits / 32, N, 0);
    case SB_CONTAINER_int_awq:
        return part(l, "qweight", SB_DTYPE_I32, 2, K, N / 8, 0);
    case SB_CONTAINER_int_ct:
        return part(l, "weight_packed", SB_DTYPE_I32, 2, N, K * s->bits / 32, 0);
    case SB_CONTAINER_int4_modelopt:
        return part(l, "weight", SB_DTYPE_U8, 2, N / 2, K, 0);
    default:
        return part(l, "weight", is_int8(s->container) ? SB_DTYPE_I8 : SB_DTYPE_F8_E4M3, 2, N, K,
                    0);
    }
}

/* The group of every column, and the tensor of groups if there is one. */
static uint32_t *draw_index(quant_layer *l, uint32_t groups)
{
    const quant_spec *s = &l->spec;
    uint32_t experts = s->experts ? s->experts : 1;
    uint32_t *group = zeroed((size_t)experts * s->cols, sizeof *group);
    test_tensor *t = NULL;
    if (s->index != INDEX_NONE)
        t = part(l, s->container == SB_CONTAINER_int_gptq ? "g_idx" : "weight_g_idx", SB_DTYPE_I32,
                 1, s->cols, 1, 0);
    for (uint32_t i = 0; i < experts * s->cols; i++) {
        group[i] = s->index == INDEX_ANY ? below(groups) : i % s->cols / s->block[1];
        if (t)
            sb_store_u32(t->bytes + 4 * i, s->index == INDEX_UNSET ? 0xffffffffu : group[i]);
    }
    return group;
}

static void draw_codes(quant_layer *l, const uint32_t *group, uint32_t groups, const uint32_t *zero)
{
    const quant_spec *s = &l->spec;
    uint32_t experts = s->experts ? s->experts : 1;
    test_tensor *t = code_tensor(l);
    int signed_code = is_int8(s->container) || s->container == SB_CONTAINER_int4_modelopt;
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t n = 0; n < s->rows; n++)
            for (uint32_t k = 0; k < s->cols; k++) {
                size_t i = ((size_t)e * s->rows + n) * s->cols + k;
                uint32_t raw = below(1u << s->bits);
                if (s->bits == 8 && !is_int(s->container) && !s->special && (raw & 127) == 127)
                    raw ^= 1;
                put_field(t->bytes, code_place(s, e, n, k), s->bits, raw);
                l->code[i] = code_value(s, raw);
                if (is_int(s->container) && !signed_code)
                    l->code[i] -=
                        (float)zero[((size_t)e * s->rows + n) * groups + group[e * s->cols + k]];
            }
}

/* The zero points (E, N, G), and their tensor. */
static uint32_t *draw_zeros(quant_layer *l, uint32_t groups)
{
    const quant_spec *s = &l->spec;
    uint32_t experts = s->experts ? s->experts : 1, word = 32 / s->bits;
    uint32_t *zero = zeroed((size_t)experts * s->rows * groups, sizeof *zero);
    int gptq = s->container == SB_CONTAINER_int_gptq, awq = s->container == SB_CONTAINER_int_awq;
    test_tensor *t = NULL;
    if (gptq || awq)
        t = part(l, "qzeros", SB_DTYPE_I32, 2, groups, s->rows / word, 0);
    else if (s->container == SB_CONTAINER_int_ct && s->asymmetric)
        t = part(l, "weight_zero_point", SB_DTYPE_I32, 2, (s->rows + word - 1) / word, groups, 0);
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t n = 0; n < s->rows; n++)
            for (uint32_t g = 0; g < groups; g++) {
                uint32_t z = 1u << (s->bits - 1);
                if (s->asymmetric) /* a fifth are 0, for which the v1 form borrows from the next
                                    * field */
                    z = below(5) ? below(1u << s->bits) : 0;
                zero[((size_t)e * s->rows + n) * groups + g] = z;
                if (t)
                    put_field(t->bytes, zero_place(s, groups, e, n, g), s->bits, z);
            }
    for (uint64_t i = 0; t && gptq && !s->v2 && i < t->size / 4; i++)
        sb_store_u32(t->bytes + 4 * i,
                     sb_load_u32(t->bytes + 4 * i) - (s->bits == 4 ? 0x11111111u : 0x01010101u));
    l->zeros = gptq  ? s->v2 ? SB_ZEROS_gptq_v2 : SB_ZEROS_gptq_v1
               : awq ? SB_ZEROS_awq
               : t   ? SB_ZEROS_rows
                     : SB_ZEROS_none;
    return zero;
}

static test_tensor *scale_tensor(quant_layer *l, uint32_t down, uint32_t across)
{
    const quant_spec *s = &l->spec;
    if (s->container == SB_CONTAINER_int_gptq || s->container == SB_CONTAINER_int_awq)
        return part(l, "scales", s->scale, 2, across, s->rows, 0);
    int inverse = sb_container_takes(s->container, SB_PART_weight_scale_inv);
    return part(l, inverse ? "weight_scale_inv" : "weight_scale", s->scale, s->scale_rank, down,
                across, s->scale_shared);
}

static void draw_scales(quant_layer *l, const uint32_t *group, uint32_t groups)
{
    const quant_spec *s = &l->spec;
    uint32_t experts = s->experts ? s->experts : 1;
    uint32_t down = (s->rows + s->block[0] - 1) / s->block[0];
    test_tensor *t = scale_tensor(l, down, groups);
    int turned = s->container == SB_CONTAINER_int_gptq || s->container == SB_CONTAINER_int_awq;
    float *value = zeroed((size_t)down * groups, sizeof *value);
    for (uint32_t e = 0; e < experts; e++) {
        for (uint32_t r = 0; r < down * groups && !(s->scale_shared && e); r++) {
            uint32_t raw = draw_number(s->scale, is_int(s->container), s->special);
            uint32_t i = r / groups, g = r % groups;
            put_number(t, (uint64_t)e * down * groups + (turned ? g * s->rows + i : r), raw);
            value[r] = number(s->scale, raw);
            if (!is_int(s->container) && signbit(value[r]))
                value[r] = NAN;
        }
        for (uint32_t n = 0; n < s->rows; n++)
            for (uint32_t k = 0; k < s->cols; k++)
                l->scale[((size_t)e * s->rows + n) * s->cols + k] =
                    value[n / s->block[0] * groups + group[e * s->cols + k]];
    }
    free(value);
}

/* The factors of weights or activations, if this container has them. */
static void draw_factors(quant_layer *l, const char *suffix, int kind, sb_factor *factor)
{
    const quant_spec *s = &l->spec;
    uint32_t experts = s->experts ? s->experts : 1;
    int own = s->experts && !s->factor_shared;
    unsigned rank = own ? (s->factor_rank > 1) : s->factor_rank;
    test_tensor *t = part(l, suffix, s->factor, rank, 1, 1, !own);
    for (uint32_t e = 0; e < experts; e++) {
        uint32_t raw = draw_number(s->factor, 0, 0);
        if (raw == 0) /* only possible for F16 */
            raw = 0x3555;
        if (e == 0 || own)
            put_number(t, e, raw);
        factor[e].kind = kind == SB_DIVISOR ? SB_DIVISOR : SB_MULTIPLIER;
        factor[e].value = e == 0 || own ? number(s->factor, raw) : factor[0].value;
    }
}

quant_layer quant_layer_draw(const quant_spec *spec, uint64_t seed)
{
    quant_layer l = {.spec = *spec, .container = spec->container};
    if (spec->container == SB_CONTAINER_fp8_tensor && spec->scale_rank == 2 && !spec->input &&
        spec->rows <= 128 && spec->cols <= 128)
        l.container = SB_CONTAINER_fp8_block_ct; /* what one block is detected as */
    uint32_t experts = spec->experts ? spec->experts : 1;
    uint32_t groups = (spec->cols + spec->block[1] - 1) / spec->block[1];
    size_t count = (size_t)experts * spec->rows * spec->cols;
    char *config = zeroed(3, 1);
    key = sb_rng_key(seed, quant_spec_text(spec));
    at = 0;
    strcpy(config, "{}");
    l.folder.config = config;
    l.code = zeroed(count, sizeof *l.code);
    l.scale = zeroed(count, sizeof *l.scale);
    l.factor = zeroed(experts, sizeof *l.factor);
    l.input = zeroed(experts, sizeof *l.input);
    uint32_t *zero = draw_zeros(&l, groups);
    uint32_t *group = draw_index(&l, groups);
    draw_codes(&l, group, groups, zero);
    draw_scales(&l, group, groups);
    int ct = spec->container == SB_CONTAINER_nvfp4_ct;
    if (ct || spec->container == SB_CONTAINER_nvfp4_modelopt)
        draw_factors(&l, ct ? "weight_global_scale" : "weight_scale_2",
                     ct ? SB_DIVISOR : SB_MULTIPLIER, l.factor);
    if (spec->input)
        draw_factors(&l, ct ? "input_global_scale" : "input_scale", ct ? SB_DIVISOR : SB_MULTIPLIER,
                     l.input);
    if (spec->container == SB_CONTAINER_int_ct) {
        test_tensor *t = part(&l, "weight_shape", SB_DTYPE_I64, 1, 2, 1, 1);
        sb_store_u64(t->bytes, spec->rows);
        sb_store_u64(t->bytes + 8, spec->cols);
    }
    free(zero);
    free(group);
    return l;
}

void quant_layer_free(quant_layer *layer)
{
    test_folder_free(&layer->folder);
    free(layer->code);
    free(layer->scale);
    free(layer->factor);
    free(layer->input);
}

const char *quant_spec_text(const quant_spec *s)
{
    static char text[256];
    static const char *const names[] = {"P.x", "P_x", "P_short"};
    static const char *const index[] = {"", ", groups k/b", ", any groups", ", groups unset"};
    snprintf(
        text, sizeof text,
        "%s %ux%u of %u, %u bits, blocks %ux%u, scales %s rank %u%s, factor %s rank %u%s%s%s%s%s "
        "%s%s",
        sb_container_name(s->container), s->rows, s->cols, s->experts, s->bits, s->block[0],
        s->block[1], sb_dtype_name(s->scale), s->scale_rank, s->scale_shared ? " shared" : "",
        sb_dtype_name(s->factor), s->factor_rank, s->factor_shared ? " shared" : "",
        s->input ? ", input" : "", s->asymmetric ? ", asymmetric" : "", s->v2 ? ", v2" : "",
        index[s->index], names[s->names], s->special ? ", special" : "");
    return text;
}

void quant_find(const quant_layer *layer, const char *test, sb_checkpoint **checkpoint,
                sb_found *found)
{
    const quant_spec *s = &layer->spec;
    sb_error err = {""};
    *checkpoint = quant_open(&layer->folder, test);
    if (sb_detect(*checkpoint, QUANT_NAME, s->experts, s->rows, s->cols, found, &err))
        fail_msg("%s", err.text);
    if (found->zeros_open && s->v2)
        found->matrix.quant.zeros = SB_ZEROS_gptq_v2;
}
