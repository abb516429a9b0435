#include "tests/quant/requantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tests/lib/cmocka.h"

enum { BLOCK = 128 };

const quantizer_row *quantizer_row_at(size_t i)
{
    static const quantizer_row rows[] = {
#define SB_QUANTIZER(folder, source, scheme, group, rule, view, partners, only, layers, known)     \
    {folder,                                                                                       \
     source,                                                                                       \
     SB_SCHEME_##scheme,                                                                           \
     group,                                                                                        \
     SB_SCALE_RULE_##rule,                                                                         \
     VIEW_##view,                                                                                  \
     PARTNERS_##partners,                                                                          \
     only,                                                                                         \
     layers,                                                                                       \
     KNOWN_##known},
#include "tests/quant/quantizers.def"
#undef SB_QUANTIZER
    };
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

/* ModelOpt's blocks are no scheme: their scales have four dimensions, so that torch keeps the
 * quotient in binary32, which it rounds to BF16 under the scalar of a tensor (G-13). */
static void quotient_of_blocks(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols; i++)
        b->codes[i] = sb_f32_to_e4m3(b->weights[i] / b->factor);
}

formula formula_of(const quantizer_row *row)
{
    const sb_scheme_info *info = sb_scheme_at(row->scheme);
    return (formula){.factor = info->factor,
                     .quantize = row->view == VIEW_BLOCKS ? quotient_of_blocks : info->quantize,
                     .fused = info->fused,
                     .partners = row->partners,
                     .rule = row->rule,
                     .group = row->group};
}

static float *decoded(const sb_tensor *t, uint64_t first, uint64_t count)
{
    float *weights = malloc(count * sizeof *weights);
    assert_non_null(weights);
    assert_int_equal(t->dtype, SB_DTYPE_BF16);
    assert_true((first + count) * 2 <= t->bytes);
    sb_decode(SB_FORMAT_bf16, t->data + 2 * first, count, weights);
    return weights;
}

/* "P.experts.3.up_proj" is a part of "P.experts.gate_up_proj" (E, gate rows and up rows, K). */
static source_layer expert_layer(const sb_checkpoint *source, const char *module)
{
    source_layer layer = {0};
    const char *experts = strstr(module, ".experts.");
    if (!experts)
        return layer;
    char *end, name[512];
    uint64_t e = strtoull(experts + strlen(".experts."), &end, 10);
    int down = strcmp(end, ".down_proj") == 0;
    snprintf(name, sizeof name, "%.*s.experts.%s", (int)(experts - module), module,
             down ? "down_proj" : "gate_up_proj");
    const sb_tensor *t = sb_checkpoint_find(source, name);
    if (!t)
        return layer;
    assert_true(t->rank == 3 && e < t->shape[0]);
    layer.rows = down ? t->shape[1] : t->shape[1] / 2;
    layer.cols = t->shape[2];
    uint64_t row = e * t->shape[1] + (strcmp(end, ".up_proj") == 0 ? layer.rows : 0);
    layer.weights = decoded(t, row * layer.cols, layer.rows * layer.cols);
    return layer;
}

source_layer source_layer_of(const sb_checkpoint *source, const char *module)
{
    char name[512];
    snprintf(name, sizeof name, "%s.weight", module);
    const sb_tensor *t = sb_checkpoint_find(source, name);
    if (!t)
        return expert_layer(source, module);
    assert_int_equal(t->rank, 2);
    source_layer layer = {.rows = t->shape[0], .cols = t->shape[1]};
    layer.weights = decoded(t, 0, layer.rows * layer.cols);
    return layer;
}

/* --- the largest magnitude that fused layers share -------------------------------------------- */

static const char *const families[][4] = {
    {"q_proj", "k_proj", "v_proj", NULL},
    {"gate_proj", "up_proj", NULL, NULL},
    {"in_proj_qkv", "in_proj_z", NULL, NULL}, /* only with PARTNERS_LINEAR */
};

static int has(const char *const *family, const char *projection)
{
    for (; *family; family++)
        if (strcmp(*family, projection) == 0)
            return 1;
    return 0;
}

static const char *const *family_of(const formula *how, const char *module, const char *projection)
{
    if (how->partners == PARTNERS_LINEAR && has(families[2], projection))
        return families[2];
    if (how->fused == SB_FUSED_NOBODY)
        return NULL;
    if (how->fused == SB_FUSED_EXPERTS && !strstr(module, ".experts."))
        return NULL;
    for (size_t f = 0; f < 2; f++)
        if (has(families[f], projection))
            return families[f];
    return NULL;
}

static float shared_amax(const formula *how, const sb_checkpoint *source, const char *module,
                         const source_layer *layer)
{
    float amax = sb_largest(layer->weights, (size_t)(layer->rows * layer->cols));
    const char *projection = strrchr(module, '.') + 1;
    const char *const *family = family_of(how, module, projection);
    for (; family && *family; family++) {
        char name[512];
        snprintf(name, sizeof name, "%.*s%s", (int)(projection - module), module, *family);
        source_layer partner = source_layer_of(source, name);
        if (!partner.weights)
            fail_msg("no %s, the partner of %s", name, module);
        float a = sb_largest(partner.weights, (size_t)(partner.rows * partner.cols));
        amax = a > amax ? a : amax;
        free(partner.weights);
    }
    return amax;
}

/* --- bands ------------------------------------------------------------------------------------ */

static void allocate(const quantizer_row *row, const formula *how, const sb_band *all,
                     requantized *result)
{
    sb_scheme_tensor part;
    sb_error err = {""};
    for (size_t i = 0; sb_scheme_tensor_at(row->scheme, i, all->rows, all->cols, how->group, &part);
         i++) {
        if (sb_dtype_bytes(part.dtype, part.rank, part.shape, &result->bytes[part.content], &err))
            fail_msg("%s", err.text);
        result->part[part.content] = calloc(result->bytes[part.content], 1);
        assert_non_null(result->part[part.content]);
    }
}

/* Quantizes the rows in the bands of the scheme, like the writer of a checkpoint. */
static void quantize_bands(const quantizer_row *row, const formula *how, const sb_band *all,
                           requantized *result)
{
    uint64_t step = sb_scheme_at(row->scheme)->band;
    step = step ? step : all->rows;
    uint64_t bands = (all->rows + step - 1) / step;
    for (uint64_t i = 0; i < bands; i++) {
        sb_band b = *all;
        b.weights += i * step * all->cols;
        b.rows = all->rows - i * step < step ? all->rows - i * step : step;
        /* with more than one band, every row of a tensor has the same number of bytes */
        b.codes = result->part[SB_CONTENT_codes] +
                  i * step * (result->bytes[SB_CONTENT_codes] / all->rows);
        if (result->part[SB_CONTENT_scales])
            b.scales =
                result->part[SB_CONTENT_scales] + i * (result->bytes[SB_CONTENT_scales] / bands);
        b.zeros = result->part[SB_CONTENT_zeros];
        how->quantize(&b);
    }
}

/* One factor for each block of a matrix whose sides are multiples of BLOCK; fewer rows than BLOCK
 * are one block. */
static void quantize_blocks(const formula *how, const sb_band *all, requantized *result)
{
    static float weights[BLOCK * BLOCK];
    static unsigned char codes[BLOCK * BLOCK];
    uint64_t rows = all->rows < BLOCK ? all->rows : BLOCK, across = all->cols / BLOCK;
    uint64_t count = all->rows / rows * across;
    assert_true(all->rows % rows == 0 && all->cols % BLOCK == 0);
    free(result->part[SB_CONTENT_factor]);
    result->bytes[SB_CONTENT_factor] = 4 * count;
    result->part[SB_CONTENT_factor] = malloc(4 * count);
    assert_non_null(result->part[SB_CONTENT_factor]);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t first = i / across * BLOCK * all->cols + i % across * BLOCK;
        sb_band b = {
            .weights = weights, .rows = rows, .cols = BLOCK, .rule = how->rule, .codes = codes};
        for (uint64_t r = 0; r < rows; r++)
            memcpy(weights + r * BLOCK, all->weights + first + r * all->cols,
                   BLOCK * sizeof *weights);
        b.factor = how->factor(sb_largest(weights, (size_t)(rows * BLOCK)), how->rule);
        sb_store_u32(result->part[SB_CONTENT_factor] + 4 * i, sb_bits_f32(b.factor));
        how->quantize(&b);
        for (uint64_t r = 0; r < rows; r++)
            memcpy(result->part[SB_CONTENT_codes] + first + r * all->cols, codes + r * BLOCK,
                   BLOCK);
    }
}

requantized requantize(const quantizer_row *row, const formula *how, const sb_checkpoint *source,
                       const char *module, const source_layer *layer)
{
    requantized result = {0};
    sb_band all = {.weights = layer->weights,
                   .rows = layer->rows,
                   .cols = layer->cols,
                   .group = how->group,
                   .rule = how->rule};
    if (row->view == VIEW_ROW) {
        all.cols *= all.rows;
        all.rows = 1;
    }
    allocate(row, how, &all, &result);
    if (row->view == VIEW_BLOCKS) {
        quantize_blocks(how, &all, &result);
        return result;
    }
    if (how->factor) {
        all.factor = how->factor(shared_amax(how, source, module, layer), how->rule);
        sb_store_u32(result.part[SB_CONTENT_factor], sb_bits_f32(all.factor));
    }
    quantize_bands(row, how, &all, &result);
    return result;
}

void requantized_free(requantized *result)
{
    for (size_t i = 0; i <= SB_CONTENT_kv; i++)
        free(result->part[i]);
    *result = (requantized){0};
}
