/* load.c - tokenizer.json as a whole: the steps that it requires, and refusals (N-9). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/text/parts.h"

enum { WHERE = 400 };

/* The pattern of ByteLevel with use_regex. */
static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static sb_status type_of(const sb_json_object *object, const char **type, sb_error *err)
{
    return sb_json_string(object, "type", type, err);
}

/* One step of a Sequence. */
typedef sb_status load_step(sb_tokenizer *t, const sb_json_object *step, int last, sb_error *err);

/* Loads the members of a Sequence in order; passes `last` only to the last of them. */
static sb_status load_sequence(sb_tokenizer *t, const sb_json_object *object, const char *key,
                               load_step *load, int last, sb_error *err)
{
    const char *const keys[] = {"type", key, NULL};
    json_t *steps = json_object_get(object->json, key);
    sb_status status = sb_json_only(object, keys, err);
    if (!status && !json_is_array(steps))
        status = sb_json_wrong(object, key, steps, "an array", err);
    for (size_t i = 0; i < json_array_size(steps) && !status; i++) {
        char path[256];
        sb_json_object step;
        snprintf(path, sizeof path, "%.200s.%s.%zu", object->path, key, i);
        status = sb_json_object_at(json_array_get(steps, i), object->file, path, &step, err);
        if (!status)
            status = load(t, &step, last && i + 1 == json_array_size(steps), err);
    }
    return status;
}

static sb_status load_normalizer(sb_tokenizer *t, const sb_json_object *object, int last,
                                 sb_error *err)
{
    static const char *const keys[] = {"type", NULL};
    const char *type;
    sb_status status = type_of(object, &type, err);
    if (status)
        return status;
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(t, object, "normalizers", load_normalizer, last, err);
    if (strcmp(type, "NFC") != 0)
        return sb_text_unsupported(object, "type", "NFC or a Sequence of NFC", err);
    t->nfc = 1;
    return sb_json_only(object, keys, err);
}

static sb_status add_pattern(sb_tokenizer *t, const sb_json_object *object, const char *text,
                             sb_error *err)
{
    char where[WHERE];
    if (t->pattern_count == SB_TEXT_PATTERNS)
        return sb_json_fail(object, "type", SB_ERR_UNSUPPORTED, err,
                            "is one splitting step too many, expected at most %d",
                            SB_TEXT_PATTERNS);
    snprintf(where, sizeof where, "%s: %.200s", SB_SHOW(object->file), object->path);
    sb_status status = sb_pattern_compile(text, where, &t->patterns[t->pattern_count], err);
    t->pattern_count += !status;
    return status;
}

static sb_status load_split(sb_tokenizer *t, const sb_json_object *object, sb_error *err)
{
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    static const char *const pattern_keys[] = {"Regex", NULL};
    const char *behavior = "", *text = "";
    int invert = 0;
    char path[256];
    sb_json_object pattern;
    snprintf(path, sizeof path, "%.200s.pattern", object->path);
    sb_status status = sb_json_only(object, keys, err);
    if (!status)
        status = sb_json_string(object, "behavior", &behavior, err);
    if (!status && strcmp(behavior, "Isolated") != 0)
        return sb_text_unsupported(object, "behavior", "\"Isolated\"", err);
    if (!status)
        status = sb_json_bool(object, "invert", &invert, err);
    if (!status && invert)
        return sb_text_unsupported(object, "invert", "false", err);
    if (!status)
        status = sb_json_object_at(json_object_get(object->json, "pattern"), object->file, path,
                                   &pattern, err);
    if (!status && json_object_get(pattern.json, "String"))
        return sb_text_unsupported(&pattern, "String", "a Regex instead", err);
    if (!status)
        status = sb_json_only(&pattern, pattern_keys, err);
    if (!status)
        status = sb_json_string(&pattern, "Regex", &text, err);
    return status ? status : add_pattern(t, object, text, err);
}

/* Reads the members of ByteLevel, which are the same for every kind of step. */
static sb_status read_byte_level(const sb_json_object *object, int *prefix, int *regex,
                                 sb_error *err)
{
    static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex",
                                       NULL};
    int offsets;
    sb_status status = sb_json_only(object, keys, err);
    if (!status)
        status = sb_json_bool(object, "add_prefix_space", prefix, err);
    if (!status) /* offsets are not provided here */
        status = sb_json_bool_or(object, "trim_offsets", 1, &offsets, err);
    return status ? status : sb_json_bool_or(object, "use_regex", 1, regex, err);
}

