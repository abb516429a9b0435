/* kld.c - the base file of llama.cpp's perplexity tool (--kl-divergence-base). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "tools/dump/kld.h"
#include "tools/dump/logprobs.h"
#include "tools/dump/store.h"

enum { HEAD = 20, MAGIC = 8, CODES = 65535 };

struct sb_kld {
    sb_map map; /* size 0 if the bytes belong to the caller */
    const unsigned char *bytes;
    size_t size;
    const char *path;
    const sb_dump_options *options;
    size_t context, vocabulary, chunks;
    size_t first, rows; /* of a chunk: the first stored row, and the number of stored rows */
    size_t row_bytes;
    const unsigned char *data; /* row 0 of chunk 0 */
    double clamp;              /* 16 or 24; 0: no row was clamped */
};

static int is_kld(const char *path)
{
    return sb_dump_begins(path, "_logits_", MAGIC);
}

static const unsigned char *row_at(const sb_kld *k, size_t chunk, size_t row)
{
    return k->data + (chunk * k->rows + row) * k->row_bytes;
}

static uint32_t token_at(const sb_kld *k, size_t chunk, size_t i)
{
    return sb_load_u32(k->bytes + HEAD + 4 * (chunk * k->context + i));
}

/* --- opening ---------------------------------------------------------------------------------- */

static sb_status read_size(const sb_kld *k, size_t at, const char *name, size_t least, size_t most,
                           size_t *out, sb_error *err)
{
    int32_t value = (int32_t)sb_load_u32(k->bytes + at);
    *out = value > 0 ? (size_t)value : 0;
    if (*out >= least && *out <= most)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "%s: %s is %ld, expected %zu to %zu", SB_SHOW(k->path), name,
                   (long)value, least, most);
}

/* J-30: "n_ctx - 1 - floor(n_ctx / 2) rows" */
static sb_status check_sizes(sb_kld *k, sb_error *err)
{
    sb_status status = k->size < HEAD
                           ? sb_fail(err, SB_ERR_INPUT, "%s: has %zu bytes, expected %d and more",
                                     SB_SHOW(k->path), k->size, HEAD)
                           : SB_OK;
    if (!status)
        status = read_size(k, 8, "n_ctx", 3, SB_POSITION_LIMIT, &k->context, err);
    if (!status)
        status = read_size(k, 12, "n_vocab", 1, SB_DUMP_MAX_VOCAB, &k->vocabulary, err);
    if (!status)
        status = read_size(k, 16, "n_chunk", 1, SB_DUMP_MAX_SEQUENCES, &k->chunks, err);
    if (status)
        return status;
    k->first = k->context / 2;
    k->rows = k->context - 1 - k->first;
    k->row_bytes = 2 * (2 * ((k->vocabulary + 1) / 2) + 4);
    /* at most 2^20 (2^26 + 2^23 2^26) + 20: below 2^64 */
    uint64_t tokens = 4 * (uint64_t)k->context, values = (uint64_t)k->rows * k->row_bytes;
    uint64_t expected = HEAD + (uint64_t)k->chunks * tokens;
    if (values <= (UINT64_MAX - expected) / k->chunks)
        expected += (uint64_t)k->chunks * values;
    else
        expected = UINT64_MAX;
    if (k->size != expected)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: has %zu bytes; %zu chunks of %zu tokens, %zu of them with %zu "
                       "log-probabilities, have %llu",
                       SB_SHOW(k->path), k->size, k->chunks, k->context, k->rows, k->vocabulary,
                       (unsigned long long)expected);
    k->data = k->bytes + HEAD + (size_t)(k->chunks * tokens);
    return SB_OK;
}

/* The range from the lowest to the highest code, in nats; NaN if the writer stored NaN. */
static double span_of(const unsigned char *row)
{
    return (double)CODES * (double)sb_f32_from_bits(sb_load_u32(row));
}

static int is_near(double span, double clamp)
{
    return span > clamp - 1e-3 && span < clamp + 1e-3;
}

/* J-31: "no row spans more than 16 nats in a file of llama.cpp, and 24 in one of ik_llama.cpp" */
static sb_status find_clamp(sb_kld *k, sb_error *err)
{
    double widest = 0;
    for (size_t chunk = 0; chunk < k->chunks; chunk++)
        for (size_t row = 0; row < k->rows; row++) {
            double span = span_of(row_at(k, chunk, row));
            if (span < 0 || (span >= 24 + 1e-3 && span < INFINITY))
                return sb_fail(err, SB_ERR_INPUT,
                               "%s: chunk %zu, row %zu: the codes span %.6g nats, expected at most "
                               "16 or 24",
                               SB_SHOW(k->path), chunk, row, span);
            widest = span > widest && span < INFINITY ? span : widest;
        }
    k->clamp = widest >= 16 + 1e-3 ? 24 : is_near(widest, 16) ? 16 : 0;
    return SB_OK;
}

