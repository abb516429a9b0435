/* side_chain.c - check 51: what a tokenizer.json does to text before and after its merges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/side_files.h"

static const char *type_of(const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    return type ? type : "";
}

/* --- steps ------------------------------------------------------------------------------------ */

/* The steps of a Sequence, whose key depends on the kind of step. NULL: the step is not a
 * Sequence. */
static json_t *steps_of(const json_t *step)
{
    static const char *const keys[] = {"pretokenizers", "normalizers", "decoders", "processors"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_is_array(json_object_get(step, keys[i])))
            return json_object_get(step, keys[i]);
    return NULL;
}

static int has_step(const json_t *step, const char *type)
{
    const json_t *steps = steps_of(step);
    for (size_t i = 0; i < json_array_size(steps); i++)
        if (has_step(json_array_get(steps, i), type))
            return 1;
    return strcmp(type_of(step), type) == 0;
}

/* V-151: "compared by their effect": a key with its default equals an absent key. trim_offsets does
 * not affect ids. For a ByteLevel decoder only the type matters, because its other keys concern
 * reading text. */
static int acts(const char *key, const json_t *value, const char *type, int decoder)
{
    static const struct {
        const char *key;
        int otherwise;
    } flags[] = {
        {"add_prefix_space", 1}, {"use_regex", 1}, {"invert", 0}, {"individual_digits", 0}};
    if (json_is_null(value) || strcmp(key, "trim_offsets") == 0)
        return 0;
    if (decoder && strcmp(type, "ByteLevel") == 0)
        return strcmp(key, "type") == 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(key, flags[i].key) == 0 && json_is_boolean(value))
            return json_is_true(value) != flags[i].otherwise;
    return 1;
}

/* Flattens the steps into one list, without Sequences; each step has only the keys that act. */
static void lay_out(json_t *into, const json_t *step, int decoder)
{
    const json_t *steps = steps_of(step);
    for (size_t i = 0; i < json_array_size(steps); i++)
        lay_out(into, json_array_get(steps, i), decoder);
    if (steps || !json_is_object(step))
        return;
    json_t *one = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)step, key, value)
    {
        if (acts(key, value, type_of(step), decoder))
            json_object_set(one, key, value);
    }
    json_array_append_new(into, one);
}

/* The tokens that a post-processor adds; everything else that it does concerns offsets. */
static void lay_out_added(json_t *into, const json_t *step)
{
    const json_t *steps = steps_of(step), *single = json_object_get(step, "single");
    const char *type = type_of(step);
    for (size_t i = 0; i < json_array_size(steps); i++)
        lay_out_added(into, json_array_get(steps, i));
    if (strcmp(type, "TemplateProcessing") == 0) {
        int behind = 0;
        for (size_t i = 0; i < json_array_size(single); i++) {
            const json_t *piece = json_array_get(single, i);
            const json_t *id = json_object_get(json_object_get(piece, "SpecialToken"), "id");
            behind |= json_object_get(piece, "Sequence") != NULL;
            if (json_is_string(id))
                json_array_append_new(into, json_sprintf("%s %s", behind ? "behind" : "before",
                                                         json_string_value(id)));
        }
    } else if (!steps && json_is_object(step) && strcmp(type, "ByteLevel") != 0) {
        json_array_append(into, (json_t *)(uintptr_t)step);
    }
}

/* --- comparison with the original ------------------------------------------------------------- */

static const struct {
    const char *key, *changes;
} chain[] = {
    {"normalizer", "text is changed to other letters before it is cut into tokens"},
    {"pre_tokenizer", "text is cut into other words, which gives other tokens"},
    {"post_processor", "other tokens are put around a text"},
    {"decoder", "tokens are written as other text"},
};

static json_t *laid_out(const sb_token_table *t, size_t i)
{
    json_t *list = json_array();
    const json_t *step = json_object_get(t->json, chain[i].key);
    if (strcmp(chain[i].key, "post_processor") == 0)
        lay_out_added(list, step);
    else
        lay_out(list, step, strcmp(chain[i].key, "decoder") == 0);
    return list;
}

