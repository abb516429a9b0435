/* definition_shapes.c - the shapes for the comparison of a twin with its definition: one row, few
 * and many rows; odd sizes; and sizes at and around the borders of tiles, strips, waves, parts and
 * chunks. */
#include "tests/unit/definition.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tests/lib/cmocka.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- values ----------------------------------------------------------------------------------- */

void *definition_room(definition_case *c, size_t n, size_t size)
{
    void *room = calloc(n + 1, size);
    assert_non_null(room);
    assert_true(c->blocks < COUNT(c->block));
    c->block[c->blocks++] = room;
    return room;
}

void definition_free(definition_case *c)
{
    while (c->blocks > 0)
        free(c->block[--c->blocks]);
}

static uint64_t draw(definition_case *c)
{
    return sb_rng_u64(c->seed, c->drawn++);
}

static uint32_t below(definition_case *c, uint32_t n)
{
    return (uint32_t)(draw(c) % n);
}

/* A number with 23 random fraction bits, a random sign and an exponent from `least` to least + span
 * - 1. */
static float between(definition_case *c, int least, uint32_t span)
{
    const uint32_t exponent = (uint32_t)(127 + least) + below(c, span);
    const uint64_t bits = draw(c);
    return sb_f32_from_bits((uint32_t)(bits >> 63) << 31 | exponent << 23 |
                            (uint32_t)(bits & 0x7fffffu));
}

/* Every other array has pairs (v, v) where this one has (v, -v), so that products of the two
 * cancel. */
static float cancelling(definition_case *c, size_t i, float before, int opposed)
{
    float v = i % 2 ? opposed ? -before : before : between(c, -4, 8);
    return i % 16 == 15 ? v * 0x1.000002p0f : v;
}

static float one_value(definition_case *c, size_t i, float before, int opposed)
{
    static const float plain[] = {0.0f, -0.0f, 0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0.0f};
    switch (c->regime) {
    case REGIME_WIDE:
        return between(c, -60, 121);
    case REGIME_CANCEL:
        return cancelling(c, i, before, opposed);
    case REGIME_ZEROS:
        return plain[below(c, COUNT(plain))];
    case REGIME_SUBNORMAL:
        return below(c, 4) ? sb_f32_from_bits((uint32_t)draw(c) & 0x807fffffu) : between(c, -3, 4);
    case REGIME_HUGE:
        return between(c, 100, 28);
    default:
        return sb_rng_normal(c->seed, c->drawn++);
    }
}

float *definition_values(definition_case *c, size_t n)
{
    float *x = definition_room(c, n, sizeof *x);
    const int opposed = c->arrays++ % 2;
    for (size_t i = 0; i < n; i++)
        x[i] = one_value(c, i, i ? x[i - 1] : 0, opposed);
    return x;
}

/* --- matrices --------------------------------------------------------------------------------- */

