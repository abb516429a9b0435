/* fuzz_waivers.c - any bytes as a file of waivers. */
#include "tests/fuzz/fuzz.h"

#include "tools/check/read/waivers.h"

const char fuzz_name[] = "waivers";
unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_waivers waivers;
    sb_error err = {{0}};
    sb_status status = sb_waivers_parse((const char *)data, size, "input", &waivers, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        sb_waivers_free(&waivers);
        return 0;
    }
    fuzz_accepted++;
    for (size_t i = 0; i < waivers.count; i++) {
        const sb_waiver *row = &waivers.rows[i];
        FUZZ_CHECK(row->check <= SB_CHECK_LAST && row->line > 0);
        FUZZ_CHECK(*row->glob && *row->why && !strpbrk(row->glob, " \t\n"));
        FUZZ_CHECK(i == 0 || row[-1].line < row->line);
        FUZZ_CHECK(sb_waivers_cover(&waivers, row->check, SB_LEVEL_fatal, "a.b") == 0);
    }
    sb_waivers_free(&waivers);
    return 0;
}
