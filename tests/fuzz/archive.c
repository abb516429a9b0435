#include "tests/fuzz/archive.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "ref/base/bytes.h"

static void add(archive_text *t, const void *bytes, size_t size)
{
    if (t->size + size > t->room) {
        t->room = 2 * (t->size + size) + 256;
        t->bytes = realloc(t->bytes, t->room);
        if (!t->bytes)
            abort();
    }
    if (size)
        memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

void archive_add(archive *a, const char *name, const void *content, size_t size, unsigned wrong)
{
    size_t n = strlen(name);
    unsigned char local[30] = "PK\x03\x04", entry[46] = "PK\x01\x02";
    sb_store_u32(local + 14, (uint32_t)crc32(0, content, (uInt)size) + wrong);
    sb_store_u32(local + 18, (uint32_t)size);
    sb_store_u32(local + 22, (uint32_t)size);
    sb_store_u16(local + 26, (uint16_t)n);
    memcpy(entry + 16, local + 14, 14);
    sb_store_u32(entry + 42, (uint32_t)a->file.size);
    add(&a->file, local, sizeof local);
    add(&a->file, name, n);
    add(&a->file, content, size);
    add(&a->directory, entry, sizeof entry);
    add(&a->directory, name, n);
    a->members++;
}

void archive_finish(archive *a)
{
    unsigned char end[22] = "PK\x05\x06";
    sb_store_u16(end + 8, (uint16_t)a->members);
    sb_store_u16(end + 10, (uint16_t)a->members);
    sb_store_u32(end + 12, (uint32_t)a->directory.size);
    sb_store_u32(end + 16, (uint32_t)a->file.size);
    add(&a->file, a->directory.bytes, a->directory.size);
    add(&a->file, end, sizeof end);
}

void archive_free(archive *a)
{
    free(a->file.bytes);
    free(a->directory.bytes);
    *a = (archive){.members = 0};
}
