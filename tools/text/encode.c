/* encode.c - the steps from a text to ids. N-2: "A stretch goes through these steps" - isolate()
 * with the plain added tokens, normalize(), isolate() with the others, split(), and the merges. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/text/normalize.h"
#include "tools/text/parts.h"
#include "tools/text/utf8.h"

typedef struct encoding {
    const sb_tokenizer *t;
    sb_text_work *work;
    sb_match *match;
    sb_text_ids out;
    sb_error *err;
} encoding;

sb_status sb_text_reserve(sb_text_ids *ids, size_t more, sb_error *err)
{
    if (ids->room - ids->count >= more)
        return SB_OK;
    size_t room = ids->count + more + ids->room / 2 + 64;
    uint32_t *grown = sb_realloc(ids->ids, room, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu ids", room);
    ids->ids = grown;
    ids->room = room;
    return SB_OK;
}

/* N-5: "each match is a piece of its own, and so is each text between two matches"; the next
 * expression splits each piece further. */
static sb_status split(encoding *e, size_t level, const unsigned char *text, size_t bytes)
{
    if (level == e->t->pattern_count)
        return sb_text_merge_piece(e->t, e->work, text, bytes, &e->out, e->err);
    sb_status status = SB_OK;
    size_t at = 0, begin, end;
    while (at < bytes && !status) {
        status =
            sb_pattern_find(e->t->patterns[level], e->match, text, bytes, at, &begin, &end, e->err);
        if (!status && begin > at)
            status = split(e, level + 1, text + at, begin - at);
        if (!status && end > begin)
            status = split(e, level + 1, text + begin, end - begin);
        at = end;
    }
    return status;
}

/* The start of the white space before `at`, but at least `floor`. */
static size_t spaces_before(const unsigned char *text, size_t floor, size_t at)
{
    uint32_t c;
    while (at > floor) {
        size_t begin = at - 1;
        while (begin > 0 && (text[begin] & 0xc0) == 0x80)
            begin--;
        if (!sb_utf8_get(text + begin, at - begin, &c) || !sb_utf8_is_space(c))
            return at;
        at = begin;
    }
    return at;
}

static size_t spaces_behind(const unsigned char *text, size_t bytes, size_t at)
{
    uint32_t c;
    for (size_t n; (n = sb_utf8_get(text + at, bytes - at, &c)) > 0 && sb_utf8_is_space(c);)
        at += n;
    return at;
}

static int touches_word(const unsigned char *text, size_t bytes, size_t begin, size_t end)
{
    uint32_t c;
    size_t before = begin;
    if (end < bytes && sb_utf8_get(text + end, bytes - end, &c) && sb_utf8_is_word(c))
        return 1;
    if (begin == 0)
        return 0;
    do
        before--;
    while (before > 0 && (text[before] & 0xc0) == 0x80);
    return sb_utf8_get(text + before, begin - before, &c) && sb_utf8_is_word(c);
}

typedef sb_status step(encoding *e, const unsigned char *text, size_t bytes);

static sb_status put_id(encoding *e, uint32_t id)
{
    sb_status status = sb_text_reserve(&e->out, 1, e->err);
    if (!status)
        e->out.ids[e->out.count++] = id;
    return status;
}

/* N-3: "the leftmost token; if several tokens begin there, the longest is taken". Matches are found
 * as if none was refused or widened; `done` is the end of the last one after widening. */
static sb_status isolate(encoding *e, const sb_text_list *list, step *rest,
                         const unsigned char *text, size_t bytes)
{
    sb_status status = SB_OK;
    size_t done = 0, spaces = 0; /* from an earlier match to `spaces` all is white space */
    for (size_t at = 0; list->count > 0 && at < bytes && !status;) {
        const sb_text_added *row = sb_text_longest(list, text + at, bytes - at);
        if (!row) {
            at++;
            continue;
        }
        size_t begin = at, end = at + row->size;
        at = end;
        if (row->single_word && touches_word(text, bytes, begin, end))
            continue;
        if (row->rstrip)
            end = spaces = end < spaces ? spaces : spaces_behind(text, bytes, end);
        if (row->lstrip) {
            begin = spaces_before(text, done, begin);
            begin = begin > done ? begin : done;
            if (begin >= end)
                continue;
        }
        if (done < begin)
            status = rest(e, text + done, begin - done);
        if (!status)
            status = put_id(e, row->id);
        done = end;
    }
    return status || done >= bytes ? status : rest(e, text + done, bytes - done);
}

static sb_status split_first(encoding *e, const unsigned char *text, size_t bytes)
{
    return split(e, 0, text, bytes);
}

static int is_ascii(const unsigned char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && text[at] < 0x80)
        at++;
    return at == bytes;
}

static sb_status normalize(encoding *e, const unsigned char *text, size_t bytes)
{
    if (!e->t->nfc || is_ascii(text, bytes)) /* ASCII is its own normalization form */
        return isolate(e, &e->t->normalized, split_first, text, bytes);
    unsigned char *normal = NULL;
    size_t size;
    sb_status status = sb_nfc(text, bytes, &normal, &size, e->err);
    if (!status)
        status = isolate(e, &e->t->normalized, split_first, normal, size);
    free(normal);
    return status;
}

/* N-1: "Each stretch is tokenized as a text of its own, and each lone byte becomes the token of
 * that byte" */
static sb_status encode(encoding *e, const unsigned char *text, size_t bytes)
{
    sb_status status = SB_OK;
    for (size_t at = 0; at < bytes && !status;) {
        size_t n = sb_utf8_stretch(text + at, bytes - at);
        if (n > 0)
            status = isolate(e, &e->t->plain, normalize, text + at, n);
        else
            status = put_id(e, e->t->byte_ids[text[at]]);
        at += n > 0 ? n : 1;
    }
    return status;
}

sb_status sb_tokenizer_encode(const sb_tokenizer *tokenizer, const void *text, size_t bytes,
                              uint32_t **ids, size_t *count, sb_error *err)
{
    if (bytes > SB_TOKENIZER_MAX_TEXT)
        return sb_fail(err, SB_ERR_USAGE, "the text has %zu bytes, expected at most %d", bytes,
                       SB_TOKENIZER_MAX_TEXT);
    encoding e = {.t = tokenizer, .work = sb_text_work_new(), .match = sb_match_new(), .err = err};
    sb_status status = SB_OK;
    if (!e.work || !e.match)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a text of %zu bytes", bytes);
    if (!status)
        status = sb_text_reserve(&e.out, 1, err);
    if (!status)
        status = encode(&e, text, bytes);
    sb_text_work_free(e.work);
    sb_match_free(e.match);
    if (status) {
        free(e.out.ids);
        return status;
    }
    *ids = e.out.ids;
    *count = e.out.count;
    return SB_OK;
}
