#include "tests/lib/state_parts.h"

#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/container/safetensors.h"

test_parts test_take_apart(const char *path)
{
    sb_safetensors in;
    sb_error err;
    test_parts p = {.pairs = 0};
    if (sb_safetensors_open(path, &in, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < in.count; i++) {
        const sb_tensor *t = &in.tensors[i];
        test_tensor *copy = test_folder_add(&p.tensors, t->name, t->dtype, t->rank, t->shape);
        memcpy(copy->bytes, t->data, (size_t)t->bytes);
    }
    for (size_t i = 0; i < in.metadata.count; i++) {
        p.keys[i] = sb_strdup(in.metadata.pairs[i].key);
        p.values[i] = sb_strdup(in.metadata.pairs[i].value);
        p.pairs++;
    }
    sb_safetensors_close(&in);
    return p;
}

void test_parts_free(test_parts *p)
{
    test_folder_free(&p->tensors);
    for (size_t i = 0; i < p->pairs; i++) {
        free(p->keys[i]);
        free(p->values[i]);
    }
}

char **test_part(test_parts *p, const char *key)
{
    for (size_t i = 0; i < p->pairs; i++)
        if (strcmp(p->keys[i], key) == 0)
            return &p->values[i];
    fail_msg("no key %s", key);
    return NULL;
}

void test_set_part(test_parts *p, const char *key, const char *value)
{
    char **at = test_part(p, key);
    free(*at);
    *at = sb_strdup(value);
}

void test_seal(test_parts *p)
{
    sb_hash *hash = sb_hash_new();
    for (size_t i = 0; i < p->pairs; i++)
        if (strncmp(p->keys[i], "samebit.state.", 14) == 0 &&
            strcmp(p->keys[i], "samebit.state.seal") != 0) {
            sb_hash_bytes(hash, p->keys[i], strlen(p->keys[i]) + 1);
            sb_hash_bytes(hash, p->values[i], strlen(p->values[i]) + 1);
        }
    test_set_part(p, "samebit.state.seal", sb_hash_end(hash).hex);
    sb_hash_free(hash);
}

static void put(unsigned char **bytes, size_t *size, const void *from, size_t count)
{
    *bytes = realloc(*bytes, *size + count + 1);
    assert_non_null(*bytes);
    memcpy(*bytes + *size, from, count);
    *size += count;
}

unsigned char *test_put_together(const test_parts *p, size_t *size)
{
    unsigned char *bytes = NULL, *header = NULL, length[8];
    size_t n = 0, at = 0;
    char text[1024];
    put(&header, &n, "{\"__metadata__\":{", 17);
    for (size_t i = 0; i < p->pairs; i++) {
        put(&header, &n, i ? ",\"" : "\"", i ? 2 : 1);
        put(&header, &n, p->keys[i], strlen(p->keys[i]));
        put(&header, &n, "\":\"", 3);
        put(&header, &n, p->values[i], strlen(p->values[i]));
        put(&header, &n, "\"", 1);
    }
    put(&header, &n, "}", 1);
    for (size_t i = 0; i < p->tensors.count; i++) {
        const test_tensor *t = &p->tensors.tensors[i];
        snprintf(text, sizeof text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
                 sb_dtype_name(t->dtype));
        for (unsigned d = 0; d < t->rank; d++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%llu", d ? "," : "",
                     (unsigned long long)t->shape[d]);
        snprintf(text + strlen(text), sizeof text - strlen(text), "],\"data_offsets\":[%zu,%zu]}",
                 at, at + (size_t)t->size);
        put(&header, &n, text, strlen(text));
        at += (size_t)t->size;
    }
    put(&header, &n, "}", 1);
    sb_store_u64(length, n);
    *size = 0;
    put(&bytes, size, length, 8);
    put(&bytes, size, header, n);
    for (size_t i = 0; i < p->tensors.count; i++)
        put(&bytes, size, p->tensors.tensors[i].bytes, (size_t)p->tensors.tensors[i].size);
    free(header);
    return bytes;
}
