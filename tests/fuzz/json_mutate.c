#include "tests/fuzz/json_mutate.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"

/* Values that jansson cannot represent are strings with this mark. At the end their quotes and the
 * mark are removed. */
#define RAW "@raw "
/* A key that occurs twice has this mark until the end. */
#define TWICE "@twice "

static const char *const raws[] = {"0",
                                   "-0",
                                   "-1",
                                   "1",
                                   "3",
                                   "255",
                                   "65536",
                                   "1000000",
                                   "2147483647",
                                   "2147483648",
                                   "4294967295",
                                   "4294967296",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "-9223372036854775808",
                                   "18446744073709551616",
                                   "1e308",
                                   "1e999",
                                   "1e-320",
                                   "0.5",
                                   "128.0",
                                   "-1e-9",
                                   "true",
                                   "false",
                                   "null",
                                   "\"\"",
                                   "\"nan\"",
                                   "\"NaN\"",
                                   "\"-inf\"",
                                   "\"128\"",
                                   "[]",
                                   "{}",
                                   "[[]]",
                                   "[0]",
                                   "[-1, 1]",
                                   "[128, 128]",
                                   "[1, 1, 1]",
                                   "[null]",
                                   "{\"\": 0}",
                                   "[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]",
                                   "\"re:.*\"",
                                   "\"re:(((\"",
                                   "\"re:[\"",
                                   "\"*\"",
                                   "\"../../x\"",
                                   "\"\\ud800\"",
                                   "\"\\u0000\"",
                                   "\"\xff\"",
                                   "NaN"};

