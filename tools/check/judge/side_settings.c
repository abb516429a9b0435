/* side_settings.c - check 51: which tokens begin, end and pad a text, and the sampling settings. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/side_files.h"

/* The files that name such tokens. */
typedef struct files {
    const sb_token_table *table;
    /* tokenizer_config, special_tokens_map, generation_config */
    const json_t *config, *map, *settings;
} files;

/* "<|im_end|>", or {"content": "<|im_end|>"}. */
static const char *token_named(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* V-151: 1 if tokenizer.json has the token, or added_tokens_decoder, whose tokens transformers
 * adds. */
static int is_token(const files *f, const char *content)
{
    const char *key;
    json_t *row, *rows = json_object_get(f->config, "added_tokens_decoder");
    if (sb_token_of_content(f->table, content))
        return 1;
    json_object_foreach(rows, key, row)
    {
        const char *here = json_string_value(json_object_get(row, "content"));
        if (here && strcmp(here, content) == 0)
            return 1;
    }
    return 0;
}

static int is_id(const files *f, json_int_t id)
{
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)id);
    return id >= 0 && (sb_token_of_id(f->table, (uint64_t)id) ||
                       json_object_get(json_object_get(f->config, "added_tokens_decoder"), key));
}

/* --- tokens by name --------------------------------------------------------------------------- */

/* 1 for the token that begins every turn in ChatML: a text cannot end with it. */
static int begins_turn(const char *content)
{
    return content && strcmp(content, "<|im_start|>") == 0;
}

/* V-151: "eos_token, bos_token and pad_token" */
static void tell_named(sb_check *check, const files *f, const char *file, const json_t *object)
{
    static const char *const keys[] = {"eos_token", "bos_token", "pad_token"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *content = token_named(object, keys[i]);
        int put = i == 1 && json_is_true(json_object_get(object, "add_bos_token"));
        if (!content || !f->table->json)
            continue;
        if (!is_token(f, content))
            sb_check_find(check, 51, i == 0 || put ? SB_LEVEL_error : SB_LEVEL_warn, "",
                          "%s: %s is '%s', which is not a token of tokenizer.json%s", file, keys[i],
                          SB_SHOW(content),
                          i == 0 ? ": engines do not find the end of an answer"
                          : put  ? ", and engines put it before every text"
                                 : "");
        else if (i == 0 && begins_turn(content))
            sb_check_find(
                check, 51, SB_LEVEL_error, "",
                "%s: eos_token is '%s', which begins a turn, expected a token that ends one", file,
                SB_SHOW(content));
    }
}

/* V-151: "an end that is not special" */
static void tell_plain_end(sb_check *check, const files *f)
{
    const char *end = token_named(f->config, "eos_token");
    const json_t *rows = json_object_get(f->table->json, "added_tokens");
    for (size_t i = 0; end && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *content = json_string_value(json_object_get(row, "content"));
        if (content && strcmp(content, end) == 0 && json_is_false(json_object_get(row, "special")))
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "tokenizer.json: special of the end token '%s' is false, expected true: "
                          "answers show this token",
                          SB_SHOW(end));
    }
}

/* V-151: "a class whose vocabulary is of SentencePiece" */
static void tell_foreign_class(sb_check *check, const char *folder, const files *f)
{
    static const char *const classes[] = {"LlamaTokenizer", "CodeLlamaTokenizer",
                                          "GemmaTokenizer", "T5Tokenizer",
                                          "XLNetTokenizer", "AlbertTokenizer"};
    const char *name = json_string_value(json_object_get(f->config, "tokenizer_class"));
    const json_t *decoder = json_object_get(f->table->json, "decoder");
    const char *type = json_string_value(json_object_get(decoder, "type"));
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++)
        if (strcmp(name, classes[i]) == 0 && type && strcmp(type, "ByteLevel") == 0 &&
            !sb_side_exists(folder, "tokenizer.model") && !sb_side_exists(folder, "spiece.model"))
            sb_check_find(
                check, 51, SB_LEVEL_error, "",
                "tokenizer_config.json: tokenizer_class is %s, which reads a tokenizer.model; "
                "there is no such file, and tokenizer.json is a tokenizer of bytes",
                name);
}

