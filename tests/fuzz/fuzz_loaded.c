/* fuzz_loaded.c - any text as a list of loaded parameters. */
#include "tests/fuzz/fuzz.h"

#include "tools/check/loaded/loaded.h"

const char fuzz_name[] = "loaded";
unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_loaded_list list;
    sb_error err = {{0}};
    sb_status status = sb_loaded_parse((const char *)data, size, "input", &list, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        sb_loaded_free(&list);
        return 0;
    }
    fuzz_accepted++;
    for (size_t i = 0; i < list.count; i++) {
        const sb_loaded_param *p = &list.rows[i];
        FUZZ_CHECK(i == 0 || strcmp(list.rows[i - 1].name, p->name) < 0);
        FUZZ_CHECK(strlen(p->digest) == 32 && p->rank <= SB_LOADED_MAX_RANK);
        FUZZ_CHECK(p->first_count <= SB_LOADED_FIRST && p->elements <= UINT64_MAX >> 4);
        for (size_t k = 0; k < p->part_count; k++)
            FUZZ_CHECK(!p->parts[k].has_rows || p->parts[k].first < p->parts[k].end);
    }
    sb_loaded_free(&list);
    return 0;
}
