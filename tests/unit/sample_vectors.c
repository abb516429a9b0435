#include "tests/unit/sample_vectors.h"

#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/container/safetensors.h"

struct sample_vectors {
    json_t *json;
    sb_safetensors arrays;
};

/* One comparison and its counters. */
typedef struct run {
    const sample_vectors *v;
    sample_voice voice;
    int all, stopped;
    size_t answers, differences;
    char *where;
} run;

static const char *const PURPOSES[4] = {"token", "draft", "accept", "residual"};

sample_vectors *sample_vectors_open(void)
{
    sample_vectors *v = sb_alloc(1, sizeof *v);
    sb_error err = {""};
    assert_non_null(v);
    if (sb_json_load("golden/sampler/sampler.json", &v->json, &err) ||
        sb_safetensors_open("golden/sampler/sampler.safetensors", &v->arrays, &err))
        fail_msg("%s", err.text);
    return v;
}

void sample_vectors_close(sample_vectors *vectors)
{
    json_decref(vectors->json);
    sb_safetensors_close(&vectors->arrays);
    free(vectors);
}

/* --- reading ---------------------------------------------------------------------------------- */

static json_t *list(const sample_vectors *v, const char *key)
{
    json_t *found = json_object_get(v->json, key);
    if (!json_is_array(found) || json_array_size(found) == 0)
        fail_msg("golden/sampler/sampler.json has no list %s", key);
    return found;
}

static const char *text_of(const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text)
        fail_msg("a text is missing in golden/sampler/sampler.json");
    return text;
}

static uint64_t hex(const json_t *value)
{
    return strtoull(text_of(value), NULL, 16);
}

static float real_of(const json_t *object, const char *key)
{
    return sb_f32_from_bits((uint32_t)hex(json_object_get(object, key)));
}

static uint32_t number(const json_t *value)
{
    assert_true(json_is_integer(value));
    return (uint32_t)json_integer_value(value);
}

/* The values of an array of the safetensors file; the caller frees them. */
static float *array(const sample_vectors *v, const char *prefix, const char *name, uint32_t *n)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (size_t i = 0; i < v->arrays.count; i++) {
        const sb_tensor *t = &v->arrays.tensors[i];
        if (strcmp(t->name, full) != 0)
            continue;
        *n = (uint32_t)(t->bytes / 4);
        float *values = sb_alloc(*n, sizeof *values);
        assert_non_null(values);
        for (uint32_t k = 0; k < *n; k++)
            values[k] = sb_f32_from_bits(sb_load_u32(t->data + 4 * (size_t)k));
        return values;
    }
    fail_msg("golden/sampler/sampler.safetensors has no array %s", full);
    return NULL;
}

/* Sets seed and sequence from a place; returns its position. */
static uint64_t set_place(const sample_vectors *v, size_t index, sb_sampling *s)
{
    const json_t *place = json_array_get(list(v, "places"), index);
    s->seed = hex(json_array_get(place, 0));
    s->sequence = hex(json_array_get(place, 1));
    return hex(json_array_get(place, 2));
}

/* --- comparing * ------------------------------------------------------------------------------ */

/* The settings of a row, or settings that keep everything if it has none. */
static sb_sampling settings_of(const json_t *row)
{
    if (!json_object_get(row, "temperature"))
        return (sb_sampling){.temperature = 1, .top_p = 1};
    return (sb_sampling){.temperature = real_of(row, "temperature"),
                         .top_k = (uint32_t)json_integer_value(json_object_get(row, "top_k")),
                         .top_p = real_of(row, "top_p"),
                         .min_p = real_of(row, "min_p")};
}

static sb_sampler *library(const sb_sampling *s, uint32_t n)
{
    sb_sampler *sampler = NULL;
    sb_error err = {""};
    if (sb_sampler_new(s, n, &sampler, &err))
        fail_msg("%s", err.text);
    return sampler;
}

static void ask_probabilities(sample_voice voice, const sb_sampling *s, const float *logits,
                              uint32_t n, float *p)
{
    if (!voice.is_library) {
        plain_probabilities(voice.mistake, s, logits, n, p);
        return;
    }
    sb_sampler *sampler = library(s, n);
    sb_error err = {""};
    if (sb_sample_probabilities(sampler, logits, p, &err))
        fail_msg("%s", err.text);
    sb_sampler_free(sampler);
}

static uint32_t ask_pick(sample_voice voice, const sb_sampling *s, const float *weights, uint32_t n,
                         uint64_t position, sb_purpose purpose)
{
    if (!voice.is_library)
        return plain_pick(voice.mistake, s, weights, n, position, purpose);
    sb_sampler *sampler = library(s, n);
    uint32_t token = sb_sample_pick(sampler, weights, position, purpose);
    sb_sampler_free(sampler);
    return token;
}

static void note(run *r, int same, const char *what, const char *which, size_t index)
{
    if (r->stopped)
        return;
    r->answers++;
    if (same)
        return;
    if (r->differences++ == 0)
        snprintf(r->where, 200, "%s %.100s [%zu]", what, which, index);
    r->stopped = !r->all;
}

