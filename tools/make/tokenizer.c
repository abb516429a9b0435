/* tokenizer.c - tokenizer.json in the structure that Qwen publishes: N-10. */
#include "tools/make/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/make/json_text.h"

/* N-10: "the expression of Qwen3.5" */
static const char qwen3_5[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

enum { SPECIAL = sizeof special / sizeof *special };

static void put_added(sb_json_out *out, uint32_t first)
{
    static const char *const no[] = {"single_word", "lstrip", "rstrip", "normalized"};
    sb_put_key(out, "added_tokens");
    sb_put_open(out, '[');
    for (uint32_t i = 0; i < SPECIAL; i++) {
        sb_put_element(out);
        sb_put_open(out, '{');
        sb_put_count(out, "id", first + i);
        sb_put_string(out, "content", special[i]);
        for (size_t j = 0; j < sizeof no / sizeof *no; j++)
            sb_put_text(out, no[j], "false");
        sb_put_text(out, "special", "true");
        sb_put_close(out, '}');
    }
    sb_put_close(out, ']');
}

static void put_byte_level(sb_json_out *out)
{
    sb_put_open(out, '{');
    sb_put_string(out, "type", "ByteLevel");
    sb_put_text(out, "add_prefix_space", "false");
    sb_put_text(out, "trim_offsets", "false");
    sb_put_text(out, "use_regex", "false");
    sb_put_close(out, '}');
}

static void put_steps(sb_json_out *out)
{
    sb_put_key(out, "normalizer");
    sb_put_open(out, '{');
    sb_put_string(out, "type", "NFC");
    sb_put_close(out, '}');
    sb_put_key(out, "pre_tokenizer");
    sb_put_open(out, '{');
    sb_put_string(out, "type", "Sequence");
    sb_put_key(out, "pretokenizers");
    sb_put_open(out, '[');
    sb_put_element(out);
    sb_put_open(out, '{');
    sb_put_string(out, "type", "Split");
    sb_put_key(out, "pattern");
    sb_put_open(out, '{');
    sb_put_string(out, "Regex", qwen3_5);
    sb_put_close(out, '}');
    sb_put_string(out, "behavior", "Isolated");
    sb_put_text(out, "invert", "false");
    sb_put_close(out, '}');
    sb_put_element(out);
    put_byte_level(out);
    sb_put_close(out, ']');
    sb_put_close(out, '}');
    sb_put_key(out, "post_processor");
    put_byte_level(out);
    sb_put_key(out, "decoder");
    put_byte_level(out);
}

static void put_model(sb_json_out *out, const sb_made_vocabulary *v)
{
    sb_put_key(out, "model");
    sb_put_open(out, '{');
    sb_put_string(out, "type", "BPE");
    sb_put_text(out, "dropout", "null");
    sb_put_text(out, "unk_token", "null");
    sb_put_string(out, "continuing_subword_prefix", "");
    sb_put_string(out, "end_of_word_suffix", "");
    sb_put_text(out, "fuse_unk", "false");
    sb_put_text(out, "byte_fallback", "false");
    sb_put_text(out, "ignore_merges", "false");
    sb_put_key(out, "vocab");
    sb_put_open(out, '{');
    for (uint32_t id = 0; id < v->count; id++)
        sb_put_count(out, v->tokens[id].name, id);
    sb_put_close(out, '}');
    sb_put_key(out, "merges");
    sb_put_open(out, '[');
    for (size_t i = 0; i < v->merge_count; i++) {
        sb_put_element(out);
        sb_put_open(out, '[');
        sb_put_item(out, v->tokens[v->merges[i][0]].name);
        sb_put_item(out, v->tokens[v->merges[i][1]].name);
        sb_put_close(out, ']');
    }
    sb_put_close(out, ']');
    sb_put_close(out, '}');
}

static void put_tokenizer(sb_json_out *out, const sb_made_vocabulary *v)
{
    sb_put_string(out, "version", "1.0");
    sb_put_text(out, "truncation", "null");
    sb_put_text(out, "padding", "null");
    put_added(out, v->count);
    put_steps(out);
    put_model(out, v);
}

/* The configuration with which transformers reads tokenizer.json unchanged. */
static void put_config(sb_json_out *out, const sb_made_vocabulary *v)
{
    (void)v;
    sb_put_text(out, "add_bos_token", "false");
    sb_put_text(out, "clean_up_tokenization_spaces", "false");
    sb_put_string(out, "eos_token", special[2]);
    sb_put_string(out, "pad_token", special[0]);
    sb_put_string(out, "tokenizer_class", "PreTrainedTokenizerFast");
}

static sb_status write_document(const char *dir, const char *name,
                                void (*put)(sb_json_out *out, const sb_made_vocabulary *v),
                                const sb_made_vocabulary *v, sb_error *err)
{
    char *text = NULL, *path = sb_path_join(dir, name);
    size_t size = 0;
    sb_json_out out = {.file = path ? open_memstream(&text, &size) : NULL};
    if (out.file) {
        sb_put_open(&out, '{');
        put(&out, v);
        sb_put_close(&out, '}');
        sb_put_finish(&out, &text);
    }
    sb_status status =
        text ? sb_write_file(path, text, size, err)
             : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %s", SB_SHOW(dir), name);
    free(text);
    free(path);
    return status;
}

sb_status sb_make_write_tokenizer(const char *dir, uint32_t ids_used, sb_error *err)
{
    sb_made_vocabulary v = {0};
    sb_status status = SB_OK;
    if (ids_used < 256 + SPECIAL)
        return sb_fail(err, SB_ERR_USAGE,
                       "a tokenizer needs at least %d ids, but the preset has only %u",
                       256 + SPECIAL, (unsigned)ids_used);
    status = sb_make_train(qwen3_5, ids_used - SPECIAL, &v, err);
    if (!status)
        status = write_document(dir, "tokenizer.json", put_tokenizer, &v, err);
    if (!status)
        status = write_document(dir, "tokenizer_config.json", put_config, &v, err);
    sb_made_vocabulary_free(&v);
    return status;
}
