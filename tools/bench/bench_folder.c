#include "tools/bench/bench_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/container/writer.h"
#include "ref/formats/format.h"
#include "tools/make/scheme.h"

enum { LAYERS = 2, EXPERTS = 64, MATRICES = 3, WIDE = 2048, NARROW = 512, TILE = 128, PARTS = 4 };
#define VALUES ((size_t)WIDE * NARROW)

static const sb_scheme schemes[] = {SB_SCHEME_plain, SB_SCHEME_nvfp4_ct, SB_SCHEME_fp8_block};
static const char *const names[] = {"bf16", "nvfp4", "fp8"};
static const char *const matrices[MATRICES] = {"gate_proj", "up_proj", "down_proj"};

const char *sb_bench_format_name(sb_bench_format format)
{
    return names[format];
}

/* A drawn matrix as its parts; one of no rows of tiles is the same for every expert. */
typedef struct part {
    sb_scheme_tensor tensor;
    unsigned char *bytes;
    size_t size;
} part;

typedef struct job {
    sb_scheme scheme;
    part parts[LAYERS][MATRICES][PARTS];
} job;

static uint64_t rows_of(unsigned m)
{
    return m == 2 ? WIDE : NARROW;
}

static int part_at(sb_scheme scheme, size_t i, unsigned m, sb_scheme_tensor *out)
{
    if (scheme != SB_SCHEME_plain)
        return sb_scheme_tensor_at(scheme, i, rows_of(m), VALUES / rows_of(m), 0, out);
    *out = (sb_scheme_tensor){"weight", SB_DTYPE_BF16, 2, {rows_of(m), VALUES / rows_of(m)}, 0};
    return i == 0;
}

static void draw(unsigned layer, unsigned m, float *weights, unsigned char *bf16)
{
    char path[32];
    snprintf(path, sizeof path, "bench %u %u", layer, m);
    uint64_t key = sb_rng_key(42, path);
    for (size_t i = 0; i < VALUES; i++)
        weights[i] = 0.02f * sb_rng_normal(key, i);
    sb_encode(SB_FORMAT_bf16, weights, VALUES, bf16);
    sb_decode(SB_FORMAT_bf16, bf16, VALUES, weights);
}

static const part *part_with(const part *parts, sb_content content)
{
    for (unsigned i = 0; i < PARTS; i++)
        if (parts[i].bytes && parts[i].tensor.content == content)
            return &parts[i];
    return NULL;
}

/* Band by band: a quantizer takes no more rows than share a scale. */
static void quantize(sb_scheme scheme, unsigned m, const float *weights, part *parts)
{
    const sb_scheme_info *info = sb_scheme_at(scheme);
    const part *codes = part_with(parts, SB_CONTENT_codes);
    const part *scales = part_with(parts, SB_CONTENT_scales);
    const part *factor = part_with(parts, SB_CONTENT_factor);
    const part *input = part_with(parts, SB_CONTENT_input);
    uint64_t rows = rows_of(m);
    sb_band band = {.rows = info->band, .cols = VALUES / rows};
    if (info->factor)
        band.factor = info->factor(sb_largest(weights, VALUES), band.rule);
    if (factor)
        sb_store_u32(factor->bytes, sb_bits_f32(band.factor));
    if (input)
        sb_store_u32(input->bytes, sb_bits_f32(100.0f));
    for (uint64_t row = 0; row < rows; row += info->band) {
        band.weights = weights + row * band.cols;
        band.codes = codes->bytes + row * (codes->size / rows);
        band.scales = scales->bytes + row * scales->size / rows;
        info->quantize(&band);
    }
}

static sb_status make_matrix(job *j, unsigned layer, unsigned m, float *weights, sb_error *err)
{
    part *parts = j->parts[layer][m];
    unsigned char *bf16 = sb_alloc(VALUES, 2);
    sb_scheme_tensor t;
    for (unsigned i = 0; bf16 && i < PARTS && part_at(j->scheme, i, m, &t); i++) {
        uint64_t bytes = 0;
        sb_status status = sb_dtype_bytes(t.dtype, t.rank, t.shape, &bytes, err);
        if (status)
            return status;
        parts[i] = (part){t, sb_alloc(bytes, 1), (size_t)bytes};
        if (!parts[i].bytes)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for a matrix");
    }
    if (!bf16)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a matrix");
    draw(layer, m, weights, bf16);
    if (j->scheme == SB_SCHEME_plain)
        memcpy(parts[0].bytes, bf16, parts[0].size);
    else
        quantize(j->scheme, m, weights, parts);
    free(bf16);
    return SB_OK;
}

/* Tile (r, c) of the expert is tile (r + down, c + right) of what was drawn. */
static sb_status fill(void *ctx, const sb_tensor *t, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    job *j = ctx;
    unsigned layer, expert, m = 0, i = 0;
    if (sscanf(t->name, "model.layers.%u.mlp.experts.%u.", &layer, &expert) != 2 || first != 0)
        return sb_fail(err, SB_ERR_INPUT, "%s: not a matrix of the benchmark", t->name);
    while (!strstr(t->name, matrices[m]))
        m++;
    part *parts = j->parts[layer][m];
    while (strcmp(strrchr(t->name, '.') + 1, parts[i].tensor.suffix) != 0)
        i++;
    size_t down = rows_of(m) / TILE, right = VALUES / rows_of(m) / TILE;
    size_t rows = parts[i].tensor.rank == 2 ? (size_t)parts[i].tensor.shape[0] : 1;
    size_t row = count / rows, shift = expert / down % right * (row / right);
    if (rows == 1) {
        memcpy(bytes, parts[i].bytes, count);
        return SB_OK;
    }
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *from =
            parts[i].bytes + (r + expert % down * (rows / down)) % rows * row;
        memcpy(bytes + r * row, from + shift, row - shift);
        memcpy(bytes + r * row + row - shift, from, shift);
    }
    return SB_OK;
}

static sb_status declare(const job *j, sb_writer *w, sb_error *err)
{
    sb_status status = SB_OK;
    char name[128];
    for (unsigned n = 0; n < LAYERS * EXPERTS * MATRICES && !status; n++) {
        unsigned layer = n / EXPERTS / MATRICES, expert = n / MATRICES % EXPERTS, m = n % MATRICES;
        const part *parts = j->parts[layer][m];
        for (unsigned i = 0; i < PARTS && parts[i].bytes && !status; i++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.%s.%s", layer, expert,
                     matrices[m], parts[i].tensor.suffix);
            status = sb_writer_add(w, name, parts[i].tensor.dtype, parts[i].tensor.rank,
                                   parts[i].tensor.shape, err);
        }
    }
    return status;
}

sb_status sb_bench_folder(const char *folder, sb_bench_format format, sb_error *err)
{
    static job j;
    sb_writer *w = NULL;
    float *weights = sb_alloc(VALUES, sizeof *weights);
    sb_status status = weights ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    memset(&j, 0, sizeof j);
    j.scheme = schemes[format];
    for (unsigned n = 0; n < LAYERS * MATRICES && !status; n++)
        status = make_matrix(&j, n / MATRICES, n % MATRICES, weights, err);
    if (!status)
        status = sb_writer_new(folder, 0, SB_WRITER_REPLACE, &w, err);
    if (!status)
        status = declare(&j, w, err);
    if (!status)
        status = sb_writer_run(w, fill, &j, err);
    sb_writer_free(w);
    free(weights);
    for (unsigned n = 0; n < LAYERS * MATRICES; n++)
        for (unsigned i = 0; i < PARTS; i++)
            free(j.parts[n / MATRICES][n % MATRICES][i].bytes);
    return status;
}
