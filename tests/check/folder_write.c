/* folder_write.c - writes a folder in memory to files. It does not use the library's writer,
 * because it writes what no writer should. */
#include "tests/check/folder.h"

#include "tests/lib/cmocka.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tests/check/folder_parts.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/splice.h"

/* A file in memory. */
typedef struct image {
    unsigned char *bytes;
    size_t size;
} image;

/* Names need no escapes here: folder_damage_header plants those that do. */
static image header_of(const folder *f, const char *file)
{
    image h = {NULL, 0};
    FILE *out = open_memstream((char **)&h.bytes, &h.size);
    uint64_t at = 0;
    assert_non_null(out);
    fprintf(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < f->count; i++) {
        const folder_tensor *t = f->tensors[i];
        if (strcmp(t->file, file) != 0)
            continue;
        fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, sb_dtype_name(t->dtype));
        for (unsigned d = 0; d < t->rank; d++)
            fprintf(out, "%s%llu", d ? "," : "", (unsigned long long)t->shape[d]);
        fprintf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                (unsigned long long)(at + t->size));
        at += t->size;
    }
    fprintf(out, "}");
    assert_int_equal(fclose(out), 0);
    return h;
}

static void replace_in_header(image *h, const folder_damage *d)
{
    for (size_t at = 0, n = strlen(d->old); at + n <= h->size; at++)
        if (memcmp(h->bytes + at, d->old, n) == 0) {
            splice(&h->bytes, &h->size, at, n, d->by, strlen(d->by));
            return;
        }
    fail_msg("the header has no %s", d->old);
}

static int is_for(const folder *f, const folder_damage *d, const char *file)
{
    return d->kind != DAMAGE_INDEX && strcmp(d->file ? d->file : f->tensors[0]->file, file) == 0;
}

static void fill_random(unsigned char *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)sb_rng_u64(seed, i);
}

/* Applies damage to a range of the file. */
static void apply_range(image *im, const folder_damage *d)
{
    unsigned char *at = im->bytes + d->at;
    assert_true(d->count <= im->size && d->at <= im->size - d->count);
    if (d->kind == DAMAGE_ZERO)
        memset(at, 0, d->count);
    else if (d->kind == DAMAGE_RANDOM)
        fill_random(at, d->count, d->to);
    else if (d->kind == DAMAGE_COPY) {
        assert_true(d->to <= im->size - d->count);
        memmove(im->bytes + d->to, at, d->count);
    } else if (d->kind == DAMAGE_SHIFT) {
        memmove(at, at + d->count, im->size - d->at - d->count);
        memset(im->bytes + im->size - d->count, 0, d->count);
    }
}

static void apply(image *im, const folder_damage *d)
{
    if (d->count)
        apply_range(im, d);
    switch (d->kind) {
    case DAMAGE_BYTE:
        assert_true(d->at < im->size);
        im->bytes[d->at] ^= (unsigned char)d->bits;
        break;
    case DAMAGE_CUT:
        assert_true(d->at <= im->size);
        im->size -= (size_t)d->at;
        break;
    case DAMAGE_APPEND:
        im->bytes = realloc(im->bytes, im->size + (size_t)d->at);
        assert_non_null(im->bytes);
        memset(im->bytes + im->size, 0, (size_t)d->at);
        im->size += (size_t)d->at;
        break;
    default:
        break;
    }
}

/* Zeroes the lost pages of t, whose bytes begin at `start` in the file. */
static void lose_pages(image *im, const folder *f, const folder_tensor *t, size_t start)
{
    size_t end = start + (size_t)t->size;
    for (const folder_damage *d = f->damages; d; d = d->next) {
        if (d->kind != DAMAGE_PAGES || strcmp(d->old, t->name) != 0)
            continue;
        size_t from = start / 4096 * 4096 + (size_t)d->at * 4096, to = from + d->bits * 4096u;
        from = from < start ? start : from;
        to = to > end ? end : to;
        assert_true(from < to);
        memset(im->bytes + from, 0, to - from);
    }
}