/* A plain matrix. Values beyond the range of the format are scaled down. */
static sb_matrix *plain(definition_case *c, sb_format format, size_t rows, size_t cols)
{
    sb_matrix *m = definition_room(c, 1, sizeof *m);
    unsigned char *codes = definition_room(c, rows * cols, sb_format_bytes(format));
    float *x = definition_values(c, rows * cols);
    for (size_t i = 0; format != SB_FORMAT_f32 && i < rows * cols; i++)
        while (!sb_is_finite_f32(sb_round_to(format, x[i])))
            x[i] *= 0x1p-20f;
    sb_encode(format, x, rows * cols, codes);
    *m = (sb_matrix){
        .data = codes, .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
    return m;
}

static sb_format plain_format(unsigned variant)
{
    static const sb_format formats[] = {SB_FORMAT_f32, SB_FORMAT_bf16, SB_FORMAT_f16};
    return formats[variant % COUNT(formats)];
}

static sb_matrix *vector(definition_case *c, size_t n)
{
    return plain(c, plain_format(c->variant), 1, n);
}

/* Layers with block scales, packed in rows. block_cols 0: a block is a whole row. */
static const struct coded {
    sb_container container;
    sb_format format, scale;
    uint32_t block_rows, block_cols;
    sb_factor factor, input;
} kinds[] = {
    {SB_CONTAINER_nvfp4_ct,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     1,
     16,
     {SB_DIVISOR, 7399.2f},
     {SB_DIVISOR, 384}},
    {SB_CONTAINER_nvfp4_modelopt,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     1,
     16,
     {SB_MULTIPLIER, 1.35e-4f},
     {SB_MULTIPLIER, 0x1.3p-8f}},
    {SB_CONTAINER_mxfp4, SB_FORMAT_e2m1, SB_FORMAT_e8m0, 1, 32, {SB_NO_FACTOR, 0}, {0}},
    {SB_CONTAINER_mxfp8, SB_FORMAT_e4m3, SB_FORMAT_e8m0, 1, 32, {SB_NO_FACTOR, 0}, {0}},
    {SB_CONTAINER_fp8_block, SB_FORMAT_e4m3, SB_FORMAT_f32, 16, 48, {SB_NO_FACTOR, 0}, {0}},
    {SB_CONTAINER_fp8_block_ct, SB_FORMAT_e4m3, SB_FORMAT_bf16, 8, 128, {SB_NO_FACTOR, 0}, {0}},
    {SB_CONTAINER_fp8_channel, SB_FORMAT_e4m3, SB_FORMAT_f32, 1, 0, {SB_NO_FACTOR, 0}, {0}},
    {SB_CONTAINER_fp8_tensor,
     SB_FORMAT_e4m3,
     SB_FORMAT_f32,
     1,
     0,
     {SB_NO_FACTOR, 0},
     {SB_MULTIPLIER, 0x1.7p-5f}},
    {SB_CONTAINER_int8_channel, SB_FORMAT_int8, SB_FORMAT_f32, 1, 0, {SB_NO_FACTOR, 0}, {0}},
    {SB_CONTAINER_int_ct, SB_FORMAT_uint4, SB_FORMAT_f16, 1, 32, {SB_NO_FACTOR, 0}, {0}},
};
enum { PLAIN_KINDS = 3, KINDS = PLAIN_KINDS + sizeof kinds / sizeof *kinds };

/* Random codes and scales: the codes are finite, the scales have many sizes. */
static void draw_codes(definition_case *c, sb_format format, unsigned char *codes, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        codes[i] = (unsigned char)draw(c);
        if (format == SB_FORMAT_e4m3 && (codes[i] & 0x7f) == 0x7f)
            codes[i] ^= 1;
    }
}

static void draw_scales(definition_case *c, sb_format format, unsigned char *scales, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float value = between(c, -9, c->regime == REGIME_WIDE ? 16 : 5);
        const float scale = value < 0 ? -value : value;
        if (format == SB_FORMAT_e4m3)
            scales[i] = sb_f32_to_e4m3(scale);
        else if (format == SB_FORMAT_e8m0)
            scales[i] = (unsigned char)(110 + below(c, 34));
        else
            sb_encode(format, &scale, 1, scales + i * sb_format_bytes(format));
    }
}

/* 4-bit codes and MX groups need whole groups: their columns are rounded up to a multiple of 32. */
static sb_matrix *coded(definition_case *c, const struct coded *k, size_t rows, size_t cols)
{
    sb_matrix *m = definition_room(c, 1, sizeof *m);
    const size_t whole = sb_format_bits(k->format) == 4 || k->scale == SB_FORMAT_e8m0 ? 32 : 1;
    cols = (cols + whole - 1) / whole * whole;
    const size_t block = k->block_cols ? k->block_cols : cols, groups = (cols + block - 1) / block;
    const size_t tall = (rows + k->block_rows - 1) / k->block_rows;
    const size_t bytes = rows * cols * sb_format_bits(k->format) / 8;
    unsigned char *codes = definition_room(c, bytes, 1);
    unsigned char *scales = definition_room(c, tall * groups, sb_format_bytes(k->scale));
    draw_codes(c, k->format, codes, bytes);
    draw_scales(c, k->scale, scales, tall * groups);
    *m = (sb_matrix){.data = codes,
                     .format = k->format,
                     .rows = (uint32_t)rows,
                     .cols = (uint32_t)cols,
                     .quant = {.scales = scales,
                               .scale_format = k->scale,
                               .block_rows = k->block_rows,
                               .block_cols = (uint32_t)block,
                               .scale_row = groups,
                               .scale_col = 1,
                               .groups = (uint32_t)groups,
                               .stored_rows = (uint32_t)rows,
                               .zero = k->format == SB_FORMAT_uint4 ? 8 : 0,
                               .factor = k->factor,
                               .input = k->input,
                               .container = k->container}};
    return m;
}

