#include "tools/text/utf8.h"

#include <utf8proc.h>

size_t sb_utf8_get(const unsigned char *text, size_t bytes, uint32_t *character)
{
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t most = bytes < 4 ? (utf8proc_ssize_t)bytes : 4;
    const utf8proc_ssize_t length = utf8proc_iterate(text, most, &c);
    if (length <= 0)
        return 0;
    *character = (uint32_t)c;
    return (size_t)length;
}

size_t sb_utf8_put(uint32_t c, unsigned char *text)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, text);
}

size_t sb_utf8_stretch(const unsigned char *text, size_t bytes)
{
    size_t at = 0, length;
    uint32_t character;
    while ((length = sb_utf8_get(text + at, bytes - at, &character)) > 0)
        at += length;
    return at;
}

/* N-7: "the other 68 bytes, in ascending order, are U+0100 to U+0143" */
static int stands_for_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

uint32_t sb_alphabet_character(unsigned byte)
{
    uint32_t rank = 0x100;
    if (stands_for_itself(byte))
        return byte;
    for (unsigned other = 0; other < byte; other++)
        rank += !stands_for_itself(other);
    return rank;
}

/* The bytes below 0x21, then 0x7f to 0xa0, then 0xad. */
int sb_alphabet_byte(uint32_t c)
{
    if (c < 0x100)
        return stands_for_itself((unsigned)c) ? (int)c : -1;
    if (c > 0x143)
        return -1;
    c -= 0x100;
    return c <= 0x20 ? (int)c : c <= 0x42 ? (int)(c - 0x21 + 0x7f) : 0xad;
}

/* N-5: "U+0009 to U+000D, U+0020, U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F,
 * U+205F and U+3000" */
int sb_utf8_is_space(uint32_t c)
{
    return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* N-3: "a letter, a mark, a decimal or letter number, a connector, U+200C, U+200D, or a circled or
 * squared Latin letter" */
int sb_utf8_is_word(uint32_t c)
{
    if ((c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
        (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189))
        return 1;
    if (c == 0x200c || c == 0x200d)
        return 1;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return 1;
    default:
        return 0;
    }
}