static void compare_noise(run *r)
{
    size_t index;
    json_t *row;
    json_array_foreach(list(r->v, "noise"), index, row)
    {
        sb_sampling s = {.temperature = 1, .top_p = 1};
        uint64_t position = set_place(r->v, number(json_array_get(row, 0)), &s);
        uint32_t token = number(json_array_get(row, 1));
        const char *name = text_of(json_array_get(row, 2));
        sb_purpose purpose = SB_DRAW_token;
        while (strcmp(name, PURPOSES[purpose]) != 0 && purpose < SB_DRAW_residual)
            purpose = (sb_purpose)(purpose + 1);
        plain_mistake m = r->voice.mistake;
        float u = r->voice.is_library ? sb_sample_uniform(&s, token, position, purpose)
                                      : plain_uniform(m, &s, token, position, purpose);
        float g = r->voice.is_library ? sb_sample_gumbel(&s, token, position, purpose)
                                      : plain_gumbel(m, &s, token, position, purpose);
        note(r, sb_bits_f32(u) == hex(json_array_get(row, 4)), "noise, u", name, index);
        note(r, sb_bits_f32(g) == hex(json_array_get(row, 5)), "noise, g", name, index);
    }
}

static void compare_draws(run *r, const json_t *row, const char *name, sb_sampling s,
                          const float *weights, uint32_t n)
{
    for (int purpose = 0; purpose < 4; purpose++) {
        size_t index;
        json_t *expected;
        json_array_foreach(json_object_get(json_object_get(row, "draws"), PURPOSES[purpose]), index,
                           expected)
        {
            if (r->stopped)
                return;
            uint64_t position = set_place(r->v, index, &s);
            uint32_t token = ask_pick(r->voice, &s, weights, n, position, (sb_purpose)purpose);
            note(r, token == number(expected), PURPOSES[purpose], name, index);
        }
    }
}

static void compare_cases(run *r)
{
    size_t index;
    json_t *row;
    json_array_foreach(list(r->v, "cases"), index, row)
    {
        if (r->stopped)
            return;
        const char *name = text_of(json_object_get(row, "name"));
        uint32_t n, same_n;
        float *logits = array(r->v, "logits/", text_of(json_object_get(row, "logits")), &n);
        float *expected = array(r->v, "p/", name, &same_n);
        float *p = sb_alloc(n, sizeof *p);
        assert_non_null(p);
        assert_int_equal(n, same_n);
        sb_sampling s = settings_of(row);
        ask_probabilities(r->voice, &s, logits, n, p);
        for (uint32_t i = 0; i < n; i++)
            note(r, sb_bits_f32(p[i]) == sb_bits_f32(expected[i]), "p of", name, i);
        compare_draws(r, row, name, s, p, n);
        free(logits);
        free(expected);
        free(p);
    }
}

static void compare_picks(run *r)
{
    size_t index;
    json_t *row;
    json_array_foreach(list(r->v, "picks"), index, row)
    {
        const char *name = text_of(json_object_get(row, "weights"));
        uint32_t n;
        float *weights = array(r->v, "", name, &n);
        compare_draws(r, row, name, settings_of(row), weights, n);
        free(weights);
    }
}

/* A round is a list: place, draft, 1 if accepted, and the token that replaces the draft. */
static void compare_round(run *r, const json_t *round, const char *name, const float *p,
                          const float *q, uint32_t n)
{
    sb_sampling s = settings_of(round);
    size_t place = number(json_array_get(round, 0));
    uint64_t position = set_place(r->v, place, &s);
    uint32_t draft = number(json_array_get(round, 1)), token;
    int accepted;
    if (r->voice.is_library) {
        sb_sampler *sampler = library(&s, n);
        accepted = sb_sample_accepts(sampler, p, q, draft, position);
        token = sb_sample_residual(sampler, p, q, position);
        sb_sampler_free(sampler);
    } else {
        accepted = plain_accepts(r->voice.mistake, &s, p, q, draft, position);
        token = plain_residual(r->voice.mistake, &s, p, q, n, position);
    }
    note(r, (uint32_t)accepted == number(json_array_get(round, 2)), "acceptance,", name, place);
    note(r, token == number(json_array_get(round, 3)), "residual,", name, place);
}

static void compare_residuals(run *r)
{
    size_t index, at;
    json_t *row, *round;
    json_array_foreach(list(r->v, "residuals"), index, row)
    {
        const char *name = text_of(json_object_get(row, "p"));
        uint32_t n, same_n;
        float *p = array(r->v, "", name, &n);
        float *q = array(r->v, "", text_of(json_object_get(row, "q")), &same_n);
        assert_int_equal(n, same_n);
        json_array_foreach(json_object_get(row, "rounds"), at, round) if (!r->stopped)
            compare_round(r, round, name, p, q, n);
        free(p);
        free(q);
    }
}

static run compare(const sample_vectors *vectors, sample_voice voice, int all, char *where)
{
    run r = {.v = vectors, .voice = voice, .all = all, .where = where};
    where[0] = '\0';
    compare_noise(&r);
    compare_cases(&r);
    compare_picks(&r);
    compare_residuals(&r);
    return r;
}

size_t sample_differences(const sample_vectors *vectors, sample_voice voice, int all, char *where)
{
    return compare(vectors, voice, all, where).differences;
}

size_t sample_answers(const sample_vectors *vectors)
{
    char where[200];
    return compare(vectors, (sample_voice){.is_library = 1}, 1, where).answers;
}
