/* fuzz_index.c - any text as model.safetensors.index.json. */
#include "tests/fuzz/fuzz.h"

#include "ref/container/index.h"

const char fuzz_name[] = "index";
unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_index index;
    sb_error err = {{0}};
    sb_status status = sb_index_parse((const char *)data, size, "input", &index, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    fuzz_accepted++;
    size_t held = 0;
    FUZZ_CHECK(index.count > 0 && index.shard_count > 0 && index.shard_count <= index.count);
    for (size_t i = 0; i < index.shard_count; i++) {
        const char *name = index.shards[i].name;
        FUZZ_CHECK(!strchr(name, '/') && strstr(name, ".safetensors"));
        FUZZ_CHECK(i == 0 || strcmp(index.shards[i - 1].name, name) < 0);
        FUZZ_CHECK(sb_index_has_shard(&index, name) && index.shards[i].tensors > 0);
        held += index.shards[i].tensors;
    }
    FUZZ_CHECK(held == index.count);
    for (size_t i = 0; i < index.count; i++) {
        const sb_index_entry *e = &index.entries[i];
        FUZZ_CHECK(i == 0 || strcmp(e[-1].tensor, e->tensor) < 0);
        FUZZ_CHECK(e->shard < index.shard_count);
        FUZZ_CHECK(strcmp(index.shards[e->shard].name, e->shard_name) == 0);
    }
    sb_index_free(&index);
    return 0;
}
