/* names_vision.c - the names of the vision tower, as listed in tools/make/vision.def. */
#include <stdlib.h>
#include <string.h>

#include "tools/check/judge/structure.h"

/* The part after "model.visual.", or, for a block, after "model.visual.blocks.<i>.". */
static const struct {
    int block;
    const char *name;
} names[] = {
#define SCOPE_root 0
#define SCOPE_block 1
#define SB_VISION(scope, name, kind, rank, d0, d1, d2, d3, d4) {SCOPE_##scope, name},
#include "tools/make/vision.def"
#undef SB_VISION
};

/* Skips "<digits>." without leading zeros. */
static const char *after_number(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n == 0 || text[n] != '.' || (n > 1 && *text == '0') ? NULL : text + n + 1;
}

int sb_is_vision_name(const char *name)
{
    static const char *const prefixes[] = {"model.visual.", "visual."};
    const char *tail = NULL;
    int block = 0;
    for (size_t i = 0; i < 2 && !tail; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            tail = name + strlen(prefixes[i]);
    if (tail && strncmp(tail, "blocks.", 7) == 0) {
        block = 1;
        tail = after_number(tail + 7);
    }
    for (size_t i = 0; tail && i < sizeof names / sizeof *names; i++)
        if (names[i].block == block && strcmp(names[i].name, tail) == 0)
            return 1;
    return 0;
}
