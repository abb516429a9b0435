/* test_side_files.c - check 51: tokenizer, generation settings, chat template, leftovers. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"

#define VL "T3 bf16 recipe=plain layout=vl"

/* A tokenizer like published ones: fewer tokens than rows of the embedding, added tokens behind the
 * vocabulary, several end tokens. */
static const char tokenizer[] =
    "{\"added_tokens\": [{\"id\": 5, \"content\": \"<|end|>\", \"special\": true},\n"
    " {\"id\": 6, \"content\": \"<|im_end|>\"}, {\"id\": 7, \"content\": \"<|image|>\"}],\n"
    " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 4},\n"
    " \"merges\": [[\"a\", \"b\"], [\"ab\", \"c\"]]}}";
static const char tokenizer_config[] =
    "{\"added_tokens_decoder\": {\"5\": {\"content\": \"<|end|>\"}, \"6\": {\"content\": "
    "\"<|im_end|>\"}},\n \"chat_template\": \"{{ messages }}\"}";
static const char generation_config[] = "{\"eos_token_id\": [6, 5], \"top_k\": 20}";

static void put(folder *f, const char *name, const char *text)
{
    folder_put(f, name, text, strlen(text));
}

static folder *sound(void)
{
    static const char *const ids[] = {"image_token_id", "video_token_id", "vision_start_token_id",
                                      "vision_end_token_id"};
    folder *f = folder_of(VL);
    put(f, "tokenizer.json", tokenizer);
    put(f, "tokenizer_config.json", tokenizer_config);
    put(f, "generation_config.json", generation_config);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        folder_json(f, "config.json", ids[i], "7");
    return f;
}

static folder_result *look(const folder *f, const char *against)
{
    static const unsigned list[] = {51, 0};
    sb_check_options options = {.headers_only = 1};
    folder_only(&options, list);
    return folder_check(f, against, &options);
}

/* A tokenizer of bytes, with a Split of this behavior. */
#define BYTES(behavior)                                                                            \
    "{\"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "        \
    "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x\"}, \"behavior\": "    \
    "\"" behavior "\"}, {\"type\": \"ByteLevel\"}]}, "

