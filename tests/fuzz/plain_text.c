#include "tests/fuzz/plain_text.h"

#include <utf8proc.h>

int text_is_plain(const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                              (utf8proc_ssize_t)(size - at), &c);
        if (n <= 0)
            return 0;
        utf8proc_category_t kind = utf8proc_category(c);
        int turns = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
        if ((kind == UTF8PROC_CATEGORY_CC && c != '\n' && c != '\t') || turns ||
            kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP)
            return 0;
        at += (size_t)n;
    }
    return 1;
}
