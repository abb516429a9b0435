#include "tools/judge/fault/edit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/safetensors.h"
#include "ref/formats/small_float.h"
#include "tools/judge/trace/step.h"

enum { WORDS = 4, FILES = 16 };

/* One file in memory, to be changed and written back. */
typedef struct shard {
    char path[512];
    sb_safetensors file;
    unsigned char *bytes;
} shard;

typedef struct shards {
    shard list[FILES];
    size_t count;
} shards;

typedef struct edit {
    const char *word[WORDS];
    size_t words;
    float number;
    size_t met; /* number of matching tensors */
} edit;

static unsigned char *data_of(const shard *s, const sb_tensor *t)
{
    return s->bytes + (t->data - s->file.bytes);
}

/* --- values ----------------------------------------------------------------------------------- */

static float get(const unsigned char *at, sb_dtype dtype)
{
    if (dtype == SB_DTYPE_F32)
        return sb_f32_from_bits(sb_load_u32(at));
    return sb_f32_from_bits((uint32_t)sb_load_u16(at) << 16);
}

static void put(unsigned char *at, sb_dtype dtype, float x)
{
    uint32_t bits = sb_bits_f32(x);
    if (dtype == SB_DTYPE_F32)
        sb_store_u32(at, bits);
    else /* to the nearest, ties to even */
        sb_store_u16(at, (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16));
}

/* x rounded to a grid of 15 values per row. */
static float coarse(float x, float largest)
{
    float step = largest / 7.0f;
    float y = step > 0 ? x / step : 0;
    int code = (int)(y < 0 ? y - 0.5f : y + 0.5f);
    return (float)code * step;
}

static float changed(const edit *e, float x, float largest)
{
    const char *how = e->word[0];
    if (strcmp(how, "zero") == 0)
        return 0;
    if (strcmp(how, "fill") == 0)
        return e->number;
    if (strcmp(how, "add") == 0)
        return x + e->number;
    if (strcmp(how, "scale") == 0)
        return x * e->number;
    if (strcmp(how, "invert") == 0)
        return 1.0f / x;
    if (strcmp(how, "e4m3") == 0)
        return sb_e4m3_to_f32(sb_f32_to_e4m3(x));
    return strcmp(how, "int4") == 0 ? coarse(x, largest) : x;
}

static void change_values(const edit *e, const sb_tensor *t, unsigned char *data)
{
    size_t width = t->dtype == SB_DTYPE_F32 ? 4 : 2, n = (size_t)(t->bytes / width);
    size_t cols = t->rank ? (size_t)t->shape[t->rank - 1] : 1;
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % cols == 0) {
            largest = 0;
            for (size_t j = i; j < i + cols; j++) {
                float x = get(data + j * width, t->dtype);
                largest = x > largest ? x : -x > largest ? -x : largest;
            }
        }
        float x = get(data + i * width, t->dtype);
        if (strcmp(e->word[0], "alike") == 0 && i >= cols)
            x = get(data + i % cols * width, t->dtype) + 0.25f * x;
        put(data + i * width, t->dtype, changed(e, x, largest));
    }
}

/* Edits a byte of codes or 8-bit scales. */
static unsigned char changed_byte(const edit *e, unsigned char x)
{
    const char *how = e->word[0];
    unsigned code = (unsigned)e->number, size = x & 0x7fu;
    if (strcmp(how, "zero") == 0)
        return 0;
    if (strcmp(how, "clamp") == 0)
        return (unsigned char)((x & 0x80u) | (size > code ? code : size));
    if (strcmp(how, "flush") == 0)
        return size < code ? 0 : x;
    return strcmp(how, "nibbles") == 0
               ? (unsigned char)(((unsigned)x << 4 | (unsigned)x >> 4) & 0xffu)
               : x;
}

static void apply(const edit *e, const sb_tensor *t, unsigned char *data)
{
    if (strcmp(e->word[0], "flip") == 0)
        data[strtoul(e->word[2], NULL, 0) % t->bytes] ^=
            (unsigned char)strtoul(e->word[3], NULL, 0);
    else if (t->dtype == SB_DTYPE_BF16 || t->dtype == SB_DTYPE_F32)
        change_values(e, t, data);
    else
        for (uint64_t i = 0; i < t->bytes; i++)
            data[i] = changed_byte(e, data[i]);
}

/* --- one edit --------------------------------------------------------------------------------- */

