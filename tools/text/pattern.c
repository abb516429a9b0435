#include "tools/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

/* Limits of one match: the steps that a harmless text needs grow with its length. */
enum { FEW_STEPS = 100000, STEPS_PER_BYTE = 32, MAX_DEPTH = 100000, MAX_HEAP_KIB = 65536 };

struct sb_pattern {
    pcre2_general_context *memory;
    pcre2_code *code;
    char *where;
};

struct sb_match {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_match_data *found;
};

static sb_status out_of_memory(const char *where, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for a regular expression", where);
}

/* A translated expression does not depend on PCRE2_UCP: its sets are written out, and with UTF-8
 * text, properties and case are always Unicode's. */
static sb_status compile(sb_pattern *pattern, const char *text, sb_error *err)
{
    int code;
    PCRE2_SIZE at;
    uint32_t empty = 1;
    pattern->memory = pcre2_general_context_create(sb_alloc_hook, sb_free_hook, NULL);
    pcre2_compile_context *context =
        pattern->memory ? pcre2_compile_context_create(pattern->memory) : NULL;
    if (!context)
        return out_of_memory(pattern->where, err);
    pattern->code = pcre2_compile((PCRE2_SPTR)text, strlen(text),
                                  PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!pattern->code && code == PCRE2_ERROR_HEAP_FAILED)
        return out_of_memory(pattern->where, err);
    if (!pattern->code) {
        char why[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return sb_fail(err, SB_ERR_INPUT, "%s: not a regular expression: %s", pattern->where, why);
    }
    if (pcre2_pattern_info(pattern->code, PCRE2_INFO_MATCHEMPTY, &empty) != 0 || empty)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: the regular expression can match the empty string", pattern->where);
    return SB_OK;
}

sb_status sb_pattern_compile(const char *text, const char *where, sb_pattern **out, sb_error *err)
{
    char *translated = NULL;
    sb_status status = sb_pattern_translate(text, where, &translated, err);
    if (status)
        return status;
    sb_pattern *pattern = sb_alloc(1, sizeof *pattern);
    if (pattern)
        pattern->where = sb_strdup(where);
    status =
        pattern && pattern->where ? compile(pattern, translated, err) : out_of_memory(where, err);
    free(translated);
    if (status)
        sb_pattern_free(pattern);
    else
        *out = pattern;
    return status;
}

void sb_pattern_free(sb_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    pcre2_general_context_free(pattern->memory);
    free(pattern->where);
    free(pattern);
}

sb_match *sb_match_new(void)
{
    sb_match *match = sb_alloc(1, sizeof *match);
    if (!match)
        return NULL;
    match->memory = pcre2_general_context_create(sb_alloc_hook, sb_free_hook, NULL);
    if (match->memory)
        match->limits = pcre2_match_context_create(match->memory);
    if (match->limits)
        match->found = pcre2_match_data_create(1, match->memory);
    if (match->found)
        return match;
    sb_match_free(match);
    return NULL;
}

void sb_match_free(sb_match *match)
{
    if (!match)
        return;
    pcre2_match_data_free(match->found);
    pcre2_match_context_free(match->limits);
    pcre2_general_context_free(match->memory);
    free(match);
}

sb_status sb_pattern_find(const sb_pattern *pattern, sb_match *match, const unsigned char *text,
                          size_t bytes, size_t from, size_t *begin, size_t *end, sb_error *err)
{
    *begin = *end = bytes;
    pcre2_set_match_limit(match->limits, (uint32_t)(FEW_STEPS + (bytes - from) * STEPS_PER_BYTE));
    pcre2_set_depth_limit(match->limits, MAX_DEPTH);
    pcre2_set_heap_limit(match->limits, MAX_HEAP_KIB);
    int code = pcre2_match(pattern->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK,
                           match->found, match->limits);
    if (code == PCRE2_ERROR_NOMATCH)
        return SB_OK;
    if (code == PCRE2_ERROR_NOMEMORY)
        return out_of_memory(pattern->where, err);
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(match->found);
    if (code < 0 || place[1] <= place[0]) {
        char why[128] = "an empty match";
        if (code < 0)
            pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: the regular expression cannot split a text of %zu bytes at byte %zu: "
                       "%s",
                       pattern->where, bytes, from, why);
    }
    *begin = place[0];
    *end = place[1];
    return SB_OK;
}
