/* fuzz_safetensors.c - any bytes: a file is refused in one line, or its tensors tile its data. */
#include "tests/fuzz/fuzz.h"

#include "ref/base/bytes.h"
#include "ref/container/safetensors.h"

const char fuzz_name[] = "safetensors";
unsigned long fuzz_accepted;

static void check_file(const uint8_t *data, size_t size)
{
    sb_safetensors file;
    sb_error err = {{0}};
    sb_status status = sb_safetensors_parse(data, size, "input", &file, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        return;
    }
    fuzz_accepted++;
    const unsigned char *end = data + 8 + sb_load_u64(data);
    unsigned sum = 0;
    for (size_t i = 0; i < file.count; i++) {
        const sb_tensor *t = &file.tensors[i];
        uint64_t bytes = 0;
        FUZZ_CHECK(t->data == end && t->bytes > 0);
        FUZZ_CHECK(strlen(t->name) >= 1 && strlen(t->name) <= SB_MAX_TENSOR_NAME);
        FUZZ_CHECK(t->rank <= SB_MAX_RANK && t->dtype < SB_DTYPE_COUNT);
        FUZZ_CHECK(sb_dtype_bytes(t->dtype, t->rank, t->shape, &bytes, &err) == SB_OK);
        FUZZ_CHECK(bytes == t->bytes);
        end = t->data + t->bytes;
        sum += (unsigned)t->data[0] + t->data[t->bytes - 1]; /* the sanitizer sees these reads */
    }
    FUZZ_CHECK(end == data + size && sum <= 510 * file.count);
    sb_safetensors_close(&file);
}

/* Reads the input as it is, and again with a header length that fits, because most damage is found
 * at the length. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_file(data, size);
    size_t end = size;
    while (end > 8 && data[end - 1] != '}')
        end--;
    if (end <= 8)
        return 0;
    uint8_t *fitted = malloc(size);
    if (!fitted)
        return 0;
    memcpy(fitted, data, size);
    sb_store_u64(fitted, end - 8);
    check_file(fitted, size);
    free(fitted);
    return 0;
}
