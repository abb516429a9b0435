#include "tools/check/clean.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the UTF-8 character at c that XML and JSON both allow; 0: there is none. */
static size_t character(const unsigned char *c)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc0 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (n == 0 || c[0] >= 0xf8)
        return 0;
    if (n == 1)
        return c[0] >= 0x20 && c[0] != 0x7f;
    uint32_t code = c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    int forbidden = code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
                    (code & 0xfffe) == 0xfffe || (code >= 0x80 && code < 0xa0);
    return forbidden ? 0 : n;
}

void sb_clean_text(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t n = character((const unsigned char *)from);
        if (n == 0) {
            *to++ = '?';
            from++;
            continue;
        }
        memmove(to, from, n);
        to += n;
        from += n;
    }
    *to = '\0';
}