/* V-151: "added_tokens.json" */
static void tell_added_file(sb_check *check, const files *f, const json_t *added)
{
    const char *content, *first = NULL;
    json_t *id;
    size_t wrong = 0;
    json_object_foreach((json_t *)(uintptr_t)added, content, id)
    {
        const sb_token_row *here, *same = sb_token_of_content(f->table, content);
        json_int_t n = json_integer_value(id);
        here = n < 0 ? NULL : sb_token_of_id(f->table, (uint64_t)n);
        if (!json_is_integer(id) || (same && same->id == (uint64_t)n) || (!same && !here))
            continue;
        if (wrong++ == 0 || strcmp(content, first) < 0)
            first = content;
    }
    if (wrong)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "added_tokens.json: '%s' has an id that belongs to another token in "
                      "tokenizer.json, one of %zu such tokens of %zu",
                      SB_SHOW(first), wrong, json_object_size(added));
}

/* --- end tokens by id ------------------------------------------------------------------------- */

static const json_t *id_at(const json_t *ids, size_t i)
{
    return json_is_array(ids) ? json_array_get(ids, i) : i == 0 ? ids : NULL;
}

static int has_id(const json_t *ids, uint64_t id)
{
    const json_t *one;
    for (size_t i = 0; (one = id_at(ids, i)); i++)
        if (json_is_integer(one) && json_integer_value(one) == (json_int_t)id)
            return 1;
    return 0;
}

/* V-151: "a token that cannot end a text" */
static void tell_no_end(sb_check *check, const files *f, const char *file, const json_t *ids)
{
    const char *end = token_named(f->config, "eos_token");
    const sb_token_row *eos = end ? sb_token_of_content(f->table, end) : NULL;
    const json_t *one;
    if (!eos || has_id(ids, eos->id))
        return;
    for (size_t i = 0; (one = id_at(ids, i)); i++) {
        json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        const sb_token_row *row = id < 0 ? NULL : sb_token_of_id(f->table, (uint64_t)id);
        int word = row && !sb_token_is_added(f->table, row->id);
        if (!row || (!begins_turn(row->content) && !(word && sb_token_is_added(f->table, eos->id))))
            continue;
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "%s: eos_token_id %lld is '%s', which %s; in tokenizer_config.json the end "
                      "token is '%s', with the id %" PRIu64,
                      file, (long long)id, SB_SHOW(row->content),
                      word ? "is a piece of ordinary text" : "begins a turn", SB_SHOW(end),
                      eos->id);
    }
}

/* V-151: "Ids of config.json are judged as well" */
static void tell_model_ids(sb_check *check, const files *f, const json_t *object, const char *where)
{
    static const char *const keys[] = {"eos_token_id", "bos_token_id", "pad_token_id"};
    uint64_t rows = check->self.config.vocab_size;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *ids = json_object_get(object, keys[k]), *one;
        size_t all = 0, beyond = 0, absent = 0;
        json_int_t first = 0;
        for (size_t i = 0; (one = id_at(ids, i)); i++) {
            json_int_t id = json_integer_value(one);
            int far = id >= 0 && (uint64_t)id >= rows;
            int none = !far && id >= 0 && f->table->json && !is_id(f, id);
            if (!json_is_integer(one))
                continue;
            all++;
            if ((far || none) && beyond + absent == 0)
                first = id;
            beyond += far != 0;
            absent += none != 0;
        }
        check->side_files += all && check->side_files == 0 && beyond;
        if (beyond)
            sb_check_find(check, 51, k == 0 ? SB_LEVEL_error : SB_LEVEL_warn, "",
                          "config.json: %s%s is %lld, expected less than vocab_size, which is "
                          "%" PRIu64,
                          where, keys[k], (long long)first, rows);
        else if (absent && k == 0)
            sb_check_find(check, 51, absent == all ? SB_LEVEL_error : SB_LEVEL_warn, "",
                          "config.json: %s%s is %lld, which is not a token of tokenizer.json, and "
                          "%zu of %zu end tokens are not",
                          where, keys[k], (long long)first, absent, all);
        if (k == 0 && !beyond && !absent)
            tell_no_end(check, f, "config.json", ids);
    }
}

