#include "tools/make/codes.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"

enum { EMBEDDING_PERCENT = 42, HIDDEN_PERCENT = 38, DEFAULT_SEED = 42 };

/* A random order of all ids (Fisher-Yates), closed to one cycle: in a text of any length, no id
 * repeats before all others have occurred. G-3: "a seeded permutation bigram" */
static void draw_cycle(uint64_t seed, sb_codes *codes, uint32_t *order)
{
    uint64_t key = sb_rng_key(seed, "make/predictable/cycle");
    for (uint32_t i = 0; i < codes->used; i++)
        order[i] = i;
    for (uint32_t i = codes->used - 1; i > 0; i--) {
        uint32_t j = sb_rng_below(key, i, i + 1);
        uint32_t id = order[i];
        order[i] = order[j];
        order[j] = id;
    }
    for (uint32_t i = 0; i < codes->used; i++) {
        uint32_t next = order[i + 1 < codes->used ? i + 1 : 0];
        codes->next[order[i]] = next;
        codes->previous[next] = order[i];
    }
}

static void draw_kinds(uint64_t seed, sb_codes *codes)
{
    uint64_t key = sb_rng_key(seed, "make/predictable/kind");
    for (uint32_t i = 0; i < codes->used; i++) {
        uint32_t percent = sb_rng_below(key, i, 100);
        if (percent < EMBEDDING_PERCENT)
            codes->kind[i] = SB_CODE_EMBEDDING;
        else if (percent < EMBEDDING_PERCENT + HIDDEN_PERCENT)
            codes->kind[i] = SB_CODE_HIDDEN;
        else
            codes->kind[i] = SB_CODE_TRUNK;
    }
}

/* An upper bound of H for codes of this length. */
static size_t dimensions_of(uint32_t length)
{
    return 4 * (size_t)length + 8;
}

/* Signs that depend on the seed, so that an MTP head is useless for a trunk of another seed. All
 * signs of the default seed are 1. */
static void draw_signs(uint64_t seed, sb_codes *codes)
{
    uint64_t key = sb_rng_key(seed, "make/predictable/sign");
    uint64_t usual = sb_rng_key(DEFAULT_SEED, "make/predictable/sign");
    for (size_t d = 0; d < dimensions_of(codes->length); d++)
        codes->sign[d] = (sb_rng_u64(key, d) ^ sb_rng_u64(usual, d)) & 1 ? -1.0f : 1.0f;
}

void sb_codes_one_sign(sb_codes *codes)
{
    for (size_t d = 0; d < dimensions_of(codes->length); d++)
        codes->sign[d] = 1.0f;
}

sb_status sb_codes_new(uint64_t seed, uint32_t used, uint32_t length, sb_codes *out, sb_error *err)
{
    uint32_t *order = sb_alloc(used, sizeof *order);
    *out = (sb_codes){.used = used,
                      .next = sb_alloc(used, sizeof *out->next),
                      .previous = sb_alloc(used, sizeof *out->previous),
                      .kind = sb_alloc(used, 1),
                      .sign = sb_alloc(dimensions_of(length), sizeof *out->sign),
                      .length = length,
                      .key = sb_rng_key(seed, "make/predictable/code")};
    if (!order || !out->next || !out->previous || !out->kind || !out->sign) {
        sb_codes_free(out);
        free(order);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a permutation of %u ids",
                       (unsigned)used);
    }
    draw_cycle(seed, out, order);
    draw_kinds(seed, out);
    draw_signs(seed, out);
    free(order);
    return SB_OK;
}

void sb_codes_free(sb_codes *codes)
{
    free(codes->next);
    free(codes->previous);
    free(codes->kind);
    free(codes->sign);
    *codes = (sb_codes){0};
}

float sb_code(const sb_codes *codes, uint32_t token, uint32_t i)
{
    uint64_t bits = sb_rng_u64(codes->key, (uint64_t)token * codes->length + i);
    float magnitude = 0.75f + 0.5f * ((float)(bits >> 40) * 0x1p-24f);
    return bits & 1 ? magnitude : -magnitude;
}
