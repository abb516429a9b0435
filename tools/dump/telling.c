#include "tools/dump/telling.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/dump/npy.h"

sb_status sb_tell_fail(const sb_telling *t, const char *format, ...)
{
    char words[400];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return sb_fail(t->err, SB_ERR_INPUT, "%s: document %zu: %s: %s", SB_SHOW(t->file), t->document,
                   t->where, words);
}

void sb_tell_where(sb_telling *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t->where, sizeof t->where, format, args);
    va_end(args);
}

const json_t *sb_tell_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

sb_status sb_tell_number(const sb_telling *t, const json_t *value, double *out)
{
    sb_json_text room;
    if (!json_is_number(value))
        return sb_tell_fail(t, "found %s, expected a number", sb_json_found(value, &room));
    *out = json_number_value(value);
    return SB_OK;
}

static sb_status check_id(const sb_telling *t, int64_t id, uint32_t *out)
{
    int64_t most = t->options->vocab_size ? t->options->vocab_size : SB_DUMP_MAX_VOCAB;
    if (id < 0 || id >= most)
        return sb_tell_fail(t, "%lld is not a token id; the vocabulary has %s%lld ids",
                            (long long)id, t->options->vocab_size ? "" : "at most ",
                            (long long)most);
    *out = (uint32_t)id;
    return SB_OK;
}

sb_status sb_tell_id(const sb_telling *t, const json_t *value, uint32_t *out)
{
    sb_json_text room;
    if (!json_is_integer(value))
        return sb_tell_fail(t, "found %s, expected an id", sb_json_found(value, &room));
    return check_id(t, json_integer_value(value), out);
}

/* --- tokens that come as text ----------------------------------------------------------------- */

/* The bytes of a token from a list of numbers; NULL for anything else, or if memory is out. */
static char *bytes_of(const json_t *list, size_t *size)
{
    size_t n = json_array_size(list);
    char *out = sb_alloc(n + 1, 1);
    for (size_t i = 0; i < n && out; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t value = json_integer_value(item);
        if (!json_is_integer(item) || value < 0 || value > 255) {
            free(out);
            return NULL;
        }
        out[i] = (char)value;
    }
    *size = n;
    return out;
}

static sb_status find_text(const sb_telling *t, const char *bytes, size_t size, uint32_t *out)
{
    size_t n = sb_token_texts_find(*t->texts, bytes, size, out);
    if (n == 1)
        return check_id(t, *out, out);
    if (n > 1)
        return sb_tell_fail(t,
                            "the text \"%.60s\" is ambiguous: %zu tokens have this text, the first "
                            "is %u; ask the server for ids",
                            SB_SHOW(bytes), n, (unsigned)*out);
    return sb_tell_fail(t, "no token has the text \"%.60s\"; ask the server for ids",
                        SB_SHOW(bytes));
}

static sb_status load_texts(const sb_telling *t)
{
    if (*t->texts)
        return SB_OK;
    if (!t->options->tokenizer)
        return sb_tell_fail(t, "tokens come as text: --checkpoint with a tokenizer.json is needed");
    return sb_token_texts_new(t->options->tokenizer, t->texts, t->err);
}

/* The replacement character stands for an incomplete character. */
static int is_cut(const char *text)
{
    return strstr(text, "\xef\xbf\xbd") != NULL;
}

static sb_status token_of_text(const sb_telling *t, const char *text, const json_t *bytes,
                               uint32_t *out)
{
    size_t size = strlen(text);
    char *own = NULL;
    sb_status status = load_texts(t);
    if (status)
        return status;
    if (bytes) {
        own = bytes_of(bytes, &size);
        if (!own)
            return sb_tell_fail(t, "\"bytes\" is not a list of bytes");
    } else if (is_cut(text)) {
        return sb_tell_fail(t, "a token is part of a character: its text does not identify it; ask "
                               "the server for ids");
    }
    status = find_text(t, own ? own : text, size, out);
    free(own);
    return status;
}

/* J-35: "A token is an id: a number" */
sb_status sb_tell_token(const sb_telling *t, const char *text, const json_t *bytes, uint32_t *out)
{
    static const char named[] = "token_id:";
    int64_t id = 0;
    size_t n;
    if (!text)
        return sb_tell_fail(t, "a token has no text");
    if (!sb_starts(text, named))
        return token_of_text(t, text, bytes, out);
    const char *digits = text + strlen(named);
    n = strspn(digits, "0123456789");
    if (n == 0 || n > 9 || digits[n])
        return sb_tell_fail(t, "\"%.40s\" is not a token id", SB_SHOW(text));
    for (size_t i = 0; i < n; i++)
        id = id * 10 + (digits[i] - '0');
    return check_id(t, id, out);
}

