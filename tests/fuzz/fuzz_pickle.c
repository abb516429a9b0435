/* fuzz_pickle.c - any bytes as the pickle of a file of torch.save, in an archive with storages of
 * several sizes: refused in one line, or arrays that lie within these. */
#include "tests/fuzz/dump_rows.h"

#include <zlib.h>

#include "ref/base/bytes.h"
#include "tools/dump/torch.h"

const char fuzz_name[] = "pickle";
unsigned long fuzz_accepted;

typedef struct archive {
    unsigned char *bytes, directory[4096];
    size_t size, listed, members;
} archive;

/* One stored member, and its line of the directory. */
static void add_member(archive *a, const char *name, const void *content, size_t size)
{
    size_t n = strlen(name);
    unsigned char local[30] = "PK\x03\x04", entry[46] = "PK\x01\x02";
    sb_store_u32(local + 14, (uint32_t)crc32(0, content, (uInt)size));
    sb_store_u32(local + 18, (uint32_t)size);
    sb_store_u32(local + 22, (uint32_t)size);
    sb_store_u16(local + 26, (uint16_t)n);
    memcpy(entry + 16, local + 14, 14);
    sb_store_u32(entry + 42, (uint32_t)a->size);
    memcpy(a->bytes + a->size, local, 30);
    memcpy(a->bytes + a->size + 30, name, n);
    memcpy(a->bytes + a->size + 30 + n, content, size);
    a->size += 30 + n + size;
    memcpy(a->directory + a->listed, entry, 46);
    memcpy(a->directory + a->listed + 46, name, n);
    a->listed += 46 + n;
    a->members++;
}

static void finish(archive *a)
{
    unsigned char end[22] = "PK\x05\x06";
    sb_store_u16(end + 8, (uint16_t)a->members);
    sb_store_u16(end + 10, (uint16_t)a->members);
    sb_store_u32(end + 12, (uint32_t)a->listed);
    sb_store_u32(end + 16, (uint32_t)a->size);
    memcpy(a->bytes + a->size, a->directory, a->listed);
    memcpy(a->bytes + a->size + a->listed, end, sizeof end);
    a->size += a->listed + sizeof end;
}

/* The storages of nested.pt, or of protocol4.pt, by their sizes. */
static void fill(archive *a, const uint8_t *data, size_t size)
{
    static const unsigned char content[200] = {0, 0, 0x80, 0x3f, 1, 2, 3};
    static const size_t sizes[2][9] = {{200, 48, 24, 96, 6, 12, 6, 0, 4},
                                       {24, 24, 24, 24, 48, 48, 1, 1, 1}};
    int newer = size > 1 && data[1] == 4;
    add_member(a, "x/data.pkl", data, size);
    for (unsigned i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "x/data/%u", i);
        add_member(a, name, content, sizes[newer][i]);
    }
    finish(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    archive a = {.bytes = malloc(size + 16384)};
    sb_dump_store *store = NULL;
    sb_torch *torch = NULL;
    sb_error err = {{0}};
    if (!a.bytes || sb_dump_store_new(&store, &err)) {
        free(a.bytes);
        return 0;
    }
    fill(&a, data, size);
    sb_status status = sb_torch_parse(store, a.bytes, a.size, "input", &torch, &err);
    if (!status)
        status = sb_torch_add(torch, sb_torch_root(torch), "", 0, store, &err);
    if (status)
        fuzz_check_refusal(status, &err);
    else
        fuzz_accepted++;
    if (!status && sb_dump_store_arrays(store)->count)
        fuzz_play_arrays(sb_dump_store_arrays(store));
    sb_dump_store_close(store);
    free(a.bytes);
    return 0;
}
