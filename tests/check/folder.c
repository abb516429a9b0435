#include "tests/check/folder.h"

#include "tests/lib/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "ref/formats/format.h"
#include "tests/check/folder_parts.h"

static folder_tensor *find(const folder *f, const char *name, int *several)
{
    folder_tensor *part = NULL;
    *several = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->tensors[i]->name, name) == 0) {
            *several = 0;
            return f->tensors[i];
        }
        if (!strstr(f->tensors[i]->name, name))
            continue;
        *several |= part != NULL;
        part = f->tensors[i];
    }
    return *several ? NULL : part;
}

folder_tensor *folder_maybe(const folder *f, const char *name)
{
    int several;
    return find(f, name, &several);
}

folder_tensor *folder_find(const folder *f, const char *name)
{
    int several;
    folder_tensor *t = find(f, name, &several);
    if (!t)
        fail_msg("%s tensor of the folder is called %s", several ? "more than one" : "no", name);
    return t;
}

void folder_tensor_free(folder_tensor *t)
{
    free(t->name);
    free(t->bytes);
    free(t->file);
    free(t);
}

char *folder_string(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    assert_non_null(copy);
    return strcpy(copy, text);
}

/* Inserts a tensor into the list at position `at`. */
static void insert(folder *f, folder_tensor *t, size_t at)
{
    if (f->count == f->room) {
        f->room = 2 * f->room + 16;
        f->tensors = realloc(f->tensors, f->room * sizeof *f->tensors);
        assert_non_null(f->tensors);
    }
    memmove(f->tensors + at + 1, f->tensors + at, (f->count - at) * sizeof *f->tensors);
    f->tensors[at] = t;
    f->count++;
}

static size_t index_of(const folder *f, const folder_tensor *t)
{
    size_t i = 0;
    while (f->tensors[i] != t)
        i++;
    return i;
}

static void take_out(folder *f, const folder_tensor *t)
{
    size_t i = index_of(f, t);
    memmove(f->tensors + i, f->tensors + i + 1, (--f->count - i) * sizeof *f->tensors);
}

void folder_drop(folder *f, const char *name)
{
    folder_tensor *t = folder_find(f, name);
    take_out(f, t);
    folder_tensor_free(t);
}

size_t folder_drop_all(folder *f, const char *part)
{
    size_t kept = 0, count = f->count;
    for (size_t i = 0; i < count; i++)
        if (strstr(f->tensors[i]->name, part))
            folder_tensor_free(f->tensors[i]);
        else
            f->tensors[kept++] = f->tensors[i];
    f->count = kept;
    assert_true(kept < count);
    return count - kept;
}

void folder_rename(folder *f, const char *name, const char *to)
{
    folder_tensor *t = folder_find(f, name);
    free(t->name);
    t->name = folder_string(to);
}

size_t folder_rename_all(folder *f, const char *part, const char *by)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        const char *at = strstr(t->name, part);
        if (!at)
            continue;
        char *name = malloc(strlen(t->name) + strlen(by) + 1);
        assert_non_null(name);
        memcpy(name, t->name, (size_t)(at - t->name));
        strcpy(name + (at - t->name), by);
        strcat(name, at + strlen(part));
        free(t->name);
        t->name = name;
        count++;
    }
    assert_true(count > 0);
    return count;
}

static size_t behind(const folder *f, const char *file)
{
    size_t at = f->count;
    while (at > 0 && strcmp(f->tensors[at - 1]->file, file) != 0)
        at--;
    return at ? at : f->count;
}

folder_tensor *folder_add(folder *f, const char *name, sb_dtype dtype, unsigned rank,
                          const uint64_t *shape, const char *file)
{
    folder_tensor *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *t = (folder_tensor){.name = folder_string(name), .dtype = dtype, .rank = rank};
    for (unsigned d = 0; d < rank; d++)
        t->shape[d] = shape[d];
    assert_int_equal(sb_dtype_bytes(dtype, rank, t->shape, &t->size, NULL), SB_OK);
    t->bytes = calloc(1, (size_t)t->size);
    assert_non_null(t->bytes);
    t->file = folder_string(file ? file : f->count ? f->tensors[0]->file : "model.safetensors");
    insert(f, t, behind(f, t->file));
    return t;
}

folder_tensor *folder_twin(folder *f, const char *name, const char *new_name, const char *file)
{
    const folder_tensor *from = folder_find(f, name);
    folder_tensor *t =
        folder_add(f, new_name, from->dtype, from->rank, from->shape, file ? file : from->file);
    folder_copy_bytes(t, from);
    return t;
}

void folder_move(folder *f, const char *name, const char *file)
{
    folder_tensor *t = folder_find(f, name);
    take_out(f, t);
    free(t->file);
    t->file = folder_string(file);
    insert(f, t, behind(f, file));
}

