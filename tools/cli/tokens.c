#include "tools/cli/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/report/part/document.h"

enum { MAX_TOKENS_FILE = 1 << 28 };

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r");
}

static sb_status wrong_number(const char *where, size_t number, const char *at, sb_error *err)
{
    static const char expected[] = "expected decimal numbers separated by commas or blanks";
    char start[17];
    snprintf(start, sizeof start, "%s", at);
    if (*at == ',' || *at == '\0')
        return sb_fail(err, SB_ERR_USAGE, "%s: number %zu is missing; %s", where, number, expected);
    return sb_fail(err, SB_ERR_USAGE, "%s: number %zu begins with '%s'; %s", where, number,
                   SB_SHOW(start), expected);
}

sb_status sb_tokens_parse(const char *text, const char *where, sb_sequence *out, sb_error *err)
{
    size_t room = strlen(text) / 2 + 1;
    *out = (sb_sequence){sb_alloc(room, sizeof *out->ids), 0};
    if (!out->ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    int comma = 0; /* a number has to follow */
    for (const char *at = skip_blanks(text); *at || comma;) {
        uint64_t id = 0;
        size_t length = 0;
        while (at[length] >= '0' && at[length] <= '9' && length < 11)
            id = id * 10 + (uint64_t)(at[length++] - '0');
        if (length == 0 || !strchr(", \t\r", at[length]) || id > 0x7fffffff) {
            sb_status status = wrong_number(where, out->count, at, err);
            free(out->ids);
            *out = (sb_sequence){NULL, 0};
            return status;
        }
        out->ids[out->count++] = (uint32_t)id;
        at = skip_blanks(at + length);
        comma = *at == ',';
        at = skip_blanks(at + comma);
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
            if (status == SB_ERR_USAGE)
                status = SB_ERR_INPUT; /* keeps the message */
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

sb_status sb_tokens_read(const char *text, const char *path, sb_sequence **out, size_t *count,
                         sb_error *err)
{
    if (path)
        return sb_tokens_load(path, out, count, err);
    *count = 0;
    *out = sb_alloc(1, sizeof **out);
    if (!*out)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    sb_status status = sb_tokens_parse(text, "--tokens", *out, err);
    *count = !status;
    return status;
}

sb_status sb_tokens_check(const char *path, const sb_sequence *items, size_t count,
                          uint32_t vocabulary, sb_error *err)
{
    sb_status bad = path ? SB_ERR_INPUT : SB_ERR_USAGE;
    const char *where = path ? path : "--tokens";
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < items[i].count; k++, total++)
            if (items[i].ids[k] >= vocabulary)
                return sb_fail(
                    err, bad, "%s: sequence %zu, position %zu: id %u; the vocabulary has %u",
                    SB_SHOW(where), i, k, (unsigned)items[i].ids[k], (unsigned)vocabulary);
    return total ? SB_OK : sb_fail(err, bad, "%s: no token ids", SB_SHOW(where));
}

/* Joins the lines of a file. */
static sb_status join_lines(const char *path, sb_sequence *out, sb_error *err)
{
    sb_sequence *lines = NULL;
    size_t count = 0, total = 0;
    sb_status status = sb_tokens_load(path, &lines, &count, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        total += lines[i].count;
    *out = (sb_sequence){sb_alloc(total, sizeof *out->ids), total};
    if (!out->ids)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", SB_SHOW(path));
    for (size_t i = 0, at = 0; i < count && !status; at += lines[i++].count)
        memcpy(out->ids + at, lines[i].ids, lines[i].count * sizeof *out->ids);
    sb_sequences_free(lines, count);
    return status;
}

sb_status sb_numbers_parse(const char *text, const char *option, sb_sequence *out, sb_error *err)
{
    sb_status status =
        *text == '@' ? join_lines(text + 1, out, err) : sb_tokens_parse(text, option, out, err);
    if (status || out->count)
        return status;
    sb_numbers_free(out);
    return sb_fail(err, *text == '@' ? SB_ERR_INPUT : SB_ERR_USAGE,
                   "%s is '%s'; expected at least one number", option, SB_SHOW(text));
}

void sb_numbers_free(sb_sequence *numbers)
{
    free(numbers->ids);
    *numbers = (sb_sequence){NULL, 0};
}

int sb_sequence_from_json(const json_t *list, sb_sequence *out)
{
    size_t n = json_array_size(list);
    *out = (sb_sequence){sb_alloc(n, sizeof *out->ids), n};
    int sound = out->ids && n > 0;
    for (size_t i = 0; sound && i < n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_integer_value(id);
        sound = json_is_integer(id) && value >= 0 && value <= 0x7fffffff;
        out->ids[i] = (uint32_t)value;
    }
    if (!sound)
        sb_numbers_free(out);
    return sound;
}

sb_sequence *sb_sequences_from_json(const json_t *lists, size_t *count)
{
    size_t n = json_array_size(lists);
    sb_sequence *sequences = sb_alloc(n, sizeof *sequences);
    int sound = sequences != NULL;
    for (size_t s = 0; sound && s < n; s++)
        sound = sb_sequence_from_json(json_array_get(lists, s), &sequences[s]);
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
