#include "tests/lib/quant_layer.h"

#include "tests/lib/cmocka.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/bytes.h"

sb_checkpoint *quant_open(const test_folder *folder, const char *test)
{
    static const char *path;
    static char header[1 << 18];
    char file[1200];
    unsigned char length[8];
    uint64_t begin = 0;
    size_t n = 1;
    if (!path)
        path = test_path(test, "layer");
    (void)mkdir(path, 0777);
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    strcpy(header, "{");
    for (size_t i = 0; i < folder->count; i++) {
        const test_tensor *t = &folder->tensors[i];
        n += (size_t)sprintf(header + n, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "",
                             t->name, sb_dtype_name(t->dtype));
        for (unsigned d = 0; d < t->rank; d++)
            n += (size_t)sprintf(header + n, "%s%" PRIu64, d ? "," : "", t->shape[d]);
        n += (size_t)sprintf(header + n, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                             begin + t->size);
        assert_true(n < sizeof header / 2);
        begin += t->size;
    }
    header[n++] = '}';
    sb_store_u64(length, n);
    (void)unlink(file); /* some file systems flush a file that is overwritten */
    FILE *out = fopen(file, "wb");
    assert_non_null(out);
    int sound = fwrite(length, 1, 8, out) == 8 && fwrite(header, 1, n, out) == n;
    for (size_t i = 0; i < folder->count; i++)
        sound = sound && fwrite(folder->tensors[i].bytes, 1, (size_t)folder->tensors[i].size,
                                out) == folder->tensors[i].size;
    assert_true(fclose(out) == 0 && sound);
    sb_checkpoint *checkpoint = NULL;
    sb_error err = {""};
    if (sb_checkpoint_open(path, &checkpoint, &err))
        fail_msg("%s", err.text);
    return checkpoint;
}