static sb_matrix *stored(definition_case *c, size_t kind, size_t rows, size_t cols)
{
    return kind < PLAIN_KINDS ? plain(c, plain_format((unsigned)kind), rows, cols)
                              : coded(c, &kinds[kind - PLAIN_KINDS], rows, cols);
}

/* --- shapes ----------------------------------------------------------------------------------- */

static sb_form form_of(const definition_case *c)
{
    return (sb_form)(c->variant % 3);
}

int definition_embed(definition_case *c, size_t s, sb_embed_args *a)
{
    static const size_t shapes[][3] = {{1, 7, 5}, {3, 9, 33}, {17, 40, 257}};
    if (s >= COUNT(shapes))
        return 0;
    const size_t *n = shapes[s];
    uint32_t *tokens = definition_room(c, n[0], sizeof *tokens);
    for (size_t i = 0; i < n[0]; i++)
        tokens[i] = below(c, (uint32_t)n[1]);
    *a = (sb_embed_args){
        .table = plain(c, plain_format(c->variant), n[1], n[2]), .tokens = tokens, .rows = n[0]};
    return 1;
}

int definition_linear(definition_case *c, size_t s, sb_linear_args *a)
{
    static const size_t shapes[][3] = {{1, 1, 1},    {1, 5, 17},   {2, 16, 64},  {3, 33, 130},
                                       {4, 17, 128}, {2, 3, 1030}, {12, 8, 160}, {13, 20, 64},
                                       {33, 9, 96},  {1, 5, 2080}, {2, 513, 32}, {1, 512, 64},
                                       {16, 40, 160}};
    if (s >= COUNT(shapes) * KINDS)
        return 0;
    const size_t *n = shapes[s / KINDS];
    sb_matrix *w = stored(c, s % KINDS, n[1], n[2]);
    if (c->variant % 5 == 4) { /* rows in another order */
        uint32_t *map = definition_room(c, n[1], sizeof *map);
        for (size_t i = 0; i < n[1]; i++)
            map[i] = (uint32_t)(n[1] - 1 - i);
        w->row_map = map;
    }
    *a = (sb_linear_args){.weight = w,
                          .kind = (sb_linear_kind)(c->variant % (SB_LINEAR_expert_in + 1)),
                          .rows = n[0]};
    return 1;
}

int definition_rmsnorm(definition_case *c, size_t s, sb_rmsnorm_args *a)
{
    static const size_t shapes[][2] = {{1, 1}, {3, 16}, {2, 257}, {65, 128}, {1, 2050}, {110, 128}};
    if (s >= COUNT(shapes))
        return 0;
    *a = (sb_rmsnorm_args){.weight = vector(c, shapes[s][1]),
                           .eps = 1e-6f,
                           .rows = shapes[s][0],
                           .n = shapes[s][1],
                           .plain = (int)(c->variant % 2)};
    return 1;
}

int definition_conv(definition_case *c, size_t s, sb_conv_args *a)
{
    static const size_t shapes[][3] = {{1, 3, 4}, {2, 64, 4},   {5, 130, 3}, {17, 65, 4},
                                       {3, 5, 1}, {4, 1030, 2}, {1, 200, 4}, {60, 70, 4}};
    if (s >= COUNT(shapes))
        return 0;
    const size_t *n = shapes[s];
    *a = (sb_conv_args){
        .weight = plain(c, plain_format(c->variant), n[1], n[2]), .rows = n[0], .form = form_of(c)};
    return 1;
}

int definition_gates(definition_case *c, size_t s, sb_gates_args *a)
{
    static const size_t shapes[][2] = {{1, 1}, {5, 7}, {33, 16}, {100, 12}};
    if (s >= COUNT(shapes))
        return 0;
    *a = (sb_gates_args){.a_log = vector(c, shapes[s][1]),
                         .dt_bias = vector(c, shapes[s][1]),
                         .rows = shapes[s][0],
                         .heads = shapes[s][1],
                         .form = form_of(c)};
    return 1;
}

int definition_l2norm(definition_case *c, size_t s, sb_l2norm_args *a)
{
    static const size_t shapes[][4] = {
        {1, 1, 8, 5}, {3, 2, 64, 12}, {5, 3, 33, 1}, {9, 4, 128, 0}, {50, 2, 128, 3}};
    if (s >= COUNT(shapes))
        return 0;
    const size_t *n = shapes[s];
    *a = (sb_l2norm_args){.rows = n[0],
                          .stride = 2 * n[1] * n[2] + n[3],
                          .heads = n[1],
                          .dk = n[2],
                          .eps = 1e-6f,
                          .recurrent = c->variant % 2 == 0,
                          .form = form_of(c)};
    return 1;
}

