/* protocol_give.c - for tests/cli/protocol.sh: protocol_give F GOT [FAULT] writes the outputs of a
 * plain kernel for protocol F. FAULT is a number of enum kernel_fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/writer.h"
#include "tests/gate/protocol_kernels.h"

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const sb_safetensors *got = ctx;
    (void)err;
    for (size_t i = 0; i < got->count; i++)
        if (strcmp(got->tensors[i].name, tensor->name) == 0)
            memcpy(bytes, got->tensors[i].data + first, count);
    return SB_OK;
}

static sb_status write_got(sb_safetensors *got, const char *path, sb_error *err)
{
    sb_writer *writer = NULL;
    sb_status status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, err);
    for (size_t i = 0; i < got->count && !status; i++) {
        const sb_tensor *t = &got->tensors[i];
        status = sb_writer_add(writer, t->name, t->dtype, t->rank, t->shape, err);
    }
    if (!status)
        status = sb_writer_run(writer, fill, got, err);
    sb_writer_free(writer);
    return status;
}

int main(int argc, char **argv)
{
    sb_protocol *p;
    sb_gate_arith ar;
    sb_error err;
    if (argc < 3)
        return 2;
    sb_status status = sb_protocol_read(argv[1], NULL, &p, &ar, &err);
    if (!status) {
        int fault = argc > 3 ? atoi(argv[3]) : 0;
        kernel_run *k = kernel_start(p, (kernel_way){.fault = (kernel_fault)fault});
        sb_safetensors got = *kernel_got(k);
        status = write_got(&got, argv[2], &err);
        kernel_end(k);
        sb_protocol_free(p);
    }
    if (status)
        fprintf(stderr, "protocol_give: %s\n", err.text);
    return (int)status;
}
