#include "ref/container/json_out.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "ref/base/mem.h"

static atomic_int lost; /* an allocation of jansson failed: a document may lack members */

static void *watched(size_t bytes)
{
    void *block = sb_alloc(bytes, 1);
    if (!block)
        lost = 1;
    return block;
}

void sb_json_watch(void)
{
    json_set_alloc_funcs(watched, free);
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

int sb_json_dumpf(const json_t *document, FILE *out, size_t flags)
{
    return document && !lost && json_dumpf(document, out, flags) == 0;
}
