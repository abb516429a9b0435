#include "tools/cli/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "tools/text/utf8.h"

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