int definition_rope(definition_case *c, size_t s, sb_rope_args *a)
{
    static const size_t shapes[][4] = {{1, 1, 8, 8},    {3, 2, 64, 16},  {5, 3, 20, 12},
                                       {2, 5, 128, 64}, {3, 4, 256, 64}, {2, 1, 24, 6}};
    static const uint32_t section[3] = {3, 3, 2};
    if (s >= COUNT(shapes))
        return 0;
    const size_t *n = shapes[s];
    *a = (sb_rope_args){.rows = n[0],
                        .heads = n[1],
                        .hd = n[2],
                        .rd = n[3],
                        .theta = c->variant % 2 ? 1e7 : 10000,
                        .section = c->variant % 3 ? section : NULL};
    for (size_t stream = 0; stream < 3; stream++) {
        uint32_t *at = definition_room(c, n[0], sizeof *at);
        for (size_t t = 0; t < n[0]; t++)
            at[t] = below(c, t % 2 ? 1u << 24 : 4096);
        a->position[stream] = at;
    }
    return 1;
}

static int rule_of(const size_t n[5], sb_delta_rule_args *a)
{
    *a = (sb_delta_rule_args){.v_stride = n[2] * n[4] + n[0] % 3,
                              .rows = n[0],
                              .k_heads = n[1],
                              .v_heads = n[2],
                              .dk = n[3],
                              .dv = n[4]};
    return 1;
}

int definition_delta_rule(definition_case *c, size_t s, sb_delta_rule_args *a)
{
    static const size_t shapes[][5] = {{1, 1, 1, 4, 3},   {2, 1, 2, 16, 32},  {5, 2, 4, 33, 31},
                                       {3, 2, 6, 64, 65}, {2, 1, 1, 130, 33}, {2, 1, 1, 1030, 2},
                                       {4, 2, 4, 128, 64}};
    (void)c;
    return s < COUNT(shapes) && rule_of(shapes[s], a);
}

int definition_delta_rule_chunk(definition_case *c, size_t s, sb_delta_rule_chunk_args *a)
{
    static const size_t shapes[][5] = {{1, 1, 1, 4, 3},  {5, 1, 2, 8, 9},  {63, 1, 1, 8, 5},
                                       {64, 1, 1, 7, 8}, {65, 2, 2, 8, 8}, {130, 1, 2, 5, 7},
                                       {9, 1, 1, 70, 20}};
    (void)c;
    return s < COUNT(shapes) && rule_of(shapes[s], a);
}

int definition_gated_rmsnorm(definition_case *c, size_t s, sb_gated_rmsnorm_args *a)
{
    static const size_t shapes[][3] = {
        {1, 1, 1}, {3, 2, 16}, {2, 3, 257}, {9, 4, 128}, {20, 3, 64}};
    if (s >= COUNT(shapes))
        return 0;
    const size_t *n = shapes[s];
    *a = (sb_gated_rmsnorm_args){
        .weight = vector(c, n[2]), .eps = 1e-6f, .rows = n[0], .heads = n[1], .n = n[2]};
    return 1;
}

int definition_attention(definition_case *c, size_t s, sb_attention_args *a)
{
    static const float scales[] = {0, 1, 0x1.3p-4f};
    static const size_t shapes[][5] = {{1, 0, 1, 1, 1},    {1, 0, 2, 1, 8},    {3, 0, 4, 2, 16},
                                       {5, 7, 6, 3, 33},   {2, 63, 4, 2, 64},  {65, 0, 2, 1, 8},
                                       {1, 300, 4, 1, 32}, {3, 2047, 2, 2, 5}, {2, 4100, 1, 1, 3},
                                       {3, 250, 4, 2, 32}};
    if (s >= COUNT(shapes))
        return 0;
    const size_t *n = shapes[s];
    *a = (sb_attention_args){.rows = n[0],
                             .first = n[1],
                             .heads = n[2],
                             .kv_heads = n[3],
                             .hd = n[4],
                             .key_scale = scales[c->variant % 3],
                             .value_scale = scales[c->variant / 3 % 3]};
    return 1;
}