/* --- sampling --------------------------------------------------------------------------------- */

/* V-151: "values with which nothing can be drawn" */
static void tell_sampling(sb_check *check, const json_t *settings)
{
    static const struct {
        const char *key;
        double low, high;
        int open; /* low itself is excluded */
        const char *expected;
    } ranges[] = {
        {"temperature", 0, 1e30, 0, "0 or more"},
        {"top_p", 0, 1, 1, "more than 0 and at most 1"},
        {"top_k", -1, 1e30, 0, "a number of tokens"},
        {"min_p", 0, 1, 0, "0 to 1"},
        {"typical_p", 0, 1, 1, "more than 0 and at most 1"},
        {"repetition_penalty", 0, 1e30, 1, "more than 0"},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const json_t *value = json_object_get(settings, ranges[i].key);
        double x = json_number_value(value);
        sb_value_text room;
        int out = json_is_number(value) && (x < ranges[i].low || x > ranges[i].high ||
                                            (ranges[i].open && x == ranges[i].low));
        if (out || json_is_string(value))
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "generation_config.json: %s is %s, expected %s: engines refuse every "
                          "request that does not set this value",
                          ranges[i].key, sb_value_show(value, &room), ranges[i].expected);
    }
}

/* --- comparison with the original ------------------------------------------------------------- */

/* The length of a class name without "Fast", which names another implementation of the same
 * class. */
static size_t class_length(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, "Fast") == 0 ? n - 4 : n;
}

/* 1 for a class that only does what tokenizer.json says, or of this family, for which
 * tokenizer.json is compared. */
static int is_plain_class(const char *name)
{
    static const char *const plain[] = {"PreTrainedTokenizer", "TokenizersBackend", "AutoTokenizer",
                                        "PythonBackend"};
    size_t n = class_length(name);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (n == strlen(plain[i]) && strncmp(name, plain[i], n) == 0)
            return 1;
    return strncmp(name, "Qwen", 4) == 0;
}

/* V-151: "the class of another family" */
static void tell_class(sb_check *check, const files *own, const files *other)
{
    const char *a = json_string_value(json_object_get(own->config, "tokenizer_class"));
    const char *b = json_string_value(json_object_get(other->config, "tokenizer_class"));
    if (!a || !b || is_plain_class(a))
        return;
    size_t n = class_length(a);
    if (n != class_length(b) || strncmp(a, b, n) != 0)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer_config.json: tokenizer_class is %s, in the original %s: this "
                      "class cuts text by its own rules",
                      SB_SHOW(a), SB_SHOW(b));
}

/* V-151: "Other tokens that begin, end and fill a text" */
static void compare_named(sb_check *check, const files *own, const files *other)
{
    static const char *const keys[] = {"eos_token", "bos_token", "pad_token"};
    int a = json_is_true(json_object_get(own->config, "add_bos_token"));
    int b = json_is_true(json_object_get(other->config, "add_bos_token"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *x = token_named(own->config, keys[i]);
        const char *y = token_named(other->config, keys[i]);
        int ends = i == 0, begins = i == 1 && (a || b);
        if (!own->config || (!x && !y) || (x && y && strcmp(x, y) == 0))
            continue;
        sb_check_find(check, 51, ends || begins ? SB_LEVEL_error : SB_LEVEL_warn, "",
                      "tokenizer_config.json: %s is '%s', in the original '%s'%s", keys[i],
                      x ? SB_SHOW(x) : "none", y ? SB_SHOW(y) : "none",
                      ends     ? ": answers end elsewhere"
                      : begins ? ": another token is put before every text"
                               : "");
    }
    if (own->config && a != b)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer_config.json: add_bos_token is %s, in the original %s: every text "
                      "begins with one token more or less",
                      a ? "true" : "false", b ? "true" : "false");
}