static sb_status load_pre_tokenizer(sb_tokenizer *t, const sb_json_object *object, int last,
                                    sb_error *err)
{
    const char *type;
    int prefix = 0, regex = 0;
    sb_status status = type_of(object, &type, err);
    if (status)
        return status;
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(t, object, "pretokenizers", load_pre_tokenizer, last, err);
    if (strcmp(type, "Split") == 0)
        return last ? sb_text_unsupported(object, "type", "ByteLevel as the last step", err)
                    : load_split(t, object, err);
    if (strcmp(type, "ByteLevel") != 0)
        return sb_text_unsupported(object, "type", "Split, ByteLevel or a Sequence of them", err);
    if (!last)
        return sb_text_unsupported(object, "type", "ByteLevel as the last step only", err);
    status = read_byte_level(object, &prefix, &regex, err);
    t->byte_level = 1;
    if (!status && prefix)
        return sb_text_unsupported(object, "add_prefix_space", "false", err);
    return status || !regex ? status : add_pattern(t, object, gpt2, err);
}

/* Loads a decoder, or a step after encoding that changes only offsets. */
static sb_status load_byte_level(sb_tokenizer *t, const sb_json_object *object, int last,
                                 sb_error *err)
{
    const char *type;
    int prefix, regex;
    sb_status status = type_of(object, &type, err);
    (void)t;
    (void)last;
    if (status)
        return status;
    if (strcmp(type, "ByteLevel") != 0)
        return sb_text_unsupported(object, "type", "\"ByteLevel\"", err);
    return read_byte_level(object, &prefix, &regex, err);
}

static sb_status load_post_processor(sb_tokenizer *t, const sb_json_object *object, int last,
                                     sb_error *err)
{
    const char *type;
    sb_status status = type_of(object, &type, err);
    if (!status && strcmp(type, "Sequence") == 0)
        return load_sequence(t, object, "processors", load_post_processor, last, err);
    return status ? status : load_byte_level(t, object, last, err);
}

/* Loads a member that is an object with `load`; it may be null or absent unless `required`. */
static sb_status load_member(sb_tokenizer *t, const sb_json_object *root, const char *key,
                             load_step *load, int required, sb_error *err)
{
    sb_json_object object;
    json_t *value = sb_json_get(root, key);
    if (!value)
        return required ? sb_text_unsupported(root, key, "an object", err) : SB_OK;
    sb_status status = sb_json_object_at(value, root->file, key, &object, err);
    return status ? status : load(t, &object, 1, err);
}

static sb_status load_document(sb_tokenizer *t, const sb_json_object *root, sb_error *err)
{
    static const char *const keys[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    const char *version = "1.0";
    json_t *vocab = NULL;
    sb_status status = sb_json_only(root, keys, err);
    if (!status)
        status = sb_json_string_or(root, "version", version, &version, err);
    if (!status && strcmp(version, "1.0") != 0)
        return sb_text_unsupported(root, "version", "\"1.0\"", err);
    if (!status && sb_json_get(root, "truncation"))
        return sb_text_unsupported(root, "truncation", "null", err);
    if (!status && sb_json_get(root, "padding"))
        return sb_text_unsupported(root, "padding", "null", err);
    if (!status)
        status = load_member(t, root, "normalizer", load_normalizer, 0, err);
    if (!status)
        status = load_member(t, root, "pre_tokenizer", load_pre_tokenizer, 1, err);
    if (!status && !t->byte_level)
        return sb_text_unsupported(root, "pre_tokenizer", "ByteLevel as its last step", err);
    if (!status)
        status = load_member(t, root, "post_processor", load_post_processor, 0, err);
    if (!status)
        status = load_member(t, root, "decoder", load_byte_level, 1, err);
    if (!status)
        status = sb_text_load_model(t, root, &vocab, err);
    return status ? status : sb_text_load_added(t, root, vocab, err);
}

static sb_status load(json_t *json, const char *name, sb_tokenizer **out, sb_error *err)
{
    sb_json_object root;
    sb_tokenizer *t = sb_alloc(1, sizeof *t);
    if (!t)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a tokenizer");
    sb_status status = sb_json_object_at(json, name, "", &root, err);
    if (!status)
        status = load_document(t, &root, err);
    if (status)
        sb_tokenizer_free(t);
    else
        *out = t;
    return status;
}

sb_status sb_tokenizer_parse(const char *json, size_t bytes, const char *name, sb_tokenizer **out,
                             sb_error *err)
{
    json_t *document = NULL;
    sb_status status = sb_json_parse_rich(json, bytes, name, &document, err);
    if (!status)
        status = load(document, name, out, err);
    json_decref(document);
    return status;
}

sb_status sb_tokenizer_load(const char *path, sb_tokenizer **out, sb_error *err)
{
    json_t *document = NULL;
    sb_status status = sb_json_load(path, &document, err);
    if (!status)
        status = load(document, path, out, err);
    json_decref(document);
    return status;
}
