/* normalize.c - NFC: utf8proc decomposes a character and composes a text.
 *
 * The ordering of marks in between is done here: utf8proc_decompose() orders them by exchanging
 * neighbours, which takes quadratic time on a text of marks only. */
#include "tools/text/normalize.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "ref/base/mem.h"
#include "tools/text/utf8.h"

enum { MOST = 8 };

static const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

typedef struct sequence {
    utf8proc_int32_t *characters;
    size_t count, room;
} sequence;

static sb_status out_of_memory(size_t bytes, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for normalizing %zu bytes", bytes);
}

/* The canonical decomposition of each character, at most four characters. */
static int decompose(const unsigned char *text, size_t bytes, sequence *s)
{
    uint32_t c = 0;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = sb_utf8_get(text + at, bytes - at, &c);
        if (s->room - s->count < MOST) {
            size_t room = s->room + s->room / 2 + bytes - at + MOST;
            utf8proc_int32_t *grown = sb_realloc(s->characters, room, sizeof *grown);
            if (!grown)
                return 0;
            s->characters = grown;
            s->room = room;
        }
        int boundary = 0;
        utf8proc_ssize_t made = utf8proc_decompose_char(
            (utf8proc_int32_t)c, s->characters + s->count, MOST, options, &boundary);
        if (n == 0 || made < 0 || made > MOST)
            return 0;
        s->count += (size_t)made;
    }
    return 1;
}

static unsigned class_of(utf8proc_int32_t c)
{
    return c < 0x300 ? 0 : (unsigned)utf8proc_get_property(c)->combining_class;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts a run of marks by class and keeps the order within a class. The key holds class, place and
 * character in 8, 35 and 21 bits. */
static int order_run(utf8proc_int32_t *run, size_t n)
{
    uint64_t few[16];
    uint64_t *keys = n <= 16 ? few : sb_alloc(n, sizeof *keys);
    if (!keys)
        return 0;
    for (size_t i = 0; i < n; i++)
        keys[i] = (uint64_t)class_of(run[i]) << 56 | (uint64_t)i << 21 | (uint64_t)run[i];
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 0; i < n; i++)
        run[i] = (utf8proc_int32_t)(keys[i] & 0x1fffff);
    if (keys != few)
        free(keys);
    return 1;
}

static int order(sequence *s)
{
    for (size_t i = 0, n; i < s->count; i += n) {
        n = 0;
        while (i + n < s->count && class_of(s->characters[i + n]) != 0)
            n++;
        if (n > 1 && !order_run(s->characters + i, n))
            return 0;
        n += n == 0;
    }
    return 1;
}

/* N-4: "replaced by its normalization form C" */
sb_status sb_nfc(const unsigned char *text, size_t bytes, unsigned char **out, size_t *size,
                 sb_error *err)
{
    sequence s = {0};
    utf8proc_ssize_t count = 0;
    int good = decompose(text, bytes, &s) && order(&s);
    if (good && s.count > 0)
        count = utf8proc_normalize_utf32(s.characters, (utf8proc_ssize_t)s.count, options);
    unsigned char *made = good && count >= 0 ? sb_alloc((size_t)count + 1, 4) : NULL;
    if (!made) {
        free(s.characters);
        return out_of_memory(bytes, err);
    }
    *size = 0;
    for (utf8proc_ssize_t i = 0; i < count; i++)
        *size += sb_utf8_put((uint32_t)s.characters[i], made + *size);
    free(s.characters);
    *out = made;
    return SB_OK;
}
