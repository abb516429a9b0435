#include "ref/container/json_out.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

static atomic_int watching, lost; /* lost: an allocation failed, so a document may lack members */

static void *watched(size_t bytes)
{
    void *block = sb_alloc(bytes, 1);
    if (!block)
        lost = 1;
    return block;
}

void sb_json_watch(void)
{
    watching = 1;
    json_set_alloc_funcs(watched, free);
}

void sb_json_lose(void)
{
    lost |= watching;
}

int sb_json_lost(void)
{
    return lost;
}

char *sb_json_dumps(const json_t *document, size_t flags)
{
    char *text = document && !lost ? json_dumps(document, flags) : NULL;
    if (text && lost) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Prints, as \uXXXX, a character that must not be shown. A character beyond ASCII is always in a
 * string, so its escape means the same. All such characters have 16-bit code points, except U+1FFFE
 * and similar ones, which are printed unchanged. */
static void print_escaped(const char *text, FILE *out)
{
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0xe0)
        fprintf(out, "\\u%04x", (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu));
    else if (c[0] < 0xf0)
        fprintf(out, "\\u%04x", (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu));
    else
        fwrite(text, 1, 4, out);
}

int sb_json_dumpf(const json_t *document, FILE *out, size_t flags)
{
    char *text = sb_json_dumps(document, flags);
    const char *from = text;
    for (const char *at = text; at && *at;) {
        const unsigned char c = (unsigned char)*at;
        size_t n = c < 0x80 ? 1 : sb_shown_bytes(at);
        if (n) {
            at += n;
            continue;
        }
        fwrite(from, 1, (size_t)(at - from), out);
        print_escaped(at, out);
        at += c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        from = at;
    }
    if (text)
        fputs(from, out);
    int written = text && !ferror(out);
    free(text);
    return written;
}
