/* fuzz_npy.c - any bytes as a NumPy file: refused in one line, or an array inside these bytes. */
#include "tests/fuzz/dump_rows.h"

#include "tools/dump/npy.h"

const char fuzz_name[] = "npy";
unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_dump_arrays arrays = {.count = 0};
    sb_error err = {{0}};
    sb_status status = sb_npy_parse(data, size, "input", "logits", &arrays, &err);
    if (status)
        fuzz_check_refusal(status, &err);
    else
        fuzz_accepted += (unsigned long)fuzz_play_arrays(&arrays);
    sb_dump_arrays_clear(&arrays);
    return 0;
}