static image image_of(const folder *f, const char *file)
{
    image im = header_of(f, file);
    unsigned char length[8];
    uint64_t data = 0;
    for (const folder_damage *d = f->damages; d; d = d->next)
        if (d->kind == DAMAGE_HEADER && is_for(f, d, file))
            replace_in_header(&im, d);
    size_t pad = (8 - im.size % 8) % 8;
    splice(&im.bytes, &im.size, im.size, 0, "       ", pad);
    sb_store_u64(length, im.size);
    splice(&im.bytes, &im.size, 0, 0, length, sizeof length);
    for (size_t i = 0; i < f->count; i++)
        data += strcmp(f->tensors[i]->file, file) == 0 ? f->tensors[i]->size : 0;
    im.bytes = realloc(im.bytes, im.size + (size_t)data + 1);
    assert_non_null(im.bytes);
    for (size_t i = 0; i < f->count; i++) {
        const folder_tensor *t = f->tensors[i];
        if (strcmp(t->file, file) != 0)
            continue;
        memcpy(im.bytes + im.size, t->bytes, (size_t)t->size);
        im.size += (size_t)t->size;
        lose_pages(&im, f, t, im.size - (size_t)t->size);
    }
    for (const folder_damage *d = f->damages; d; d = d->next)
        if (is_for(f, d, file))
            apply(&im, d);
    return im;
}

static void put_file(const char *where, const char *name, const void *bytes, size_t size)
{
    char path[2048];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof path, "%s/%.*s", where, (int)(slash - name), name);
        (void)mkdir(path, 0777);
    }
    snprintf(path, sizeof path, "%s/%s", where, name);
    FILE *out = fopen(path, "wb");
    if (!out || (size && fwrite(bytes, 1, size, out) != size) || fclose(out) != 0)
        fail_msg("cannot write %s", path);
}

static void put_index(const folder *f, const char *path)
{
    json_t *map = json_object();
    uint64_t total = 0;
    for (size_t i = 0; i < f->count; i++) {
        const folder_tensor *t = f->tensors[i];
        total += t->size;
        if (!t->unindexed)
            json_object_set_new(map, t->name, json_string(t->file));
    }
    for (const folder_damage *d = f->damages; d; d = d->next)
        if (d->kind == DAMAGE_INDEX && d->file)
            json_object_set_new(map, d->old, json_string(d->file));
        else if (d->kind == DAMAGE_INDEX)
            json_object_del(map, d->old);
    json_t *root =
        json_pack("{s:{s:I},s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS);
    assert_non_null(text);
    put_file(path, "model.safetensors.index.json", text, strlen(text));
    free(text);
    json_decref(root);
}

static int is_lost(const folder *f, const char *file)
{
    for (const folder_damage *d = f->damages; d; d = d->next)
        if (d->kind == DAMAGE_LOST && is_for(f, d, file))
            return 1;
    return 0;
}

/* True if tensor i is the first of its file. */
static int opens_file(const folder *f, size_t i)
{
    for (size_t k = i; k-- > 0;)
        if (strcmp(f->tensors[k]->file, f->tensors[i]->file) == 0)
            return 0;
    return 1;
}

void folder_remove_at(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char file[2048];
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            if (unlink(file) != 0)
                folder_remove_at(file); /* a subfolder */
        }
    if (dir)
        closedir(dir);
    (void)rmdir(path);
}

/* Paths are reused, so that thousands of folders need only a few. */
static const char *next_path(void)
{
    enum { PATHS = 64 };
    static const char *paths[PATHS];
    static unsigned used;
    char name[64];
    unsigned i = used++ % PATHS;
    snprintf(name, sizeof name, "%ld-%u", (long)getpid(), i);
    if (!paths[i])
        paths[i] = test_path("check", name);
    folder_remove_at(paths[i]);
    if (mkdir(paths[i], 0777) != 0)
        fail_msg("cannot make the folder %s", paths[i]);
    return paths[i];
}

const char *folder_write(const folder *f)
{
    const char *path = next_path();
    for (size_t i = 0; i < f->count; i++) {
        const char *file = f->tensors[i]->file;
        if (!opens_file(f, i) || is_lost(f, file))
            continue;
        image im = image_of(f, file);
        put_file(path, file, im.bytes, im.size);
        free(im.bytes);
    }
    for (size_t i = 0; i < f->file_count; i++)
        put_file(path, f->files[i].name, f->files[i].bytes, f->files[i].size);
    if (f->has_index)
        put_index(f, path);
    return path;
}
