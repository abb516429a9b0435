#include "ref/model/declared_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

enum {
    MAX_LENGTH = 4096,
    MAX_STEPS = 100000,
    MAX_DEPTH = 10000,
    MAX_HEAP_KIB = 20000,
    NEEDLE = 128
};

struct sb_regex {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
    char needle[NEEDLE]; /* a text that is part of every matching name; "" if unknown */
};

/* Returns a construct that the two libraries read differently, or NULL. Python 3.11 reads {,3} as
 * {0,3}, and [:alpha:] within brackets as a set of characters. PCRE2 10.42 reads {,3} as literal
 * text and [:alpha:] as a class. */
static const char *read_differently(const char *text)
{
    if (strstr(text, "{,"))
        return "{,";
    return strstr(text, "[:") ? "[:" : NULL;
}

/* If there is a literal character at *text, returns it and moves *text past it; else returns 0. */
static char literal_at(const char **text)
{
    const char *at = *text;
    int escaped = *at == '\\';
    char c = at[escaped];
    if (escaped ? !c || !strchr(".-_/", c) : !c || strchr(".^$*+?", c))
        return 0;
    *text += 1 + escaped;
    return c;
}

/* Finds the longest literal text that a matching name must contain. Lists have a pattern for each
 * layer, and there are up to 10^5 names. This text excludes most pairs of pattern and name without
 * a regex match. Finds nothing for patterns with groups, classes, counts or alternatives. */
static void find_needle(const char *text, char *needle)
{
    char run[NEEDLE];
    size_t used = 0, best = 0;
    if (strpbrk(text, "()[]{}|"))
        return;
    while (*text) {
        char c = literal_at(&text);
        if (!c && *text == '\\') { /* a class or a boundary: not analysed */
            needle[0] = '\0';
            return;
        }
        text += !c;
        if (!c || (*text && strchr("*+?", *text)) || used + 1 == NEEDLE) {
            used = 0;
            continue;
        }
        run[used++] = c;
        if (used <= best)
            continue;
        best = used;
        memcpy(needle, run, used);
        needle[used] = '\0';
    }
}

static sb_status out_of_memory(const char *where, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for a regular expression", where);
}

static sb_status compile(sb_regex *regex, const char *text, int anchored, const char *where,
                         sb_error *err)
{
    int code;
    PCRE2_SIZE at;
    uint32_t options = PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C;
    pcre2_compile_context *context = NULL;
    regex->memory = pcre2_general_context_create(sb_alloc_hook, sb_free_hook, NULL);
    if (regex->memory)
        regex->limits = pcre2_match_context_create(regex->memory);
    if (regex->limits)
        context = pcre2_compile_context_create(regex->memory);
    if (!context)
        return out_of_memory(where, err);
    regex->code = pcre2_compile((PCRE2_SPTR)text, strlen(text),
                                options | (anchored ? PCRE2_ANCHORED : 0), &code, &at, context);
    pcre2_compile_context_free(context);
    pcre2_set_match_limit(regex->limits, MAX_STEPS);
    pcre2_set_depth_limit(regex->limits, MAX_DEPTH);
    pcre2_set_heap_limit(regex->limits, MAX_HEAP_KIB);
    if (regex->code)
        return SB_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return out_of_memory(where, err);
    char why[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return sb_fail(err, SB_ERR_INPUT, "%s: no regular expression: %s at character %zu", where, why,
                   (size_t)at);
}

sb_status sb_regex_compile(const char *text, int anchored, const char *where, sb_regex **out,
                           sb_error *err)
{
    const char *construct = read_differently(text);
    if (strlen(text) > MAX_LENGTH)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: a regular expression of %zu bytes, expected at most %d", where,
                       strlen(text), MAX_LENGTH);
    if (construct)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: has \"%s\", which libraries for regular expressions read differently",
                       where, construct);
    sb_regex *regex = sb_alloc(1, sizeof *regex);
    if (!regex)
        return out_of_memory(where, err);
    sb_status status = compile(regex, text, anchored, where, err);
    find_needle(text, regex->needle);
    if (status == SB_OK)
        *out = regex;
    else
        sb_regex_free(regex);
    return status;
}

sb_status sb_regex_matches(const sb_regex *regex, const char *name, const char *where, int *out,
                           sb_error *err)
{
    *out = 0;
    if (!strstr(name, regex->needle))
        return SB_OK;
    pcre2_match_data *found = pcre2_match_data_create(1, regex->memory);
    if (!found)
        return out_of_memory(where, err);
    int code = pcre2_match(regex->code, (PCRE2_SPTR)name, strlen(name), 0, 0, found, regex->limits);
    pcre2_match_data_free(found);
    if (code == PCRE2_ERROR_NOMEMORY)
        return out_of_memory(where, err);
    if (code < 0 && code != PCRE2_ERROR_NOMATCH) {
        char why[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: the regular expression takes too long on module \"%s\": %s", where,
                       SB_SHOW(name), why);
    }
    *out = code >= 0; /* 0: the regex matches, but there is no room for its groups */
    return SB_OK;
}

void sb_regex_free(sb_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_match_context_free(regex->limits);
    pcre2_general_context_free(regex->memory);
    free(regex);
}

int sb_looks_like_regex(const char *text)
{
    return strpbrk(text, "*+?^$()[]{}|\\") != NULL;
}

/* Backtracks to the last star only, so that the time is at most the product of the lengths. */
int sb_glob_matches(const char *glob, const char *name)
{
    const char *star = NULL;
    const char *from = NULL;
    while (*name) {
        if (*glob == '*') {
            star = ++glob;
            from = name;
        } else if (*glob == '?' || *glob == *name) {
            glob++;
            name++;
        } else if (star) {
            glob = star;
            name = ++from;
        } else {
            return 0;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

int sb_has_prefix_part(const char *name, const char *part)
{
    size_t n = strlen(part);
    return n > 0 && strncmp(name, part, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

int sb_has_suffix_part(const char *name, const char *part)
{
    size_t n = strlen(name);
    size_t m = strlen(part);
    return m > 0 && m <= n && strcmp(name + n - m, part) == 0 && (m == n || name[n - m - 1] == '.');
}
