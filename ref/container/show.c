#include "ref/container/show.h"

#include <stddef.h>
#include <string.h>

/* Copies n bytes, control characters as \xHH, as far as room goes; returns the bytes consumed. */
static size_t escape(const char *text, size_t n, char *out, size_t room)
{
    size_t used = 0;
    size_t i = 0;
    for (; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        int control = c < 0x20 || c == 0x7f;
        if (used + (control ? 4 : 1) >= room)
            break;
        if (control) {
            memcpy(out + used, "\\x", 2);
            out[used + 2] = "0123456789abcdef"[c >> 4];
            out[used + 3] = "0123456789abcdef"[c & 15];
            used += 4;
        } else {
            out[used++] = (char)c;
        }
    }
    out[used] = '\0';
    return i;
}

/* True for the bytes inside a UTF-8 character: a cut must not fall in front of one. */
static int is_continuation(char c)
{
    return ((unsigned char)c & 0xc0u) == 0x80u;
}

const char *sb_show(const char *text, sb_shown *room)
{
    enum { HEAD = 170, TAIL = 60 };
    size_t n = strlen(text);
    if (escape(text, n, room->text, sizeof room->text) == n)
        return room->text;
    size_t end = escape(text, n, room->text, HEAD);
    size_t used = strlen(room->text);
    while (used > 0 && is_continuation(text[end])) {
        end--;
        used--;
    }
    size_t start = n - TAIL > end ? n - TAIL : end;
    while (is_continuation(text[start]))
        start++;
    memcpy(room->text + used, "...", 3);
    escape(text + start, n - start, room->text + used + 3, sizeof room->text - used - 3);
    return room->text;
}

const char *sb_show_behind(const char *message, const char *path)
{
    const char *shown = SB_SHOW(path); /* as messages have it: a long path is cut in them */
    size_t n = strlen(shown);
    if (strncmp(message, shown, n) != 0 || message[n] != ':')
        return message;
    return message + n + 1 + (message[n + 1] == ' ');
}