/* Possible values of the fields of configurations. */
static const char *const words[] = {"fp8",
                                    "gptq",
                                    "awq",
                                    "auto-round",
                                    "compressed-tensors",
                                    "modelopt",
                                    "modelopt_fp4",
                                    "mxfp4",
                                    "mxfp8",
                                    "bitsandbytes",
                                    "NVFP4",
                                    "FP8",
                                    "MIXED_PRECISION",
                                    "W4A8_AWQ",
                                    "e4m3",
                                    "e5m2",
                                    "float",
                                    "int",
                                    "tensor",
                                    "channel",
                                    "group",
                                    "block",
                                    "token",
                                    "tensor_group",
                                    "dynamic",
                                    "static",
                                    "local",
                                    "pack-quantized",
                                    "float-quantized",
                                    "nvfp4-pack-quantized",
                                    "mixed-precision",
                                    "auto_round:auto_gptq",
                                    "gptq_v2",
                                    "gemm",
                                    "bfloat16",
                                    "float16",
                                    "float32",
                                    "ue8m0",
                                    "linear_attention",
                                    "full_attention",
                                    "qwen3_5_moe",
                                    "qwen3_5",
                                    "qwen3_next",
                                    "llama",
                                    "default",
                                    "yarn",
                                    "silu",
                                    "Linear",
                                    "lm_head",
                                    "mtp.fc",
                                    "model.safetensors",
                                    "model-00001-of-00003.safetensors"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

size_t json_draw(json_draws *d, size_t below)
{
    return below ? sb_rng_below(d->key, d->at++, (uint32_t)below) : 0;
}

static void *sure(void *p)
{
    if (!p)
        abort();
    return p;
}

static json_t *raw_value(json_draws *d)
{
    char text[80];
    snprintf(text, sizeof text, RAW "%zu", json_draw(d, COUNT(raws)));
    return sure(json_string(text));
}

static json_t *other_value(const json_t *old, json_draws *d)
{
    switch (json_draw(d, 5)) {
    case 0:
        return sure(json_string(words[json_draw(d, COUNT(words))]));
    case 1: /* one more or less, or a much larger difference */
        if (json_is_integer(old)) {
            static const int by[] = {-1, 1, 2, 127, -64};
            const json_int_t value = json_integer_value(old), step = by[json_draw(d, COUNT(by))];
            /* the limits of the type stay */
            if (step < 0 ? value < INT64_MIN - step : value > INT64_MAX - step)
                return sure(json_integer(value));
            return sure(json_integer(value + step));
        }
        if (json_is_string(old))
            return sure(json_string(words[json_draw(d, COUNT(words))]));
        return raw_value(d);
    case 2: { /* put into a list */
        json_t *list = sure(json_array());
        for (size_t n = 1 + json_draw(d, 3); n > 0; n--)
            json_array_append_new(list, sure(json_deep_copy(old)));
        return list;
    }
    default:
        return raw_value(d);
    }
}

/* The n-th key of an object. */
static const char *key_at(json_t *object, size_t n)
{
    void *it = json_object_iter(object);
    while (n-- && it)
        it = json_object_iter_next(object, it);
    return it ? json_object_iter_key(it) : NULL;
}

static void change_member(json_t *object, const char *key, json_draws *d)
{
    char text[400];
    json_t *value = json_object_get(object, key);
    const char *other;
    switch (json_draw(d, 8)) {
    case 0:
        json_object_del(object, key);
        return;
    case 1: /* the key twice, with another value or the same */
        snprintf(text, sizeof text, TWICE "%.300s", key);
        json_object_set_new(object, text,
                            json_draw(d, 2) ? other_value(value, d) : sure(json_deep_copy(value)));
        return;
    case 2: /* under another name */
        other = key_at(object, json_draw(d, json_object_size(object)));
        snprintf(text, sizeof text, "%.300s%s", other, json_draw(d, 2) ? "" : "_");
        json_object_set_new(object, text, sure(json_deep_copy(value)));
        return;
    case 3: /* the value of another key */
        other = key_at(object, json_draw(d, json_object_size(object)));
        json_object_set_new(object, key, sure(json_deep_copy(json_object_get(object, other))));
        return;
    default:
        json_object_set_new(object, key, other_value(value, d));
    }
}

static void change_element(json_t *array, size_t i, json_draws *d)
{
    json_t *value = json_array_get(array, i);
    switch (json_draw(d, 4)) {
    case 0:
        json_array_remove(array, i);
        return;
    case 1:
        json_array_insert_new(array, i, sure(json_deep_copy(value)));
        return;
    default:
        json_array_set_new(array, i, other_value(value, d));
    }
}

/* Descends to some place, deeper ones being more likely, and changes it. */
static void change(json_t *root, json_draws *d)
{
    json_t *at = root;
    for (;;) {
        size_t n = json_is_object(at) ? json_object_size(at) : json_array_size(at);
        if (!n)
            return;
        size_t i = json_draw(d, n);
        const char *key = json_is_object(at) ? key_at(at, i) : NULL;
        json_t *inner = key ? json_object_get(at, key) : json_array_get(at, i);
        if ((json_object_size(inner) || json_array_size(inner)) && json_draw(d, 6)) {
            at = inner;
            continue;
        }
        if (key)
            change_member(at, key, d);
        else
            change_element(at, i, d);
        return;
    }
}

/* Replaces the marks by their meaning. */
static char *without_marks(char *text)
{
    size_t size = strlen(text), used = 0;
    char *out = sure(malloc(size * 2 + 4096)); /* a mark of seven bytes becomes at most forty */
    size_t room = size * 2 + 4096;
    for (const char *c = text; *c;) {
        char *end;
        if (strncmp(c, "\"" RAW, strlen("\"" RAW)) == 0) {
            size_t i = strtoul(c + strlen("\"" RAW), &end, 10);
            const char *raw = raws[i < COUNT(raws) ? i : 0];
            if (*end == '"' && end[1] != ':' && used + 64 + strlen(end) < room) {
                used += (size_t)sprintf(out + used, "%s", raw);
                c = end + 1;
                continue;
            }
        }
        if (strncmp(c, TWICE, strlen(TWICE)) == 0) {
            c += strlen(TWICE);
            continue;
        }
        out[used++] = *c++;
    }
    out[used] = '\0';
    free(text);
    return out;
}

/* Cuts the text or changes bytes: damage that no JSON editor would make. */
static void damage(char *text, json_draws *d)
{
    size_t n = strlen(text), at = json_draw(d, n ? n : 1);
    if (!n)
        return;
    if (json_draw(d, 2))
        text[at] = '\0';
    else
        text[at] = (char)(1 + json_draw(d, 255));
}

char *json_mutate(const char *text, unsigned steps, json_draws *d, int *valid)
{
    json_t *root = json_loads(text, JSON_DECODE_ANY, NULL);
    char *out;
    if (!root || (!json_is_object(root) && !json_is_array(root)) || json_draw(d, 12) == 0) {
        out = sure(malloc(strlen(text) + 1));
        strcpy(out, text);
        for (; steps; steps--)
            damage(out, d);
    } else {
        for (; steps; steps--)
            change(root, d);
        out = without_marks(sure(json_dumps(root, JSON_INDENT(2))));
    }
    json_decref(root);
    root = json_loads(out, JSON_DECODE_ANY, NULL);
    *valid = root != NULL;
    json_decref(root);
    return out;
}
