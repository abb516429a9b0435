/* make_gate.c - writes golden/gate, the seeds of fuzz_gate: make_gate FOLDER. They are test vectors
 * of the small op of the tests (tiny_op.h), outputs of a kernel in several types, and a
 * judgement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/file.h"
#include "ref/container/writer.h"
#include "tests/gate/tiny_op.h"
#include "tools/judge/gate/case.h"
#include "tools/judge/gate/element.h"

static sb_error err;

static void stop(const char *what)
{
    fprintf(stderr, "make_gate: %s: %s\n", what, err.text);
    exit(1);
}

typedef struct output {
    const sb_gate_case *c;
    sb_dtype dtype;
} output;

/* Both outputs as in profile exact. */
static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *unused)
{
    const output *o = ctx;
    int choice = strcmp(tensor->name, "out") != 0;
    const float *exact = o->c->output[choice].exact;
    size_t width = sb_dtype_bits(tensor->dtype) / 8;
    (void)unused;
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)first + i;
        float x = exact[at / width];
        uint64_t bits = choice ? (uint64_t)x : sb_element_bits_of(tensor->dtype, x);
        bytes[i] = (unsigned char)(bits >> 8 * (at % width));
    }
    return SB_OK;
}

static void write_got(const sb_gate_case *c, const char *folder, sb_dtype dtype)
{
    char name[64];
    output o = {c, dtype};
    sb_writer *w = NULL;
    snprintf(name, sizeof name, "got-%s.safetensors", sb_dtype_name(dtype));
    char *path = sb_path_join(folder, name);
    if (!path || sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &w, &err) ||
        sb_writer_add(w, "out", dtype, 2, c->output[0].shape, &err) ||
        sb_writer_add(w, "out.largest", SB_DTYPE_I32, 1, c->output[1].shape, &err) ||
        sb_writer_run(w, fill, &o, &err))
        stop(name);
    sb_writer_free(w);
    free(path);
}

static const char judgement[] =
    "{\"spec\":2,\"command\":\"judge\",\"verdict\":\"WITHIN\",\"cases\":[{\"name\":\"a\","
    "\"inputs\":"
    "\"00\",\"verdict\":\"WITHIN\",\"worst\":0.5,\"outputs\":[{\"name\":\"out\",\"digest\":\"01\","
    "\"rows\":[\"02\",\"03\"],\"worst\":0.5},{\"name\":\"out.largest\",\"given\":false}]},{"
    "\"name\":"
    "\"b\",\"verdict\":\"SKIPPED\",\"words\":\"\"}]}\n";

int main(int argc, char **argv)
{
    const sb_gate_request r = {.shape = "rows=2,k=3", .input = SB_DTYPE_F32, .seed = 42};
    sb_gate_case *c = NULL;
    sb_gate_arith ar;
    if (argc != 2) {
        fputs("make_gate FOLDER\n", stderr);
        return 2;
    }
    char *vectors = sb_path_join(argv[1], "vectors.safetensors");
    char *document = sb_path_join(argv[1], "judgement.json");
    if (!vectors || !document || sb_gate_case_of(tiny_op(), &r, &c, &err) ||
        sb_gate_arith_of("fp32", &ar, &err) || sb_gate_write(c, &ar, vectors, &err) ||
        sb_write_file(document, judgement, sizeof judgement - 1, &err))
        stop(argv[1]);
    write_got(c, argv[1], SB_DTYPE_F32);
    write_got(c, argv[1], SB_DTYPE_BF16);
    write_got(c, argv[1], SB_DTYPE_F64);
    sb_gate_case_free(c);
    free(vectors);
    free(document);
    return 0;
}
