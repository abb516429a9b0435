/* tokenizer_train.c - merges for a synthetic tokenizer, from the text below.
 *
 * N-10: "the most frequent pair is merged; of equally frequent pairs, the one with the lowest left
 * id, then the lowest right id" */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/make/tokenizer.h"
#include "tools/text/pattern.h"
#include "tools/text/utf8.h"

static const char text[] =
    "The same bits on every machine: that is what a reference is for. When two programs do not agree,\n"
    "the first thing to know is where they part, and the second is which of them is right. A sum in\n"
    "another order, a table with one wrong entry, a state that was not taken back: each of these gives\n"
    "tokens that look well and are not the same. So the reference says every digest, every token and\n"
    "every state, and the test says whether another machine, another compiler and another number of\n"
    "threads give them again.\n"
    "\n"
    "Once there was a keeper of a light who wrote down the weather. He'd write the hour, the wind and\n"
    "the ships; if there weren't any ships, he wrote that there weren't any. \"It's not the ships that\n"
    "matter,\" he'd say, \"it's that the book has no hole in it.\" They'll laugh, he thought, and they\n"
    "did, until the winter in which the book was all that they had.\n"
    "\n"
    "static int compare(const void *left, const void *right)\n"
    "{\n"
    "    const struct token *one = left, *other = right;\n"
    "    return one->id < other->id ? -1 : one->id > other->id;\n"
    "}\n"
    "\n"
    "for (size_t i = 0; i < count; i++)\n"
    "    total += weights[i] * values[i];\n"
    "\n"
    "Die Stra\u00dfe f\u00fchrt \u00fcber die Br\u00fccke, und die M\u00fchle steht noch. "
    "L'\u00e9t\u00e9 a \u00e9t\u00e9 long, o\u00f9 \u00e9tiez-vous? \u4f60\u597d, \u4f60\u597d\u5417?\n";

typedef struct training {
    sb_made_vocabulary *v;
    uint32_t *ids;       /* the text in current tokens */
    unsigned char *ends; /* 1: a piece ends after this id */
    size_t count;
    uint64_t *pairs; /* of one round */
} training;

void sb_made_vocabulary_free(sb_made_vocabulary *v)
{
    for (uint32_t i = 0; i < v->count; i++)
        free(v->tokens[i].name);
    free(v->tokens);
    free(v->merges);
    *v = (sb_made_vocabulary){0};
}

/* The bytes in the order of their characters, as in published vocabularies. */
static sb_status first_tokens(training *t, uint32_t *byte_ids, sb_error *err)
{
    for (uint32_t c = 0; c <= 0x143; c++) {
        int byte = sb_alphabet_byte(c);
        if (byte < 0)
            continue;
        char *name = sb_alloc(5, 1);
        if (!name)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for a vocabulary");
        sb_utf8_put(c, (unsigned char *)name);
        byte_ids[byte] = t->v->count;
        t->v->tokens[t->v->count++].name = name;
    }
    return SB_OK;
}

static sb_status cut(training *t, const char *expression, const uint32_t *byte_ids, sb_error *err)
{
    const unsigned char *bytes = (const unsigned char *)text;
    sb_pattern *pattern = NULL;
    sb_match *match = sb_match_new();
    sb_status status = match ? sb_pattern_compile(expression, "the pattern", &pattern, err)
                             : sb_fail(err, SB_ERR_MEMORY, "out of memory for a vocabulary");
    for (size_t at = 0; at < t->count && !status;) {
        size_t begin, end;
        status = sb_pattern_find(pattern, match, bytes, t->count, at, &begin, &end, err);
        if (begin > at)
            t->ends[begin - 1] = 1;
        t->ends[end - 1] = 1;
        at = end;
    }
    for (size_t i = 0; i < t->count; i++)
        t->ids[i] = byte_ids[bytes[i]];
    sb_pattern_free(pattern);
    sb_match_free(match);
    return status;
}

static int compare_pairs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* *best: the most frequent pair of the text. Returns its count. */
static size_t commonest(training *t, uint64_t *best)
{
    size_t n = 0, most = 0;
    for (size_t i = 0; i + 1 < t->count; i++)
        if (!t->ends[i])
            t->pairs[n++] = (uint64_t)t->ids[i] << 32 | t->ids[i + 1];
    qsort(t->pairs, n, sizeof *t->pairs, compare_pairs);
    for (size_t i = 0, same; i < n; i += same) {
        same = 1;
        while (i + same < n && t->pairs[i + same] == t->pairs[i])
            same++;
        if (same > most) {
            most = same;
            *best = t->pairs[i];
        }
    }
    return most;
}

static void replace(training *t, uint32_t left, uint32_t right, uint32_t made)
{
    size_t out = 0;
    for (size_t i = 0; i < t->count; i++, out++) {
        int both = i + 1 < t->count && !t->ends[i] && t->ids[i] == left && t->ids[i + 1] == right;
        t->ids[out] = both ? made : t->ids[i];
        i += (size_t)both;
        t->ends[out] = t->ends[i];
    }
    t->count = out;
}

/* Makes the token for both texts joined, unless an earlier merge of other halves has made it. */
static sb_status merge(training *t, uint32_t left, uint32_t right, sb_error *err)
{
    sb_made_vocabulary *v = t->v;
    size_t first = strlen(v->tokens[left].name), second = strlen(v->tokens[right].name);
    char *name = sb_alloc(first + second + 1, 1);
    uint32_t made = 0;
    if (!name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a vocabulary");
    memcpy(name, v->tokens[left].name, first);
    memcpy(name + first, v->tokens[right].name, second);
    while (made < v->count && strcmp(v->tokens[made].name, name) != 0)
        made++;
    if (made == v->count)
        v->tokens[v->count++].name = name;
    else
        free(name);
    v->merges[v->merge_count][0] = left;
    v->merges[v->merge_count++][1] = right;
    replace(t, left, right, made);
    return SB_OK;
}

sb_status sb_make_train(const char *pattern, uint32_t most, sb_made_vocabulary *out, sb_error *err)
{
    uint32_t byte_ids[256] = {0};
    uint64_t best = 0;
    size_t size = sizeof text - 1;
    training t = {.v = out, .count = size};
    *out = (sb_made_vocabulary){0};
    most = most < 256 + size ? most : (uint32_t)(256 + size);
    out->tokens = sb_alloc(most, sizeof *out->tokens);
    out->merges = sb_alloc(size, sizeof *out->merges); /* each merge shortens the text */
    t.ids = sb_alloc(size, sizeof *t.ids);
    t.ends = sb_alloc(size, 1);
    t.pairs = sb_alloc(size, sizeof *t.pairs);
    sb_status status = SB_OK;
    if (!out->tokens || !out->merges || !t.ids || !t.ends || !t.pairs)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a vocabulary");
    if (!status)
        status = first_tokens(&t, byte_ids, err);
    if (!status)
        status = cut(&t, pattern, byte_ids, err);
    while (!status && out->count < most && commonest(&t, &best) > 1)
        status = merge(&t, (uint32_t)(best >> 32), (uint32_t)best, err);
    free(t.ids);
    free(t.ends);
    free(t.pairs);
    if (status)
        sb_made_vocabulary_free(out);
    return status;
}
