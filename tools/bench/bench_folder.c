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

enum { LAYERS = 2, EXPERTS = 64, MATRICES = 3, WIDE = 2048, NARROW = 512, PARTS = 4 };
#define VALUES ((size_t)WIDE * NARROW)

static const sb_scheme schemes[] = {SB_SCHEME_plain, SB_SCHEME_nvfp4_ct, SB_SCHEME_fp8_block};
static const char *const names[] = {"bf16", "nvfp4", "fp8"};
static const char *const matrices[MATRICES] = {"gate_proj", "up_proj", "down_proj"};

const char *sb_bench_format_name(sb_bench_format format)
{
    return names[format];
}

/* A part of a stored matrix. */
typedef struct part {
    sb_scheme_tensor tensor;
    unsigned char *bytes;
    size_t size;
} part;

/* The matrix being written, with the name `path`. The parts of gate_proj and up_proj have the same
 * form. */
typedef struct job {
    sb_scheme scheme;
    float *weights;
    unsigned char *bf16;
    part parts[MATRICES][PARTS];
    char path[128];
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

static const part *part_with(const part *parts, sb_content content)
{
    for (unsigned i = 0; i < PARTS; i++)
        if (parts[i].bytes && parts[i].tensor.content == content)
            return &parts[i];
    return NULL;
}

/* Band by band: a quantizer takes only rows that share a scale. */
static void quantize(sb_scheme scheme, unsigned m, const float *weights, const part *parts)
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

static sb_status ask_for_room(job *j, sb_error *err)
{
    sb_scheme_tensor t;
    j->weights = sb_alloc(VALUES, sizeof *j->weights);
    j->bf16 = sb_alloc(VALUES, 2);
    int all = j->weights && j->bf16;
    for (unsigned m = 0; m < MATRICES && all; m++)
        for (unsigned i = 0; i < PARTS && all && part_at(j->scheme, i, m, &t); i++) {
            uint64_t bytes = 0;
            sb_status status = sb_dtype_bytes(t.dtype, t.rank, t.shape, &bytes, err);
            if (status)
                return status;
            j->parts[m][i] = (part){t, sb_alloc(bytes, 1), (size_t)bytes};
            all = j->parts[m][i].bytes != NULL;
        }
    return all ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a matrix");
}

static void free_room(job *j)
{
    free(j->weights);
    free(j->bf16);
    for (unsigned m = 0; m < MATRICES; m++)
        for (unsigned i = 0; i < PARTS; i++)
            free(j->parts[m][i].bytes);
}

/* Draws the weights by the name alone, so that they are the same in every format. */
static void draw(job *j, unsigned m)
{
    const uint64_t key = sb_rng_key(42, j->path);
    for (size_t i = 0; i < VALUES; i++)
        j->weights[i] = 0.02f * sb_rng_normal(key, i);
    sb_encode(SB_FORMAT_bf16, j->weights, VALUES, j->bf16);
    if (j->scheme == SB_SCHEME_plain) {
        memcpy(j->parts[m][0].bytes, j->bf16, j->parts[m][0].size);
        return;
    }
    sb_decode(SB_FORMAT_bf16, j->bf16, VALUES, j->weights);
    quantize(j->scheme, m, j->weights, j->parts[m]);
}

/* The parts of a matrix come one after the other. */
static sb_status fill(void *ctx, const sb_tensor *t, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    job *j = ctx;
    const char *suffix = strrchr(t->name, '.');
    unsigned m = 0, i = 0;
    while (m < MATRICES && !strstr(t->name, matrices[m]))
        m++;
    if (m == MATRICES || first != 0 || !suffix)
        return sb_fail(err, SB_ERR_INPUT, "%s: not a matrix of the benchmark", t->name);
    const size_t path = (size_t)(suffix - t->name);
    if (strncmp(j->path, t->name, path) != 0 || j->path[path]) {
        snprintf(j->path, sizeof j->path, "%.*s", (int)path, t->name);
        draw(j, m);
    }
    while (strcmp(suffix + 1, j->parts[m][i].tensor.suffix) != 0)
        i++;
    memcpy(bytes, j->parts[m][i].bytes, count);
    return SB_OK;
}

static sb_status declare(const job *j, sb_writer *w, sb_error *err)
{
    sb_status status = SB_OK;
    char name[128];
    for (unsigned n = 0; n < LAYERS * EXPERTS * MATRICES && !status; n++) {
        unsigned layer = n / EXPERTS / MATRICES, expert = n / MATRICES % EXPERTS, m = n % MATRICES;
        const part *parts = j->parts[m];
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
    job j = {.scheme = schemes[format]};
    sb_writer *w = NULL;
    sb_status status = ask_for_room(&j, err);
    if (!status)
        status = sb_writer_new(folder, 0, SB_WRITER_REPLACE, &w, err);
    if (!status)
        status = declare(&j, w, err);
    if (!status)
        status = sb_writer_run(w, fill, &j, err);
    sb_writer_free(w);
    free_room(&j);
    return status;
}