static const struct {
    const char *file, *old, *by; /* old NULL: `by` is the whole file */
    int level;                   /* -1: benign */
    const char *says;
} rows[] = {
    {"tokenizer.json", NULL, "{\"model\": {\"vocab\": {\"a\": 0", SB_LEVEL_error, "cannot be read"},
    {"tokenizer.json", NULL, "{\"model\": {}}", SB_LEVEL_error, "model.vocab"},
    {"tokenizer.json", "\"abc\": 4", "\"abc\": 3", SB_LEVEL_error, "id 3 belongs to 'ab' and to"},
    {"tokenizer.json", "\"id\": 5", "\"id\": 2", SB_LEVEL_error, "id 2 belongs to"},
    {"tokenizer.json", "\"content\": \"<|image|>\"", "\"content\": \"abc\"", SB_LEVEL_error,
     "'abc' has the ids 4 and 7"},
    {"tokenizer.json", "\"id\": 7", "\"id\": 384", SB_LEVEL_error, "'<|image|>' has the id 384"},
    {"tokenizer.json", "\"id\": 7", "\"id\": 383", -1, NULL},
    {"tokenizer.json", "\"id\": 7", "\"id\": -7", SB_LEVEL_error, "expected an id"},
    {"tokenizer.json", "[\"ab\", \"c\"]", "[\"b\", \"c\"]", SB_LEVEL_error, "model.merges.1"},
    {"tokenizer.json", "[[\"a\", \"b\"], [\"ab\", \"c\"]]", "[\"a b\", \"ab c\"]", -1, NULL},
    {"tokenizer_config.json", "\"6\": {", "\"4\": {", SB_LEVEL_error,
     "added_tokens_decoder.4 is '<|im_end|>', in tokenizer.json that id is 'abc'"},
    {"tokenizer_config.json", "<|im_end|>", "<|im_and|>", SB_LEVEL_error, "decoder.6 is"},
    {"tokenizer_config.json", "\"6\": {\"content\": \"<|im_end|>\"}",
     "\"9\": {\"content\": \"<new>\"}", SB_LEVEL_warn, "adds '<new>'"},
    {"tokenizer_config.json", NULL, "{", SB_LEVEL_error, "tokenizer_config.json: cannot be read"},
    {"tokenizer_config.json", NULL, "{}", -1, NULL},
    {"tokenizer_config.json", NULL,
     "{\"model_max_length\": 1000000000000000019884624838656, \"chat_template\": \"x\"}", -1, NULL},
    {"tokenizer_config.json", NULL,
     "{\"model_max_length\": 1000000000000000019884624838656, \"added_tokens_decoder\": {\"6\": "
     "{\"content\": \"<|end|>\"}}}",
     SB_LEVEL_error, "added_tokens_decoder.6 is '<|end|>'"},
    {"generation_config.json", NULL, "", SB_LEVEL_error, "generation_config.json: cannot be read"},
    {"generation_config.json", "[6, 5]", "300", SB_LEVEL_error, "generation does not end"},
    {"generation_config.json", "[6, 5]", "[6, 300]", SB_LEVEL_warn, "1 of 2 end tokens"},
    {"generation_config.json", "[6, 5]", "null", -1, NULL},
    /* the steps of tokenizer.json around its merges */
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"truncation\": {\"max_length\": 512}, \"added_tokens\"", SB_LEVEL_warn, "cut every prompt"},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"truncation\": null, \"padding\": {\"strategy\": \"BatchLongest\"}, \"added_tokens\"", -1,
     NULL},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"padding\": {\"strategy\": {\"Fixed\": 99}}, \"added_tokens\"", SB_LEVEL_error,
     "up to 99 tokens"},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\"", SB_LEVEL_error,
     "answers show these letters"},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"decoder\": {\"type\": \"ByteLevel\"}, \"added_tokens\"", SB_LEVEL_error,
     "decoder is ByteLevel, but neither"},
    {"tokenizer.json", "{\"added_tokens\"", BYTES("Isolated") "\"added_tokens\"", -1, NULL},
    {"tokenizer.json", "{\"added_tokens\"", BYTES("Removed") "\"added_tokens\"", SB_LEVEL_error,
     "step 0 of pre_tokenizer removes"},
    {"tokenizer.json", "[\"a\", \"b\"], [\"ab\", \"c\"]", "", SB_LEVEL_error,
     "'ab' can never be made"},
    {"tokenizer.json", "\"BPE\"", "\"WordPiece\"", SB_LEVEL_error, "which only BPE reads"},
    /* tokens by name */
    {"tokenizer_config.json", "{\"added", "{\"eos_token\": \"</s>\", \"added", SB_LEVEL_error,
     "eos_token is '</s>', which is not a token"},
    {"tokenizer_config.json", "{\"added", "{\"eos_token\": {\"content\": \"<|end|>\"}, \"added", -1,
     NULL},
    {"tokenizer_config.json", "{\"added", "{\"pad_token\": \"<pad>\", \"added", SB_LEVEL_warn,
     "pad_token is '<pad>'"},
    {"tokenizer_config.json", "{\"added",
     "{\"bos_token\": \"<s>\", \"add_bos_token\": true, \"added", SB_LEVEL_error,
     "put it before every text"},
    {"special_tokens_map.json", NULL, "{\"eos_token\": \"</s>\"}", SB_LEVEL_error,
     "special_tokens_map.json: eos_token"},
    {"special_tokens_map.json", NULL, "{\"eos_token\": \"<|end|>\"}", -1, NULL},
    {"added_tokens.json", NULL, "{\"<new>\": 5}", SB_LEVEL_error, "belongs to another token"},
    {"added_tokens.json", NULL, "{\"<|end|>\": 5, \"<|im_end|>\": 6}", -1, NULL},
    {"tokenizer_config.json", "{\"added", "{\"tokenizer_class\": \"Qwen2Tokenizer\", \"added", -1,
     NULL},
    /* generation */
    {"generation_config.json", "20", "-5", SB_LEVEL_error, "top_k is -5"},
    {"generation_config.json", "20", "20, \"temperature\": 0, \"top_p\": 1, \"min_p\": 0", -1,
     NULL},
    {"generation_config.json", "20", "20, \"top_p\": 0", SB_LEVEL_error, "top_p is 0"},
    {"generation_config.json", "20", "20, \"temperature\": -0.5", SB_LEVEL_error, "temperature is"},
    {"config.json", "\"eos_token_id\": null", "\"eos_token_id\": 400", SB_LEVEL_error,
     "eos_token_id is 400, expected less"},
    {"config.json", "\"eos_token_id\": null", "\"eos_token_id\": 300", SB_LEVEL_error,
     "eos_token_id is 300, which is not a token"},
    {"config.json", "\"eos_token_id\": null", "\"eos_token_id\": 5", -1, NULL},
    /* the template */
    {"chat_template.jinja", NULL, "{% for m in messages %}{{ m }}", SB_LEVEL_error, "block for"},
    {"chat_template.jinja", NULL, "{% if a %}{% for m in b %}{% endif %}{% endfor %}",
     SB_LEVEL_error, "at the tag endif"},
    {"chat_template.jinja", NULL, "{{ m }", SB_LEVEL_error, "{{ does not end"},
    {"chat_template.jinja", NULL, "{% endif %}", SB_LEVEL_error, "no block is open"},
    {"chat_template.jinja", NULL,
     "{# {% if #}{%- macro f(x='%}') -%}{% set y %}{{ {'a': {'b': 1}}.a ~ \"}}\" }}{% endset %}"
     "{% set z = 1 %}{%+ if x == '{%' %}}{a{% elif y %}{% else %}{% endif %}{%- endmacro %}",
     -1, NULL},
    {"chat_template.jinja", NULL, "{% raw %}{{ {% if {% endraw %}", -1, NULL},
    /* leftovers of others */
    {"adapter_config.json", NULL, "{}", SB_LEVEL_warn, "adapter_config.json is beside"},
    {"config.json", "\"image_token_id\": 7", "\"image_token_id\": 384", SB_LEVEL_error,
     "image_token_id is 384, expected less than vocab_size, which is 384"},
    {"config.json", "\"video_token_id\": 7", "\"video_token_id\": 8", -1, NULL},
    {"model.safetensors.aria2", NULL, "x", SB_LEVEL_warn, "a download was not finished"},
    {"x.safetensors.incomplete", NULL, "x", SB_LEVEL_warn, "a download was not finished"},
    {"README.md.part", NULL, "x", SB_LEVEL_warn, "a download was not finished"},
    {"partial.md", NULL, "x", -1, NULL},
};