int definition_split_gate(definition_case *c, size_t s, sb_split_gate_args *a)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {3, 2, 5}, {7, 4, 64}};
    (void)c;
    if (s >= COUNT(shapes))
        return 0;
    *a = (sb_split_gate_args){.rows = shapes[s][0], .heads = shapes[s][1], .hd = shapes[s][2]};
    return 1;
}

/* Sizes around the pieces in which elements are processed, and one size that threads share. */
static const size_t counts[] = {1, 7, 255, 256, 257, 700, 5000};

int definition_attn_gate(definition_case *c, size_t s, sb_attn_gate_args *a)
{
    (void)c;
    if (s >= COUNT(counts))
        return 0;
    *a = (sb_attn_gate_args){.count = counts[s]};
    return 1;
}

int definition_router(definition_case *c, size_t s, sb_router_args *a)
{
    static const size_t shapes[][3] = {{1, 1, 1},   {3, 8, 2},    {2, 33, 5},
                                       {4, 128, 8}, {2, 512, 10}, {2, 6, 6}};
    if (s >= COUNT(shapes))
        return 0;
    *a = (sb_router_args){.rows = shapes[s][0],
                          .experts = shapes[s][1],
                          .kept = shapes[s][2],
                          .renormalise = c->variant % 2 == 0};
    return 1;
}

int definition_swiglu(definition_case *c, size_t s, sb_swiglu_args *a)
{
    if (s >= COUNT(counts))
        return 0;
    *a = (sb_swiglu_args){.count = counts[s], .kind = (sb_mlp_kind)(c->variant % 3)};
    return 1;
}

/* For each row, `kept` distinct ids of 16 experts. */
static uint32_t *some_ids(definition_case *c, size_t rows, size_t kept)
{
    uint32_t *ids = definition_room(c, rows * kept, sizeof *ids);
    for (size_t t = 0; t < rows; t++) {
        const uint32_t first = below(c, 16), step = 2 * below(c, 8) + 1;
        for (size_t i = 0; i < kept; i++)
            ids[t * kept + i] = (first + (uint32_t)i * step) % 16;
    }
    return ids;
}

int definition_moe_combine(definition_case *c, size_t s, sb_moe_combine_args *a)
{
    static const size_t shapes[][2] = {{1, 1}, {2, 255}, {8, 257}, {10, 64}, {8, 600}};
    if (s >= COUNT(shapes))
        return 0;
    *a = (sb_moe_combine_args){
        .ids = some_ids(c, 1, shapes[s][0]), .kept = shapes[s][0], .n = shapes[s][1]};
    return 1;
}

int definition_add(definition_case *c, size_t s, sb_add_args *a)
{
    (void)c;
    if (s >= COUNT(counts))
        return 0;
    *a = (sb_add_args){.count = counts[s]};
    return 1;
}

/* Experts that many rows choose, and experts that one row chooses. */
int definition_experts(definition_case *c, size_t s, sb_expert_linear_args a[2])
{
    static const size_t shapes[][4] = {
        {1, 1, 5, 32}, {1, 8, 16, 64}, {3, 2, 17, 66}, {9, 4, 20, 32}, {5, 3, 70, 32}};
    enum { EXPERTS = 16 };
    if (s >= COUNT(shapes) * KINDS)
        return 0;
    const size_t *n = shapes[s / KINDS], rows = n[0], kept = n[1];
    uint32_t *ids = some_ids(c, rows, kept);
    for (size_t p = 0; p < 2; p++) {
        sb_matrix *w = definition_room(c, EXPERTS, sizeof *w);
        const sb_matrix *all = stored(c, s % KINDS, EXPERTS * n[2], n[3]);
        const size_t each = c->variant % 2 ? kept : 1;
        for (size_t e = 0; e < EXPERTS; e++) {
            w[e] = *all;
            w[e].rows = (uint32_t)n[2];
            w[e].first_row = (uint32_t)(e * n[2]);
        }
        a[p] = (sb_expert_linear_args){.weight = w,
                                       .stride = sizeof *w,
                                       .experts = EXPERTS,
                                       .ids = ids,
                                       .rows = rows,
                                       .kept = kept,
                                       .each = each,
                                       .kind = c->variant % 3 ? SB_LINEAR_expert_in
                                                              : SB_LINEAR_expert_down};
        a[p].in = definition_values(c, rows * kept / each * w->cols);
    }
    return 1;
}