/* V-151: "other steps around the merges" */
static void tell_chain(sb_check *check, const sb_token_table *t, const sb_token_table *o)
{
    for (size_t i = 0; i < sizeof chain / sizeof *chain; i++) {
        json_t *a = laid_out(t, i), *b = laid_out(o, i);
        size_t at = 0;
        while (at < json_array_size(a) && at < json_array_size(b) &&
               sb_value_same(json_array_get(a, at), json_array_get(b, at)))
            at++;
        if (!a || !b)
            check->findings.lost = 1;
        else if (at < json_array_size(a) || at < json_array_size(b)) {
            sb_value_text x, y;
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "tokenizer.json: step %zu of %s is %s, in the original %s: %s", at,
                          chain[i].key, sb_value_show(json_array_get(a, at), &x),
                          sb_value_show(json_array_get(b, at), &y), chain[i].changes);
        }
        json_decref(a);
        json_decref(b);
    }
}

/* Absent, null, false, 0 and "" mean the same. */
static int is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && !*json_string_value(value)) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

/* V-151: "other flags of the model" */
static void tell_flags(sb_check *check, const sb_token_table *t, const sb_token_table *o)
{
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "ignore_merges",
                                       "byte_fallback",
                                       "continuing_subword_prefix",
                                       "end_of_word_suffix"};
    const json_t *own = json_object_get(t->json, "model");
    const json_t *other = json_object_get(o->json, "model");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *a = json_object_get(own, keys[i]), *b = json_object_get(other, keys[i]);
        sb_value_text x, y;
        /* files written before 2021 have no type */
        if ((is_nothing(a) && (i == 0 || is_nothing(b))) || (i == 0 && !b) ||
            (a && b && sb_value_same(a, b)))
            continue;
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: model.%s is %s, in the original %s: text is cut into other "
                      "tokens",
                      keys[i], sb_value_show(a, &x), sb_value_show(b, &y));
    }
}

static const json_t *added_row(const sb_token_table *t, const char *content)
{
    const json_t *rows = json_object_get(t->json, "added_tokens");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *here = json_string_value(json_object_get(row, "content"));
        if (here && strcmp(here, content) == 0)
            return row;
    }
    return NULL;
}

/* V-151: "or of an added token" */
static void tell_added_flags(sb_check *check, const sb_token_table *t, const sb_token_table *o)
{
    static const struct {
        const char *key, *changes;
    } flags[] = {{"special", "it shows up in answers, or is left out of them"},
                 {"lstrip", "it removes blanks of the text around it"},
                 {"rstrip", "it removes blanks of the text around it"},
                 {"single_word", "it is found at other places of a text"}};
    const json_t *rows = json_object_get(t->json, "added_tokens");
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
        const char *first = NULL;
        size_t count = 0;
        int found = 0;
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            const char *content = json_string_value(json_object_get(row, "content"));
            const json_t *other = content ? added_row(o, content) : NULL;
            int a = json_is_true(json_object_get(row, flags[k].key));
            if (!other || a == json_is_true(json_object_get(other, flags[k].key)))
                continue;
            if (count++ == 0)
                first = content, found = a;
        }
        if (count)
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "tokenizer.json: %s of the added token '%s' is %s, in the original %s: "
                          "%s; the same holds for %zu of %zu tokens in all",
                          flags[k].key, SB_SHOW(first), found ? "true" : "false",
                          found ? "false" : "true", flags[k].changes, count, json_array_size(rows));
    }
}

/* --- the file by itself ----------------------------------------------------------------------- */

/* V-151: "a length at which text is cut" */
static void tell_cut(sb_check *check, const sb_token_table *t)
{
    const json_t *cut = json_object_get(t->json, "truncation");
    const json_t *pad = json_object_get(t->json, "padding");
    const json_t *fixed = json_object_get(json_object_get(pad, "strategy"), "Fixed");
    sb_value_text x;
    /* V-151: "calibration leaves it" - and transformers sets it with every call */
    if (json_is_object(cut))
        sb_check_find(check, 51, SB_LEVEL_warn, "",
                      "tokenizer.json: truncation is %s, expected null: the tokenizers library, "
                      "and programs that follow this file, cut every prompt at that length",
                      sb_value_show(cut, &x));
    if (fixed)
        sb_check_find(
            check, 51, SB_LEVEL_error, "",
            "tokenizer.json: padding fills every text up to %s tokens, expected no padding (null)",
            sb_value_show(fixed, &x));
}