static void expect_said(const folder_result *r, int level, const char *says, size_t row)
{
    size_t above = 0;
    int said = level < 0;
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        above += f->level > SB_LEVEL_info;
        said |= says && (int)f->level == level && strstr(f->message, says) != NULL;
    }
    if (!said || (above != 0) != (level >= 0)) {
        folder_print(r);
        fail_msg("row %zu: expected %s", row, says ? says : "nothing");
    }
}

TEST(test_rows)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folder *f = sound();
        if (rows[i].old)
            folder_replace(f, rows[i].file, rows[i].old, rows[i].by);
        else
            put(f, rows[i].file, rows[i].by);
        folder_result *r = look(f, NULL);
        expect_said(r, rows[i].level, rows[i].says, i);
        folder_result_free(r);
        folder_free(f);
    }
}

/* A folder without side files has nothing to look at. Sound side files give no finding. */
TEST(test_none)
{
    folder *f = folder_of("T3 bf16 recipe=plain");
    folder_result *r = look(f, NULL);
    expect_said(r, -1, NULL, 0);
    assert_int_equal(r->check.side_files, 0);
    folder_result_free(r);
    folder_free(f);
    f = sound();
    r = look(f, NULL);
    expect_said(r, -1, NULL, 0);
    assert_true(r->check.side_files > 2);
    folder_result_free(r);
    folder_free(f);
}