static sb_status check_tokens(const sb_kld *k, sb_error *err)
{
    sb_status status = SB_OK;
    uint32_t *ids = sb_alloc(k->context, sizeof *ids);
    char where[320];
    if (!ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    if (k->options->sequence_count > 1 && k->options->sequence_count != k->chunks)
        status = sb_fail(err, SB_ERR_INPUT, "%s: has %zu chunks, but %zu sequences are given",
                         SB_SHOW(k->path), k->chunks, k->options->sequence_count);
    for (size_t chunk = 0; chunk < k->chunks && !status; chunk++) {
        for (size_t i = 0; i < k->context; i++)
            ids[i] = token_at(k, chunk, i);
        snprintf(where, sizeof where, "%s: chunk %zu", SB_SHOW(k->path), chunk);
        for (size_t i = 0; i < k->context && !status; i++)
            if (ids[i] >= k->vocabulary)
                status = sb_fail(err, SB_ERR_INPUT, "%s: token %zu is %ld; the vocabulary has %zu",
                                 where, i, (long)(int32_t)ids[i], k->vocabulary);
        if (!status)
            status = sb_dump_check_ids(k->options, chunk, ids, k->context, where, err);
    }
    free(ids);
    return status;
}

void sb_kld_free(void *state)
{
    sb_kld *k = state;
    if (!k)
        return;
    sb_map_close(&k->map);
    free(k);
}

sb_status sb_kld_parse(const unsigned char *bytes, size_t size, const char *file,
                       const sb_dump_options *options, sb_trace_head *head, sb_kld **out,
                       sb_error *err)
{
    sb_kld *k = sb_alloc(1, sizeof *k);
    if (!k)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", SB_SHOW(file));
    k->bytes = bytes;
    k->size = size;
    k->path = file;
    k->options = options;
    sb_status status = SB_OK;
    if (size < MAGIC || memcmp(bytes, "_logits_", MAGIC) != 0)
        status = sb_fail(err, SB_ERR_INPUT, "%s: does not begin with \"_logits_\"", SB_SHOW(file));
    if (!status)
        status = check_sizes(k, err);
    if (!status)
        status = check_tokens(k, err);
    if (!status)
        status = find_clamp(k, err);
    head->vocab_size = (uint32_t)k->vocabulary;
    snprintf(head->engine, sizeof head->engine, "%s",
             k->clamp == 24   ? "ik_llama.cpp (KLD base, 24 nats)"
             : k->clamp == 16 ? "llama.cpp (KLD base, 16 nats)"
                              : "llama.cpp (KLD base)");
    if (status)
        sb_kld_free(k);
    else
        *out = k;
    return status;
}

static sb_status open_kld(const char *path, const sb_dump_options *options, sb_trace_head *head,
                          void **state, sb_error *err)
{
    sb_map map = {.size = 0};
    sb_kld *k = NULL;
    sb_status status = sb_map_open(path, &map, err);
    if (status)
        return status;
    status = sb_kld_parse(map.data, map.size, path, options, head, &k, err);
    if (status)
        sb_map_close(&map);
    else
        k->map = map;
    *state = k;
    return status;
}

/* --- steps ------------------------------------------------------------------------------------ */

/* J-32: "half the distance of two codes and 2^-24 (4 S + 2 |m|)" */
static void decode(const sb_kld *k, const unsigned char *row, float *out, float *limits)
{
    double scale = (double)sb_f32_from_bits(sb_load_u32(row));
    double least = (double)sb_f32_from_bits(sb_load_u32(row + 4)), span = scale * (double)CODES;
    for (size_t i = 0; i < k->vocabulary; i++)
        out[i] = (float)(scale * sb_load_u16(row + 8 + 2 * i) + least);
    limits[0] = (float)(scale / 2 + 0x1p-24 * (4 * span + 2 * (least < 0 ? -least : least)));
    limits[1] = -0x1.fffffep127f;
    /* J-31: "Code 0 of a row with that span is the floor" */
    if (k->clamp > 0 && is_near(span, k->clamp))
        limits[1] = (float)least;
}

/* Rows [from, to) of a chunk. Rows from k->first on have log-probabilities, except the last row of
 * the chunk. */
static sb_status make_step(const sb_kld *k, size_t chunk, size_t from, size_t to, sb_step *out,
                           sb_error *err)
{
    size_t begin = from > k->first ? from : k->first, end = to < k->context ? to : to - 1;
    float *values = NULL, *limits = NULL;
    sb_status status = SB_OK;
    for (size_t i = from; i < to; i++) {
        sb_step_row *row = sb_step_add_row(out);
        if (!row)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for rows");
        *row =
            (sb_step_row){(uint32_t)chunk, SB_NO_SLOT, i, token_at(k, chunk, i), SB_CALL_prompt, 0};
    }
    if (begin >= end)
        return SB_OK;
    status = sb_dump_logits_rows(out, begin - from, end - begin, err);
    if (!status)
        status = sb_dump_add(out, "logprobs", end - begin, k->vocabulary, &values, err);
    if (!status)
        status = sb_dump_add(out, "logprob_limits", end - begin, 2, &limits, err);
    for (size_t i = begin; i < end && !status; i++)
        decode(k, row_at(k, chunk, i - k->first), values + (i - begin) * k->vocabulary,
               limits + 2 * (i - begin));
    return status;
}

sb_status sb_kld_play(void *state, sb_step_fn take, void *ctx, sb_error *err)
{
    const sb_kld *k = state;
    size_t most = sb_dump_rows_of_step(k->vocabulary);
    sb_status status = SB_OK;
    for (size_t chunk = 0; chunk < k->chunks; chunk++)
        for (size_t from = 0, rows; from < k->context && !status; from += rows) {
            sb_step step = {.number = 0};
            rows = sb_dump_next_rows(k->context - from, most);
            status = make_step(k, chunk, from, from + rows, &step, err);
            if (!status)
                status = take(ctx, &step, err);
            sb_step_clear(&step);
        }
    return status;
}

const sb_dump_reader sb_dump_kld = {.name = "kld",
                                    .what = "KLD base file of llama.cpp or ik_llama.cpp",
                                    .is = is_kld,
                                    .open = open_kld,
                                    .play = sb_kld_play,
                                    .close = sb_kld_free};
