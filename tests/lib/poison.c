#include "tests/lib/poison.h"

#include "tests/lib/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/hash.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "tools/make/normal.h"

enum { GUARD = 64 };                         /* bytes on each side */
static const uint32_t PATTERN = 0x7fa5a5a5u; /* a signalling NaN */
static const unsigned char GUARD_BYTE = 0xc3;

typedef struct block {
    struct block *next;
    unsigned char *bytes; /* guard, data, guard */
    size_t size;          /* of the data */
    size_t shift;         /* additional bytes in the first guard: matrices need no alignment */
    int constant;
    sb_digest digest; /* of the data, if constant */
} block;

static block *blocks;

sb_digest test_digest(const void *bytes, size_t size)
{
    sb_hash *hash = sb_hash_new();
    assert_non_null(hash);
    sb_hash_bytes(hash, bytes, size);
    sb_digest digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return digest;
}

static block *make(size_t size, size_t shift)
{
    block *b = malloc(sizeof *b);
    unsigned char *bytes = malloc(size + shift + 2 * GUARD);
    assert_non_null(b);
    assert_non_null(bytes);
    memset(bytes, GUARD_BYTE, size + shift + 2 * GUARD);
    *b = (block){.next = blocks, .bytes = bytes, .size = size, .shift = shift};
    blocks = b;
    return b;
}

static void *data_of(const block *b)
{
    return b->bytes + GUARD + b->shift;
}

static const void *freeze(block *b)
{
    b->constant = 1;
    b->digest = test_digest(data_of(b), b->size);
    return data_of(b);
}

float *test_output(size_t count)
{
    unsigned char *data = data_of(make(count * sizeof(float), 0));
    for (size_t i = 0; i < count; i++)
        memcpy(data + i * sizeof PATTERN, &PATTERN, sizeof PATTERN);
    return (float *)(void *)data;
}

void test_written(const char *what, const float *output, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sb_bits_f32(output[i]) == PATTERN)
            fail_msg("%s: element %zu of %zu was not written", what, i, count);
}

float *test_copy(const float *values, size_t count)
{
    float *data = data_of(make(count * sizeof(float), 0));
    if (values && count)
        memcpy(data, values, count * sizeof(float));
    for (size_t i = 0; !values && i < count; i++)
        data[i] = 0.0f;
    return data;
}

const float *test_input(const float *values, size_t count)
{
    test_copy(values, count);
    return freeze(blocks);
}

const float *test_normal(const char *name, size_t count, float mean, float scale)
{
    uint64_t key = sb_rng_key(7, name);
    float *data = data_of(make(count * sizeof(float), 0));
    sb_normals(key, 0, count, data);
    for (size_t i = 0; i < count; i++)
        data[i] = mean + scale * data[i];
    return freeze(blocks);
}

const float *test_hostile(const char *name, size_t count)
{
    static const float values[] = {0.0f,       -0.0f,     0x1p-149f, -0x1p-149f, 0x1.8p-127f,
                                   -0x1p-126f, 0x1p-126f, 3.0e38f,   -3.0e38f,   0x1.fffffep127f,
                                   1.0f,       -1.0f,     0x1p64f,   -0x1p-64f,  0x1.fffffep-1f,
                                   100.0f,     -100.0f};
    enum { VALUES = sizeof values / sizeof *values };
    uint64_t key = sb_rng_key(8, name);
    float *data = data_of(make(count * sizeof(float), 0));
    for (size_t i = 0; i < count; i++) {
        uint32_t which = sb_rng_below(key, 2 * i, 2 * VALUES);
        data[i] = which < VALUES ? values[which] : sb_rng_normal(key, i);
    }
    return freeze(blocks);
}

sb_matrix test_matrix(sb_format format, const float *values, size_t rows, size_t cols)
{
    block *b = make(rows * cols * sb_format_bytes(format), 1);
    sb_encode(format, values, rows * cols, data_of(b));
    return (sb_matrix){
        .data = freeze(b), .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
}

uint32_t *test_ids(size_t count)
{
    uint32_t *data = data_of(make(count * sizeof(uint32_t), 0));
    for (size_t i = 0; i < count; i++)
        data[i] = PATTERN;
    return data;
}

static const char *damage(const block *b)
{
    const unsigned char *data = data_of(b);
    for (size_t i = 0; i < GUARD; i++) {
        if (b->bytes[b->shift + i] != GUARD_BYTE)
            return "something was written in front of an array";
        if (data[b->size + i] != GUARD_BYTE)
            return "something was written behind an array";
    }
    if (b->constant && strcmp(test_digest(data, b->size).hex, b->digest.hex) != 0)
        return "something was written into an input";
    return NULL;
}

int test_release(void **state)
{
    const char *found = NULL;
    (void)state;
    while (blocks) {
        block *b = blocks;
        const char *bad = damage(b);
        found = bad ? bad : found;
        blocks = b->next;
        free(b->bytes);
        free(b);
    }
    if (found)
        print_error("%s\n", found);
    return found ? -1 : 0;
}