/* Changes beside an original. */
static const struct {
    const char *file, *old, *by; /* by NULL: the file is removed */
    int level;
    const char *says;
} beside[] = {
    {"tokenizer.json", " \"model\"", "\n\n\"model\"", -1, NULL},
    {"tokenizer.json", "[[\"a\", \"b\"], [\"ab\", \"c\"]]", "[\"a b\", \"ab c\"]", -1, NULL},
    {"tokenizer.json", "\"a\": 0, \"b\": 1", "\"a\": 1, \"b\": 0", SB_LEVEL_error,
     "'a' has the id 1, in the original 0; 2 of 8 tokens"},
    {"tokenizer.json", ", {\"id\": 7, \"content\": \"<|image|>\"}",
     ", {\"id\": 7, \"content\": \"<|vision|>\"}", SB_LEVEL_error, "'<|image|>' has no id"},
    {"tokenizer.json", "{\"id\": 7,", "{\"id\": 8, \"content\": \"<8>\"}, {\"id\": 7,",
     SB_LEVEL_warn, "'<8>' (id 8) is not a token of the original"},
    {"tokenizer.json", "[\"a\", \"b\"], [\"ab\", \"c\"]", "[\"ab\", \"c\"], [\"a\", \"b\"]",
     SB_LEVEL_error, "from merge 0 on"},
    {"tokenizer.json", ", [\"ab\", \"c\"]", "", SB_LEVEL_error, "merges: 1, in the original 2"},
    {"tokenizer_config.json", ",\n \"chat_template\": \"{{ messages }}\"", "", SB_LEVEL_warn,
     "no chat template"},
    {"tokenizer.json", NULL, NULL, SB_LEVEL_error, "tokenizer.json is missing"},
    {"tokenizer_config.json", NULL, NULL, SB_LEVEL_warn, "tokenizer_config.json is missing"},
    {"generation_config.json", NULL, NULL, SB_LEVEL_warn, "generation_config.json is missing"},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"normalizer\": {\"type\": \"NFKC\"}, \"added_tokens\"", SB_LEVEL_error,
     "step 0 of normalizer"},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"normalizer\": null, \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
     "[{\"Sequence\": {\"id\": \"A\"}}]}, \"added_tokens\"",
     -1, NULL},
    {"tokenizer.json", "{\"added_tokens\"",
     "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
     "{\"id\": \"<|end|>\"}}, {\"Sequence\": {\"id\": \"A\"}}]}, \"added_tokens\"",
     SB_LEVEL_error, "step 0 of post_processor"},
    {"tokenizer.json", "\"model\": {", "\"model\": {\"ignore_merges\": true, ", SB_LEVEL_error,
     "model.ignore_merges is true"},
    {"tokenizer.json", "\"model\": {",
     "\"model\": {\"ignore_merges\": false, \"dropout\": null, \"end_of_word_suffix\": \"\", ", -1,
     NULL},
    {"tokenizer.json", "\"special\": true", "\"special\": false", SB_LEVEL_error,
     "special of the added token '<|end|>' is false"},
    {"tokenizer_config.json", "{\"added", "{\"eos_token\": \"<|end|>\", \"added", SB_LEVEL_error,
     "eos_token is '<|end|>', in the original 'none'"},
    {"tokenizer_config.json", "{\"added", "{\"add_bos_token\": false, \"added", -1, NULL},
    {"tokenizer_config.json", "{{ messages }}", "{{ message }}", SB_LEVEL_warn,
     "is not the template of the original"},
    {"generation_config.json", "[6, 5]", "[5, 6]", -1, NULL},
    {"generation_config.json", "[6, 5]", "[6]", SB_LEVEL_error, "answers end elsewhere"},
    {"generation_config.json", "20", "40", SB_LEVEL_warn, "top_k is 40, in the original 20"},
};

TEST(test_beside)
{
    folder *o = sound();
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        folder *f = sound();
        const char *original = folder_write(o);
        if (beside[i].by)
            folder_replace(f, beside[i].file, beside[i].old, beside[i].by);
        else
            folder_remove(f, beside[i].file);
        folder_result *r = look(f, original);
        expect_said(r, beside[i].level, beside[i].says, i);
        folder_result_free(r);
        folder_free(f);
    }
    /* a template in its own file counts, too */
    folder *f = sound();
    folder_json(f, "tokenizer_config.json", "chat_template", NULL);
    put(f, "chat_template.jinja", "{{ messages }}");
    folder_result *r = look(f, folder_write(o));
    expect_said(r, -1, NULL, 0);
    folder_result_free(r);
    folder_free(f);
    folder_free(o);
}