/* --- the prompt ------------------------------------------------------------------------------- */

sb_status sb_tell_ids(sb_telling *t, const json_t *ids)
{
    sb_json_text room;
    sb_status status = SB_OK;
    if (!json_is_array(ids))
        return sb_tell_fail(t, "found %s, expected a list of ids", sb_json_found(ids, &room));
    for (size_t i = 0; i < json_array_size(ids) && !status; i++) {
        uint32_t id = 0;
        status = sb_tell_id(t, json_array_get(ids, i), &id);
        if (!status)
            status = sb_spoken_token(t->out, id, t->err);
    }
    return status;
}

size_t sb_tell_count(const json_t *object, const char *key)
{
    const json_t *value = sb_tell_get(object, key);
    json_int_t count = json_integer_value(value);
    return json_is_integer(value) && count > 0 && count < SB_POSITION_LIMIT ? (size_t)count : 0;
}

/* J-34: "If the answer lacks the ids of the prompt" */
static sb_status take_given(sb_telling *t)
{
    size_t given = 0, n;
    const uint32_t *own = sb_dump_given_ids(t->options, t->sequence, &given);
    sb_status status = SB_OK;
    if (!given)
        return sb_fail(t->err, SB_ERR_USAGE,
                       "%s: document %zu: %s: does not contain the tokens of the prompt: expected "
                       "--tokens or --tokens-file",
                       SB_SHOW(t->file), t->document, t->where);
    n = t->said_prompt && given == t->said_prompt + t->said_generated ? t->said_prompt : given;
    if (t->said_prompt && n != t->said_prompt)
        return sb_tell_fail(t, "the prompt had %zu tokens, but %zu are given", t->said_prompt,
                            given);
    for (size_t i = 0; i < n && !status; i++)
        status = check_id(t, own[i], &(uint32_t){0});
    for (size_t i = 0; i < n && !status; i++)
        status = sb_spoken_token(t->out, own[i], t->err);
    return status;
}

sb_status sb_tell_prompt(sb_telling *t, const json_t *ids)
{
    sb_status status = json_array_size(ids) ? sb_tell_ids(t, ids) : take_given(t);
    t->out->prompt = t->out->count;
    return status;
}

/* --- experts ---------------------------------------------------------------------------------- */

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The bytes of a base64 text with padding; NULL for any other text, or if memory is out. */
static unsigned char *from_base64(const char *text, size_t *size)
{
    size_t n = strlen(text), padding = sb_ends(text, "==") ? 2 : sb_ends(text, "=") ? 1 : 0;
    unsigned char *out = n % 4 == 0 ? sb_alloc(n / 4 * 3 + 1, 1) : NULL;
    for (size_t i = 0; i < n && out; i += 4) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = i + k >= n - padding ? 0 : digit_of(text[i + k]);
            if (digit < 0) {
                free(out);
                return NULL;
            }
            bits = bits << 6 | (uint32_t)digit;
        }
        for (size_t k = 0; k < 3; k++)
            out[i / 4 * 3 + k] = (unsigned char)(bits >> (16 - 8 * k));
    }
    *size = n / 4 * 3 - (n ? padding : 0);
    return out;
}

/* J-38: "base64 of an .npy [tokens, layers, k]" */
sb_status sb_tell_experts(sb_telling *t, const char *text)
{
    size_t size = 0;
    if (!text)
        return sb_tell_fail(t, "routed_experts is not text");
    t->out->experts_bytes = from_base64(text, &size);
    if (!t->out->experts_bytes)
        return sb_tell_fail(t, "routed_experts is not base64");
    sb_status status = sb_npy_parse(t->out->experts_bytes, size, t->file, "routed_experts",
                                    &t->out->experts, t->err);
    if (status)
        return status;
    const sb_dump_array *a = &t->out->experts.items[0];
    if (a->rank != 3 || !sb_dump_is_integer(a->dtype) || !a->shape[0] || !a->shape[2] ||
        a->shape[0] > SB_POSITION_LIMIT || a->shape[2] > 1024 || a->shape[1] > 65536 ||
        (t->options->layers && a->shape[1] != t->options->layers))
        return sb_tell_fail(t, "routed_experts has another shape than [tokens, %u layers, experts]",
                            (unsigned)t->options->layers);
    return SB_OK;
}