static const sb_tensor *find(const shards *all, const char *name, const shard **in)
{
    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 0; i < all->list[s].file.count; i++)
            if (strcmp(all->list[s].file.tensors[i].name, name) == 0) {
                *in = &all->list[s];
                return &all->list[s].file.tensors[i];
            }
    return NULL;
}

static void swap(const shards *all, edit *e)
{
    const shard *in[2] = {NULL};
    const sb_tensor *a = find(all, e->word[1], &in[0]), *b = find(all, e->word[2], &in[1]);
    if (!a || !b || a->bytes != b->bytes)
        return;
    unsigned char *x = data_of(in[0], a), *y = data_of(in[1], b);
    for (uint64_t i = 0; i < a->bytes; i++) {
        unsigned char kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
    e->met = 2;
}

/* Renames in the header, where every name is in quotation marks. */
static void rename_all(const shard *s, edit *e)
{
    uint64_t header = sb_load_u64(s->bytes);
    size_t n = strlen(e->word[1]);
    for (uint64_t i = 8; i + n < 8 + header; i++)
        if (s->bytes[i] == '"' && memcmp(s->bytes + i + 1, e->word[1], n) == 0) {
            s->bytes[i + 1] = 'x';
            e->met++;
        }
}

static sb_status one_edit(const shards *all, char *text, sb_error *err)
{
    edit e = {.words = 0};
    char *next = NULL, copy[400];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *w = strtok_r(copy, " ", &next); w && e.words < WORDS; w = strtok_r(NULL, " ", &next))
        e.word[e.words++] = w;
    if (e.words < 2)
        return sb_fail(err, SB_ERR_USAGE, "\"%s\" is not an edit", text);
    e.number = e.words > 2 ? strtof(e.word[2], NULL) : 0;
    if (strcmp(e.word[0], "swap") == 0)
        swap(all, &e);
    for (size_t s = 0; s < all->count; s++) {
        const shard *in = &all->list[s];
        if (strcmp(e.word[0], "rename") == 0)
            rename_all(in, &e);
        for (size_t i = 0; i < in->file.count && strcmp(e.word[0], "swap") != 0; i++)
            if (sb_tap_matches(e.word[1], in->file.tensors[i].name)) {
                apply(&e, &in->file.tensors[i], data_of(in, &in->file.tensors[i]));
                e.met++;
            }
    }
    return e.met ? SB_OK : sb_fail(err, SB_ERR_USAGE, "\"%s\" matches no tensor", text);
}

/* --- the folder ------------------------------------------------------------------------------- */

static sb_status open_shard(const char *path, shard *s, sb_error *err)
{
    snprintf(s->path, sizeof s->path, "%s", path);
    sb_status status = sb_safetensors_open(path, &s->file, err);
    if (status)
        return status;
    s->bytes = sb_alloc(s->file.size, 1);
    if (!s->bytes)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", path);
    memcpy(s->bytes, s->file.bytes, s->file.size);
    return SB_OK;
}

static sb_status open_all(const char *folder, shards *all, sb_error *err)
{
    DIR *dir = opendir(folder);
    sb_status status = dir ? SB_OK : sb_fail(err, SB_ERR_IO, "cannot open %s", folder);
    for (struct dirent *d; !status && (d = readdir(dir)) != NULL && all->count < FILES;) {
        char path[512];
        const char *end = strrchr(d->d_name, '.');
        if (!end || strcmp(end, ".safetensors") != 0)
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (n < 0 || (size_t)n >= sizeof path)
            continue;
        status = open_shard(path, &all->list[all->count++], err);
    }
    if (dir)
        closedir(dir);
    return status;
}

sb_status sb_edit_folder(const char *folder, const char *edits, sb_error *err)
{
    shards *all = sb_alloc(1, sizeof *all);
    char *text = sb_strdup(edits), *next = NULL;
    sb_status status = all && text ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for edits");
    if (!status)
        status = open_all(folder, all, err);
    for (char *one = status ? NULL : strtok_r(text, ";", &next); one && !status;
         one = strtok_r(NULL, ";", &next))
        status = one_edit(all, one + strspn(one, " "), err);
    for (size_t i = 0; all && i < all->count; i++) {
        sb_safetensors *file = &all->list[i].file;
        size_t size = file->size;
        sb_safetensors_close(file);
        file->size = size;
        if (!status)
            status = sb_write_file(all->list[i].path, all->list[i].bytes, size, err);
        free(all->list[i].bytes);
    }
    free(all);
    free(text);
    return status;
}
