#include "tools/cli/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/report/part/document.h"
#include "tools/text/utf8.h"

enum { MAX_TEXT = 1 << 28 };

sb_status sb_prompt_tokenizer(const char *path, sb_tokenizer **out, sb_error *err)
{
    if (sb_ends(path, ".json"))
        return sb_tokenizer_load(path, out, err);
    char *file = sb_path_join(path, "tokenizer.json");
    if (!file)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    sb_status status = sb_tokenizer_load(file, out, err);
    free(file);
    return status;
}

/* `size` bytes as valid UTF-8, at most three bytes for each; NULL if memory is out. */
static char *repair(const char *bytes, size_t size, size_t *length)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + size;
    char *out = sb_alloc(3 * size + 1, 1);
    *length = 0;
    while (out && at < end) {
        uint32_t character = 0;
        size_t n = sb_utf8_get(at, (size_t)(end - at), &character);
        if (n)
            memcpy(out + *length, at, n);
        at += n ? n : 1;
        *length += n ? n : sb_utf8_put(0xfffd, (unsigned char *)out + *length);
    }
    return out;
}

json_t *sb_prompt_text(const sb_tokenizer *tokenizer, const uint32_t *ids, size_t count)
{
    char *bytes = NULL;
    size_t size = 0, length = 0;
    if (sb_tokenizer_decode(tokenizer, ids, count, &bytes, &size, NULL, NULL))
        return NULL;
    char *text = repair(bytes, size, &length);
    json_t *out = text ? json_stringn(text, length) : NULL;
    free(text);
    free(bytes);
    return out;
}

/* --- options ---------------------------------------------------------------------------------- */

int sb_prompts_given(const sb_prompts *from)
{
    return (from->tokens != NULL) + (from->tokens_file != NULL) + (from->prompt != NULL) +
           (from->text != NULL);
}

sb_status sb_prompts_check(const sb_prompts *from, sb_error *err)
{
    if (sb_prompts_given(from) == 1)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "expected one of --tokens, --tokens-file, --prompt and --text");
}

const char *sb_prompts_name(const sb_prompts *from)
{
    return from->tokens_file ? from->tokens_file
           : from->text      ? from->text
           : from->prompt    ? "--prompt"
                             : "--tokens";
}

/* Tokenizes the text of --prompt or of the file of --text. */
static sb_status tokenize(const sb_prompts *from, const sb_tokenizer *tokenizer, sb_sequence *out,
                          sb_error *err)
{
    const char *name = sb_prompts_name(from);
    unsigned char *bytes = NULL;
    size_t size = from->prompt ? strlen(from->prompt) : 0;
    sb_status status = from->text ? sb_read_file(from->text, MAX_TEXT, &bytes, &size, err) : SB_OK;
    if (!status)
        status = sb_tokenizer_encode(tokenizer, from->text ? (const char *)bytes : from->prompt,
                                     size, &out->ids, &out->count, err);
    if (!status && out->count == 0)
        status = sb_fail(err, from->text ? SB_ERR_INPUT : SB_ERR_USAGE,
                         "%s: the text has no token; expected at least one", SB_SHOW(name));
    free(bytes);
    return status;
}

sb_status sb_prompts_read(const sb_prompts *from, const char *folder, sb_tokenizer **tokenizer,
                          sb_sequence **out, size_t *count, sb_error *err)
{
    sb_tokenizer *own = NULL, **t = tokenizer ? tokenizer : &own;
    *t = NULL;
    *out = NULL;
    *count = 0;
    if (!from->prompt && !from->text)
        return sb_tokens_read(from->tokens, from->tokens_file, out, count, err);
    if (!folder)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s needs a checkpoint: its tokenizer converts text to token ids",
                       from->text ? "--text" : "--prompt");
    *out = sb_alloc(1, sizeof **out);
    sb_status status = *out ? sb_prompt_tokenizer(folder, t, err)
                            : sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    *count = *out != NULL;
    if (!status)
        status = tokenize(from, *t, *out, err);
    sb_tokenizer_free(own);
    return status;
}

sb_status sb_prompts_check_ids(const sb_prompts *from, const sb_sequence *items, size_t count,
                               uint32_t vocabulary, sb_error *err)
{
    if (!from->prompt && !from->text)
        return sb_tokens_check(from->tokens_file, items, count, vocabulary, err);
    for (size_t i = 0; i < items[0].count; i++)
        if (items[0].ids[i] >= vocabulary)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: token %zu of the text has id %u in tokenizer.json; the vocabulary "
                           "of the model has %u",
                           SB_SHOW(sb_prompts_name(from)), i, (unsigned)items[0].ids[i],
                           (unsigned)vocabulary);
    return SB_OK;
}
