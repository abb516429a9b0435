/* fuzz_zip.c - any bytes as an archive: refused in one line, or members that lie inside these bytes
 * and can be read; some members are arrays. */
#include "tests/fuzz/dump_rows.h"

#include "ref/base/text.h"
#include "tools/dump/npy.h"
#include "tools/dump/zip.h"

const char fuzz_name[] = "zip";
unsigned long fuzz_accepted;

static void read_member(sb_zip *zip, size_t i, sb_dump_arrays *arrays)
{
    const unsigned char *bytes = NULL;
    sb_error err = {{0}};
    size_t size = 0, found;
    unsigned sum = 0;
    FUZZ_CHECK(sb_zip_find(zip, sb_zip_name(zip, i), &found) && found == i);
    FUZZ_CHECK(i == 0 || strcmp(sb_zip_name(zip, i - 1), sb_zip_name(zip, i)) < 0);
    sb_status status = sb_zip_read(zip, i, &bytes, &size, &err);
    for (size_t k = 0; k < size && !status; k++)
        sum += bytes[k];
    if (!status && sb_ends(sb_zip_name(zip, i), ".npy"))
        status = sb_npy_parse(bytes, size, "input", sb_zip_name(zip, i), arrays, &err);
    if (status)
        fuzz_check_refusal(status, &err);
    else
        fuzz_accepted += sum > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_dump_arrays arrays = {.count = 0};
    sb_zip *zip = NULL;
    sb_error err = {{0}};
    sb_status status = sb_zip_open(data, size, "input", &zip, &err);
    if (status) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    for (size_t i = 0; i < sb_zip_count(zip); i++)
        read_member(zip, i, &arrays);
    if (arrays.count)
        fuzz_play_arrays(&arrays);
    sb_dump_arrays_clear(&arrays);
    sb_zip_close(zip);
    return 0;
}
