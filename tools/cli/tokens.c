#include "tools/cli/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

enum { MAX_TOKENS_FILE = 1 << 28 };

static int is_separator(char ch)
{
    return ch == ',' || ch == ' ' || ch == '\t' || ch == '\r';
}

sb_status sb_tokens_parse(const char *text, const char *where, sb_sequence *out, sb_error *err)
{
    size_t room = strlen(text) / 2 + 1;
    *out = (sb_sequence){sb_alloc(room, sizeof *out->ids), 0};
    if (!out->ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    for (const char *at = text; *at;) {
        uint64_t id = 0;
        size_t length = 0;
        while (is_separator(*at))
            at++;
        while (at[length] >= '0' && at[length] <= '9' && length < 11)
            id = id * 10 + (uint64_t)(at[length++] - '0');
        if (*at && (length == 0 || (at[length] && !is_separator(at[length])) || id > 0x7fffffff)) {
            sb_status status = sb_fail(err, SB_ERR_USAGE,
                                       "%s: token %zu starts with '%.16s'; expected decimal ids "
                                       "separated by commas or blanks",
                                       where, out->count, at);
            free(out->ids);
            *out = (sb_sequence){NULL, 0};
            return status;
        }
        if (length)
            out->ids[out->count++] = (uint32_t)id;
        at += length;
    }
    return SB_OK;
}

sb_status sb_tokens_load(const char *path, sb_sequence **out, size_t *count, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t size = 0, lines = 1, line_number = 0;
    sb_status status = sb_read_file(path, MAX_TOKENS_FILE, &bytes, &size, err);
    *out = NULL;
    *count = 0;
    if (status)
        return status;
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    *out = sb_alloc(lines, sizeof **out);
    if (!*out)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    for (char *line = (char *)bytes; line && !status;) {
        char where[320], *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        line_number++;
        snprintf(where, sizeof where, "%s:%zu", SB_SHOW(path), line_number);
        if (*line != '#') {
            status = sb_tokens_parse(line, where, &(*out)[*count], err);
            if (!status && (*out)[*count].count == 0)
                free((*out)[*count].ids); /* an empty line */
            else if (!status)
                ++*count;
        }
        line = end;
    }
    free(bytes);
    if (status) {
        sb_sequences_free(*out, *count);
        *out = NULL;
    }
    return status;
}

sb_sequence *sb_sequences_from_json(const json_t *lists, size_t *count)
{
    size_t n = json_array_size(lists);
    sb_sequence *sequences = sb_alloc(n, sizeof *sequences);
    int sound = sequences != NULL;
    for (size_t s = 0; sound && s < n; s++) {
        const json_t *ids = json_array_get(lists, s);
        sequences[s].count = json_array_size(ids);
        sequences[s].ids = sb_alloc(sequences[s].count, sizeof *sequences[s].ids);
        sound = sequences[s].ids && sequences[s].count > 0;
        for (size_t i = 0; sound && i < sequences[s].count; i++) {
            const json_t *id = json_array_get(ids, i);
            json_int_t value = json_integer_value(id);
            sound = json_is_integer(id) && value >= 0 && value <= 0x7fffffff;
            sequences[s].ids[i] = (uint32_t)value;
        }
    }
    *count = n;
    if (sound)
        return sequences;
    sb_sequences_free(sequences, n);
    return NULL;
}

void sb_sequences_free(sb_sequence *sequences, size_t count)
{
    for (size_t i = 0; sequences && i < count; i++)
        free(sequences[i].ids);
    free(sequences);
}
