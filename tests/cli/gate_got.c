/* gate_got.c - for the scripts of this folder: makes a kernel's possible output for test vectors.
 *
 *   gate_got F GOT NAME=TENSOR:DTYPE[@INDEX=VALUE]...   tensors of F (F32, BF16) in another type,
 *                                                       one element changed
 *   gate_got --rows F GOT [FAULT]                       a kernel: out = x + x of the file's in.x,
 *                                                       FAULT: neighbour, rows, zeros */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/writer.h"
#include "tools/judge/gate/element.h"

enum { MOST = 8 };

typedef struct made {
    char name[64];
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    unsigned char *bytes;
    size_t count;
} made;

static made list[MOST];
static size_t listed;

static int wrong(const char *what)
{
    fprintf(stderr, "gate_got: %s\n", what);
    return 1;
}

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < listed; i++)
        if (strcmp(list[i].name, tensor->name) == 0)
            memcpy(bytes, list[i].bytes + first, count);
    return SB_OK;
}

static int save(const char *path)
{
    sb_error err = {{0}};
    sb_writer *w = NULL;
    sb_status status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &w, &err);
    for (size_t i = 0; i < listed && !status; i++)
        status = sb_writer_add(w, list[i].name, list[i].dtype, list[i].rank, list[i].shape, &err);
    if (!status)
        status = sb_writer_run(w, fill, NULL, &err);
    sb_writer_free(w);
    for (size_t i = 0; i < listed; i++)
        free(list[i].bytes);
    return status ? wrong(err.text) : 0;
}

static void put(made *m, size_t i, double x)
{
    size_t width = sb_dtype_bits(m->dtype) / 8;
    uint64_t bits = sb_element_is_value(m->dtype) ? sb_element_bits_of(m->dtype, (float)x)
                                                  : (uint64_t)(int64_t)x;
    for (size_t b = 0; b < width; b++)
        m->bytes[i * width + b] = (unsigned char)(bits >> 8 * b);
}

static const sb_tensor *find(const sb_safetensors *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

static made *add(const sb_tensor *t, const char *name, sb_dtype dtype)
{
    made *m = &list[listed++];
    snprintf(m->name, sizeof m->name, "%s", name);
    m->dtype = dtype;
    m->rank = t->rank;
    memcpy(m->shape, t->shape, sizeof m->shape);
    m->count = (size_t)(t->bytes * 8 / sb_dtype_bits(t->dtype));
    m->bytes = calloc(m->count, 8);
    return m;
}

/* "out=exact:BF16@17=nan" */
static int add_item(const sb_safetensors *f, char *item)
{
    char *tensor = strchr(item, '='), *type = tensor ? strchr(tensor, ':') : NULL;
    char *change = type ? strchr(type, '@') : NULL, *value = change ? strchr(change, '=') : NULL;
    sb_dtype dtype = SB_DTYPE_F32;
    if (!tensor || !type || listed == MOST)
        return wrong(item);
    *tensor++ = *type++ = '\0';
    if (change)
        *change++ = '\0';
    const sb_tensor *t = find(f, tensor);
    if (!t || !sb_dtype_find(type, &dtype))
        return wrong("no such tensor or type");
    made *m = add(t, item, dtype);
    if (!m->bytes)
        return wrong("out of memory");
    for (size_t i = 0; i < m->count; i++)
        put(m, i, sb_element_value(t->dtype, t->data, i, 0));
    if (value)
        put(m, strtoul(change, NULL, 10), strtod(value + 1, NULL));
    return 0;
}

/* The kernel of the metamorphic gate: no row depends on another. */
static int run_rows(const sb_safetensors *f, const char *fault)
{
    const sb_tensor *x = find(f, "in.x");
    if (!x || x->rank != 2)
        return wrong("no in.x of two axes");
    made *m = add(x, "out", SB_DTYPE_F32);
    size_t rows = (size_t)x->shape[0], width = m->count / rows;
    if (!m->bytes)
        return wrong("out of memory");
    for (size_t i = 0; i < m->count; i++) {
        size_t behind = i + width < m->count ? i + width : i;
        double own = 2 * sb_element_value(x->dtype, x->data, i, 0);
        double other = sb_element_value(x->dtype, x->data, behind, 0);
        put(m, i, strcmp(fault, "zeros") == 0 ? 0 : own);
        if (strcmp(fault, "neighbour") == 0)
            put(m, i, own + other);
        if (strcmp(fault, "rows") == 0 && rows > 8)
            put(m, i, own * 1.5);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int rows = argc > 1 && strcmp(argv[1], "--rows") == 0, failed = 0;
    sb_safetensors f;
    sb_error err = {{0}};
    if (argc < 3 + rows)
        return wrong("F and GOT are missing");
    if (sb_safetensors_open(argv[1 + rows], &f, &err))
        return wrong(err.text);
    if (rows)
        failed = run_rows(&f, argc > 4 ? argv[4] : "");
    for (int i = 3; !rows && i < argc && !failed; i++)
        failed = add_item(&f, argv[i]);
    if (!failed)
        failed = save(argv[2 + rows]);
    sb_safetensors_close(&f);
    return failed;
}
