#include "ref/container/show.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* True for half of a surrogate pair and for codes beyond Unicode. */
static int is_no_character(uint32_t c)
{
    return (c >= 0xd800 && c < 0xe000) || c > 0x10ffff;
}

static int is_forbidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || (c & 0xfffe) == 0xfffe;
}

size_t sb_utf8_bytes(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *c = (const unsigned char *)text;
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc0 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (n == 0 || c[0] >= 0xf8)
        return 0;
    *code = n == 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (c[i] & 0x3fu);
    }
    return *code < least[n] || is_no_character(*code) ? 0 : n;
}

size_t sb_shown_bytes(const char *text)
{
    uint32_t code = 0;
    size_t n = sb_utf8_bytes(text, &code);
    return n && !is_forbidden(code) ? n : 0;
}

void sb_print_shown(const char *text, FILE *out)
{
    while (*text) {
        size_t n = sb_shown_bytes(text);
        if (n)
            fwrite(text, 1, n, out);
        else
            fprintf(out, "\\x%02x", (unsigned)(unsigned char)*text);
        text += n ? n : 1;
    }
}

void sb_clean_text(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t n = sb_shown_bytes(from);
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

/* Copies characters until `room` is full; bytes that must not be shown become \xHH. Returns the
 * number of bytes consumed. */
static size_t escape(const char *text, char *out, size_t room)
{
    size_t used = 0;
    size_t i = 0;
    while (text[i]) {
        unsigned char c = (unsigned char)text[i];
        size_t n = sb_shown_bytes(text + i);
        if (used + (n ? n : 4) >= room)
            break;
        if (n) {
            memcpy(out + used, text + i, n);
        } else {
            memcpy(out + used, "\\x", 2);
            out[used + 2] = "0123456789abcdef"[c >> 4];
            out[used + 3] = "0123456789abcdef"[c & 15];
        }
        used += n ? n : 4;
        i += n ? n : 1;
    }
    out[used] = '\0';
    return i;
}

/* True for bytes that continue a UTF-8 character. A cut must not come before such a byte. */
static int is_continuation(char c)
{
    return ((unsigned char)c & 0xc0u) == 0x80u;
}

const char *sb_show(const char *text, sb_shown *room)
{
    enum { HEAD = 170, TAIL = 60 };
    size_t n = strlen(text);
    if (escape(text, room->text, sizeof room->text) == n)
        return room->text;
    size_t end = escape(text, room->text, HEAD);
    size_t used = strlen(room->text);
    size_t start = n - TAIL > end ? n - TAIL : end;
    while (is_continuation(text[start]))
        start++;
    memcpy(room->text + used, "...", 3);
    escape(text + start, room->text + used + 3, sizeof room->text - used - 3);
    return room->text;
}

const char *sb_show_behind(const char *message, const char *path)
{
    /* the path as messages show it, because messages cut a long path */
    const char *shown = SB_SHOW(path);
    size_t n = strlen(shown);
    if (strncmp(message, shown, n) != 0 || message[n] != ':')
        return message;
    return message + n + 1 + (message[n + 1] == ' ');
}
