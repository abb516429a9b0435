#include "tools/check/read/word.h"

#include <string.h>

#include "ref/container/show.h"

const char *sb_word_of(const char *text, int quoted, sb_word *room)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "/._-+=:,@%";
    const char *shown = SB_SHOW(text);
    char *to = room->text;
    if (!quoted && *shown && strspn(shown, plain) == strlen(shown))
        return strcpy(room->text, shown);
    *to++ = '\'';
    for (; *shown; shown++) {
        if (*shown == '\'')
            to = (char *)memcpy(to, "'\\'", 3) + 3;
        *to++ = *shown;
    }
    strcpy(to, "'");
    return room->text;
}
