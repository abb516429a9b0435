/* fuzz_pickle.c - any bytes as the pickle of a file of torch.save, in an archive with storages of
 * several sizes: refused in one line, or arrays inside these storages. */
#include "tests/fuzz/dump_rows.h"

#include "tests/fuzz/archive.h"
#include "tools/dump/torch.h"

const char fuzz_name[] = "pickle";
unsigned long fuzz_accepted;

/* The storages of nested.pt or protocol4.pt, recognized by their sizes. */
static void fill(archive *a, const uint8_t *data, size_t size)
{
    static const unsigned char content[200] = {0, 0, 0x80, 0x3f, 1, 2, 3};
    static const size_t sizes[2][9] = {{200, 48, 24, 96, 6, 12, 6, 0, 4},
                                       {24, 24, 24, 24, 48, 48, 1, 1, 1}};
    int newer = size > 1 && data[1] == 4;
    archive_add(a, "x/data.pkl", data, size, 0);
    for (unsigned i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "x/data/%u", i);
        archive_add(a, name, content, sizes[newer][i], 0);
    }
    archive_finish(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    archive a = {.members = 0};
    sb_dump_store *store = NULL;
    sb_torch *torch = NULL;
    sb_error err = {{0}};
    if (sb_dump_store_new(&store, &err))
        return 0;
    fill(&a, data, size);
    sb_status status = sb_torch_parse(store, a.file.bytes, a.file.size, "input", &torch, &err);
    if (!status)
        status = sb_torch_add(torch, sb_torch_root(torch), "", 0, store, &err);
    if (status)
        fuzz_check_refusal(status, &err);
    else
        fuzz_accepted++;
    if (!status && sb_dump_store_arrays(store)->count)
        fuzz_play_arrays(sb_dump_store_arrays(store));
    sb_dump_store_close(store);
    archive_free(&a);
    return 0;
}