/* V-151: "A tokenizer_config.json that is missing" */
static void tell_lost_config(sb_check *check, const files *own, const files *other)
{
    const char *end = token_named(other->config, "eos_token");
    const sb_token_row *row = end ? sb_token_of_content(own->table, end) : NULL;
    const json_t *ids = json_object_get(own->settings, "eos_token_id");
    int known = token_named(own->map, "eos_token") || (row && has_id(ids, row->id));
    if (own->config || !other->config || !own->table->json)
        return;
    sb_check_find(check, 51, end && !known ? SB_LEVEL_error : SB_LEVEL_warn, "",
                  "tokenizer_config.json is missing, and the original has one%s",
                  end && !known ? ": nothing says which token ends an answer" : "");
}

/* V-151: "an end that the original has" */
static void compare_settings(sb_check *check, const json_t *own, const json_t *other)
{
    static const char *const keys[] = {
        "do_sample",          "temperature",      "top_p",       "top_k", "min_p", "bos_token_id",
        "repetition_penalty", "presence_penalty", "pad_token_id"};
    const json_t *a = json_object_get(own, "eos_token_id");
    const json_t *b = json_object_get(other, "eos_token_id"), *one;
    sb_value_text x, y;
    size_t lost = 0;
    if (other && !own)
        sb_check_find(check, 51, SB_LEVEL_warn, "",
                      "generation_config.json is missing, and the original has one");
    if (!own || !other)
        return;
    for (size_t i = 0; (one = id_at(b, i)); i++)
        lost += json_is_integer(one) && !has_id(a, (uint64_t)json_integer_value(one));
    if (lost || (a && b && !sb_ids_same(a, b)))
        sb_check_find(check, 51, lost ? SB_LEVEL_error : SB_LEVEL_warn, "",
                      "generation_config.json: eos_token_id is %s, in the original %s: answers end "
                      "elsewhere",
                      sb_value_show(a, &x), sb_value_show(b, &y));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        a = sb_value_get(own, keys[i]), b = sb_value_get(other, keys[i]);
        if (a && b && !sb_value_same(a, b))
            sb_check_find(check, 51, SB_LEVEL_warn, "",
                          "generation_config.json: %s is %s, in the original %s", keys[i],
                          sb_value_show(a, &x), sb_value_show(b, &y));
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

static void beside(sb_check *check, const files *own, const char *original,
                   const sb_token_table *others)
{
    files other = {.table = others};
    json_t *config = sb_side_json(check, original, "tokenizer_config.json", 0);
    json_t *settings = sb_side_json(check, original, "generation_config.json", 0);
    other.config = config;
    tell_class(check, own, &other);
    compare_named(check, own, &other);
    tell_lost_config(check, own, &other);
    compare_settings(check, own->settings, settings);
    json_decref(settings);
    json_decref(config);
}

void sb_side_settings(sb_check *check, const char *folder, const char *original,
                      const sb_side_trees *trees)
{
    json_t *map = sb_side_json(check, folder, "special_tokens_map.json", 1);
    json_t *added = sb_side_json(check, folder, "added_tokens.json", 1);
    files f = {trees->table, trees->config, map, trees->settings};
    tell_named(check, &f, "tokenizer_config.json", f.config);
    tell_named(check, &f, "special_tokens_map.json", map);
    tell_plain_end(check, &f);
    tell_foreign_class(check, folder, &f);
    tell_sampling(check, f.settings);
    tell_no_end(check, &f, "generation_config.json", json_object_get(f.settings, "eos_token_id"));
    if (f.table->json)
        tell_added_file(check, &f, added);
    if (check->self.has_config) {
        json_t *model = sb_side_json(check, folder, "config.json", 0);
        tell_model_ids(check, &f, model, "");
        tell_model_ids(check, &f, json_object_get(model, "text_config"), "text_config.");
        json_decref(model);
    }
    if (original)
        beside(check, &f, original, trees->others);
    json_decref(added);
    json_decref(map);
}
