#include "ref/run/ngram.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"

/* --- the search ------------------------------------------------------------------------------- */

/* True if the n tokens from `at` on are the last n tokens of the text. */
static int matches(const uint32_t *text, size_t count, size_t n, size_t at)
{
    return memcmp(text + at, text + count - n, n * sizeof *text) == 0;
}

/* The tokens from `from` on: at most k, and none at or after `end`. */
static size_t copy(const uint32_t *text, size_t from, size_t end, size_t k, uint32_t *drafts)
{
    size_t there = end - from < k ? end - from : k;
    memcpy(drafts, text + from, there * sizeof *text);
    return there;
}

/* S-13: "n is the largest number from MIN to MAX for which" */
static size_t look_up(const sb_ngram *g, const uint32_t *text, size_t count, size_t k,
                      uint32_t *drafts)
{
    for (size_t n = g->most; n >= g->least; n--)
        for (size_t at = 0; at + n < count; at++)
            if (matches(text, count, n, at))
                return copy(text, at + n, count, k, drafts);
    return 0;
}

/* S-14: "the last one that begins behind position 0" */
static size_t look_back(const sb_ngram *g, const uint32_t *text, size_t count, size_t k,
                        uint32_t *drafts)
{
    size_t n = g->most;
    if (count <= n + k + 2)
        return 0;
    for (size_t at = count - n - 2; at > 0; at--)
        if (matches(text, count, n, at)) {
            size_t there = copy(text, at + n, count - 1, k, drafts);
            return there < n ? 0 : there;
        }
    return 0;
}

size_t sb_ngram_propose(const sb_ngram *g, const uint32_t *text, size_t count, size_t k,
                        uint32_t *drafts)
{
    switch (g->kind) {
    case SB_NGRAM_prompt_lookup:
        return look_up(g, text, count, k, drafts);
    case SB_NGRAM_simple:
        return look_back(g, text, count, k, drafts);
    case SB_NGRAM_none:
        break;
    }
    return 0;
}

/* --- its name --------------------------------------------------------------------------------- */

/* Reads a length; NULL if there is none. Returns the text after it. */
static const char *read_length(const char *text, size_t *out)
{
    size_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= SB_NGRAM_MOST; at++)
        value = 10 * value + (size_t)(*at - '0');
    *out = value;
    return at != text && value >= 1 && value <= SB_NGRAM_MOST ? at : NULL;
}

sb_status sb_ngram_parse(const char *text, const char *option, sb_ngram *out, sb_error *err)
{
    const char *at = strchr(text, ':');
    size_t word = at ? (size_t)(at - text) : strlen(text);
    int simple = word == 12 && memcmp(text, "ngram-simple", word) == 0;
    *out = (sb_ngram){simple ? SB_NGRAM_simple : SB_NGRAM_prompt_lookup, 5, 5};
    int sound = simple ? at != NULL : word == 5 && memcmp(text, "ngram", word) == 0;
    if (at) {
        at = read_length(at + 1, &out->least);
        out->most = out->least;
        if (at && *at == '-' && !simple)
            at = read_length(at + 1, &out->most);
        sound = sound && at && !*at && out->least <= out->most;
    }
    return sound
               ? SB_OK
               : sb_fail(err, SB_ERR_USAGE,
                         "%s is '%s'; expected mtp, the folder of a drafter, ngram, ngram:N, "
                         "ngram:MIN-MAX or ngram-simple:N, with lengths from 1 to %d; or external",
                         option, SB_SHOW(text), SB_NGRAM_MOST);
}