/* V-151: "a vocabulary of bytes" */
static void tell_bytes(sb_check *check, const sb_token_table *t)
{
    const json_t *pre = json_object_get(t->json, "pre_tokenizer");
    const json_t *norm = json_object_get(t->json, "normalizer");
    const json_t *decoder = json_object_get(t->json, "decoder");
    int reads = has_step(pre, "ByteLevel") || has_step(norm, "ByteLevel");
    int writes = has_step(decoder, "ByteLevel");
    if (reads && !writes)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: tokens are written as letters for bytes (ByteLevel), but "
                      "decoder has no ByteLevel that turns them back: answers show these letters");
    if (writes && !reads)
        sb_check_find(
            check, 51, SB_LEVEL_error, "",
            "tokenizer.json: decoder is ByteLevel, but neither pre_tokenizer nor normalizer turns "
            "text into letters for bytes: blanks and letters beyond ASCII have no tokens");
    const json_t *steps = steps_of(pre);
    for (size_t i = 0; i < json_array_size(steps) && reads; i++) {
        const json_t *step = json_array_get(steps, i);
        const char *behavior = json_string_value(json_object_get(step, "behavior"));
        if (strcmp(type_of(step), "Split") == 0 && behavior && strcmp(behavior, "Removed") == 0 &&
            !json_is_true(json_object_get(step, "invert")))
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "tokenizer.json: step %zu of pre_tokenizer removes what its pattern "
                          "finds, expected Isolated: a part of every text is lost",
                          i);
    }
}

/* 1 if a token has more than one letter. */
static int is_long(const char *text)
{
    size_t letters = 0;
    for (; *text && letters < 2; text++)
        letters += ((unsigned char)*text & 0xC0) != 0x80;
    return letters > 1;
}

/* V-151: "Merges are an ERROR if they are gone" */
static void tell_no_merges(sb_check *check, const sb_token_table *t)
{
    const json_t *model = json_object_get(t->json, "model");
    size_t count = 0;
    const char *type = type_of(model), *first = NULL;
    if (t->merges && json_array_size(t->merges) && *type && strcmp(type, "BPE") != 0)
        sb_check_find(
            check, 51, SB_LEVEL_error, "",
            "tokenizer.json: model.type is %s, but the model has %zu merges, which only BPE reads",
            SB_SHOW(type), json_array_size(t->merges));
    if (strcmp(type, "BPE") != 0 || json_array_size(t->merges) ||
        json_is_true(json_object_get(model, "ignore_merges")))
        return;
    for (size_t i = 0; i < t->count; i++)
        if (!t->by_id[i].added && is_long(t->by_id[i].content) &&
            !added_row(t, t->by_id[i].content) && count++ == 0)
            first = t->by_id[i].content;
    if (count)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: there are no merges, so '%s' can never be made, one of %zu "
                      "such tokens of %zu",
                      SB_SHOW(first), count, t->count);
}

/* V-151: "a merge before the one that makes its part": byte-level vocabularies are trained or
 * converted in the order in which tokens are created. */
static void tell_early(sb_check *check, const sb_token_table *t)
{
    size_t n = json_array_size(t->merges), early = 0, first = 0;
    uint32_t *made = n && n < UINT32_MAX ? sb_alloc(t->count, sizeof *made) : NULL;
    char both[1024];
    check->findings.lost |= n && n < UINT32_MAX && !made;
    for (int judging = 0; made && judging < 2; judging++)
        for (size_t i = 0; i < n; i++) {
            const char *half[2];
            size_t size[2];
            int is_early = 0;
            if (!sb_token_merge(t, i, half, size) || size[0] + size[1] >= sizeof both)
                continue;
            memcpy(both, half[0], size[0]);
            memcpy(both + size[0], half[1], size[1]);
            both[size[0] + size[1]] = '\0';
            const sb_token_row *row = sb_token_of_content(t, both);
            if (!judging && row && !made[row - t->by_content])
                made[row - t->by_content] = (uint32_t)i + 1;
            for (size_t k = 0; k < 2 && judging; k++) {
                memcpy(both, half[k], size[k]);
                both[size[k]] = '\0';
                row = sb_token_of_content(t, both);
                is_early |= row && made[row - t->by_content] > i + 1;
            }
            if (is_early && early++ == 0)
                first = i;
        }
    free(made);
    if (early)
        sb_check_find(
            check, 51, SB_LEVEL_error, "",
            "tokenizer.json: model.merges.%zu joins a piece that only a later merge makes, one of "
            "%zu such merges of %zu: they are not in the order of the training",
            first, early, n);
}

void sb_side_chain(sb_check *check, const sb_token_table *table, const sb_token_table *original)
{
    if (!table->json)
        return;
    tell_cut(check, table);
    tell_bytes(check, table);
    tell_no_merges(check, table);
    if (has_step(json_object_get(table->json, "decoder"), "ByteLevel"))
        tell_early(check, table);
    if (!original->json)
        return;
    tell_chain(check, table, original);
    tell_flags(check, table, original);
    tell_added_flags(check, table, original);
}