static void set_shape(folder_tensor *t, unsigned rank, const uint64_t *shape)
{
    uint64_t dims[SB_MAX_RANK] = {0}; /* shape may point to t->shape */
    for (unsigned d = 0; d < rank; d++)
        dims[d] = shape[d];
    t->rank = rank;
    memcpy(t->shape, dims, sizeof dims);
}

void folder_reshape(folder_tensor *t, unsigned rank, const uint64_t *shape)
{
    uint64_t bytes;
    set_shape(t, rank, shape);
    assert_int_equal(sb_dtype_bytes(t->dtype, rank, t->shape, &bytes, NULL), SB_OK);
    assert_int_equal(bytes, t->size);
}

void folder_retype(folder_tensor *t, sb_dtype dtype)
{
    if (t->rank) {
        uint64_t bits = t->shape[t->rank - 1] * sb_dtype_bits(t->dtype);
        assert_int_equal(bits % sb_dtype_bits(dtype), 0);
        t->shape[t->rank - 1] = bits / sb_dtype_bits(dtype);
    }
    t->dtype = dtype;
    folder_reshape(t, t->rank, t->shape);
}

void folder_resize(folder_tensor *t, unsigned rank, const uint64_t *shape)
{
    uint64_t old = t->size;
    set_shape(t, rank, shape);
    assert_int_equal(sb_dtype_bytes(t->dtype, rank, t->shape, &t->size, NULL), SB_OK);
    t->bytes = realloc(t->bytes, (size_t)t->size);
    assert_non_null(t->bytes);
    if (t->size > old)
        memset(t->bytes + old, 0, (size_t)(t->size - old));
}

void folder_swap(folder_tensor *a, folder_tensor *b)
{
    unsigned char *bytes = a->bytes;
    assert_int_equal(a->size, b->size);
    a->bytes = b->bytes;
    b->bytes = bytes;
}

void folder_copy_bytes(folder_tensor *to, const folder_tensor *from)
{
    assert_int_equal(to->size, from->size);
    memcpy(to->bytes, from->bytes, (size_t)to->size);
}

/* --- values ----------------------------------------------------------------------------------- */

void folder_flip(folder_tensor *t, uint64_t byte, unsigned bits)
{
    assert_true(byte < t->size);
    t->bytes[byte] ^= (unsigned char)bits;
}

static sb_format format_of(const folder_tensor *t)
{
    switch (t->dtype) {
    case SB_DTYPE_F32:
        return SB_FORMAT_f32;
    case SB_DTYPE_BF16:
        return SB_FORMAT_bf16;
    case SB_DTYPE_F16:
        return SB_FORMAT_f16;
    case SB_DTYPE_F8_E4M3:
        return SB_FORMAT_e4m3;
    default:
        fail_msg("%s holds %s, which are no floats", t->name, sb_dtype_name(t->dtype));
        return SB_FORMAT_COUNT;
    }
}

uint64_t folder_values(const folder_tensor *t)
{
    return t->size * 8 / sb_dtype_bits(t->dtype);
}

float folder_get(const folder_tensor *t, uint64_t i)
{
    float value;
    sb_format format = format_of(t);
    assert_true(i < folder_values(t));
    sb_decode(format, t->bytes + i * sb_format_bytes(format), 1, &value);
    return value;
}

void folder_set(folder_tensor *t, uint64_t i, float value)
{
    sb_format format = format_of(t);
    assert_true(i < folder_values(t));
    sb_encode(format, &value, 1, t->bytes + i * sb_format_bytes(format));
}

void folder_fill(folder_tensor *t, float value)
{
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, value);
}

void folder_map(folder_tensor *t, float (*of)(float))
{
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, of(folder_get(t, i)));
}

void folder_zero_rows(folder_tensor *t, uint64_t first, uint64_t count)
{
    uint64_t row = t->rank ? t->shape[t->rank - 1] * sb_dtype_bits(t->dtype) / 8 : t->size;
    assert_true((first + count) * row <= t->size);
    memset(t->bytes + first * row, 0, (size_t)(count * row));
}

unsigned folder_nibble(const folder_tensor *t, uint64_t i)
{
    assert_true(i / 2 < t->size);
    return (unsigned)t->bytes[i / 2] >> (i % 2 * 4) & 15u;
}

void folder_set_nibble(folder_tensor *t, uint64_t i, unsigned code)
{
    unsigned shift = i % 2 * 4;
    assert_true(i / 2 < t->size && code < 16);
    t->bytes[i / 2] = (unsigned char)((t->bytes[i / 2] & ~(15u << shift)) | code << shift);
}
