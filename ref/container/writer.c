#include "ref/container/writer.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/container/writer_layout.h"

#define INDEX_NAME "model.safetensors.index.json"

sb_status sb_writer_new(const char *dir, uint64_t max_shard_bytes, unsigned flags, sb_writer **out,
                        sb_error *err)
{
    sb_writer *w = sb_alloc(1, sizeof *w);
    if (w)
        w->path = sb_strdup(dir);
    if (!w || !w->path) {
        sb_writer_free(w);
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(dir));
    }
    size_t n = strlen(w->path);
    while (n > 1 && w->path[n - 1] == '/')
        w->path[--n] = '\0';
    w->flags = flags;
    if (max_shard_bytes > 0 && !(flags & SB_WRITER_FILE))
        w->max_shard_bytes = max_shard_bytes;
    else
        w->max_shard_bytes = UINT64_MAX;
    *out = w;
    return SB_OK;
}

void sb_writer_free(sb_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        free(w->names[i]);
    for (size_t i = 0; w->files && i <= w->shards; i++)
        sb_file_abort(&w->files[i]);
    sb_writer_free_metadata(w);
    free(w->cuts);
    free(w->files);
    free(w->names);
    free(w->tensors);
    free(w->by_name);
    free(w->by_place);
    free(w->path);
    free(w);
}

/* Allows printable ASCII only. All published names are ASCII, and all readers decode ASCII in the
 * same way. */
static sb_status check_name(const sb_writer *w, const char *name, sb_error *err)
{
    size_t n = strlen(name);
    if (n == 0 || n > SB_MAX_TENSOR_NAME || strcmp(name, "__metadata__") == 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: tensor \"%s\": expected a name of 1 to %d bytes, not __metadata__",
                       SB_SHOW(w->path), SB_SHOW(name), SB_MAX_TENSOR_NAME);
    for (size_t i = 0; i < n; i++)
        if (name[i] < 0x20 || name[i] > 0x7e)
            return sb_fail(err, SB_ERR_USAGE,
                           "%s: tensor \"%s\": byte %zu of its name is 0x%02x, expected printable "
                           "ASCII",
                           SB_SHOW(w->path), SB_SHOW(name), i, (unsigned)(unsigned char)name[i]);
    return SB_OK;
}

static sb_status grow(sb_writer *w, sb_error *err)
{
    if (w->count < w->room)
        return SB_OK;
    size_t room = w->room ? 2 * w->room : 64;
    sb_tensor *tensors = sb_realloc(w->tensors, room, sizeof *tensors);
    if (tensors)
        w->tensors = tensors;
    char **names = sb_realloc(w->names, room, sizeof *names);
    if (names)
        w->names = names;
    if (!tensors || !names)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu tensors", SB_SHOW(w->path),
                       room);
    w->room = room;
    return SB_OK;
}

sb_status sb_writer_add(sb_writer *w, const char *name, sb_dtype dtype, unsigned rank,
                        const uint64_t *shape, sb_error *err)
{
    sb_status status = check_name(w, name, err);
    if (status != SB_OK)
        return status;
    sb_error why = {{0}};
    sb_tensor t = {.dtype = dtype, .rank = rank};
    if (rank > SB_MAX_RANK)
        status = sb_fail(&why, SB_ERR_USAGE, "rank %u, expected at most %d", rank, SB_MAX_RANK);
    else if (w->count == SB_MAX_TENSORS)
        status = sb_fail(&why, SB_ERR_USAGE, "expected at most %d tensors", SB_MAX_TENSORS);
    else if (sb_dtype_bytes(dtype, rank, shape, &t.bytes, &why) != SB_OK)
        status = SB_ERR_USAGE;
    if (status != SB_OK)
        return sb_fail(err, status, "%s: tensor \"%s\": %s", SB_SHOW(w->path), SB_SHOW(name),
                       why.text);
    status = grow(w, err);
    if (status != SB_OK)
        return status;
    for (unsigned i = 0; i < rank; i++)
        t.shape[i] = shape[i];
    w->names[w->count] = sb_strdup(name);
    if (!w->names[w->count])
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(w->path));
    t.name = w->names[w->count];
    w->tensors[w->count++] = t;
    return SB_OK;
}

sb_status sb_writer_cut(sb_writer *w, sb_error *err)
{
    size_t n = w->cut_count;
    if ((w->flags & SB_WRITER_FILE) || (n && w->cuts[n - 1] == w->count))
        return SB_OK;
    size_t *grown = sb_realloc(w->cuts, n + 1, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(w->path));
    w->cuts = grown;
    grown[w->cut_count++] = w->count;
    return SB_OK;
}

static sb_status check_file_target(const sb_writer *w, sb_error *err)
{
    struct stat info;
    if ((w->flags & SB_WRITER_REPLACE) || lstat(w->path, &info) != 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "%s: exists, and replacement was not requested",
                   SB_SHOW(w->path));
}

/* Refuses entries that must not be mixed with a new checkpoint. With SB_WRITER_REPLACE, other files
 * (a config.json) may stay, but a *.safetensors of another name would make the result
 * unreadable. */
static sb_status check_entry(const sb_writer *w, const char *name, sb_error *err)
{
    static const char suffix[] = ".safetensors";
    size_t n = strlen(name);
    size_t m = strlen(suffix);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return SB_OK;
    if (!(w->flags & SB_WRITER_REPLACE))
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: the folder is not empty (%s), and replacement was not requested",
                       SB_SHOW(w->path), SB_SHOW(name));
    if (n >= m && strcmp(name + n - m, suffix) == 0 && !sb_writer_is_shard_name(name))
        return sb_fail(
            err, SB_ERR_USAGE,
            "%s: %s is not one of the new files and would stay beside them: remove it first",
            SB_SHOW(w->path), SB_SHOW(name));
    return SB_OK;
}

/* Creates the folder if necessary. Sets *created if this function made the folder, so that it can
 * be removed on failure. */
static sb_status prepare_folder(const sb_writer *w, int *created, sb_error *err)
{
    if (mkdir(w->path, 0777) == 0) {
        *created = 1;
        return SB_OK;
    }
    DIR *dir = errno == EEXIST ? opendir(w->path) : NULL;
    if (!dir)
        return sb_fail(err, SB_ERR_IO, "%s: cannot create or list this folder: %s",
                       SB_SHOW(w->path), strerror(errno));
    sb_status status = SB_OK;
    for (struct dirent *entry = readdir(dir); entry && status == SB_OK; entry = readdir(dir))
        status = check_entry(w, entry->d_name, err);
    closedir(dir);
    return status;
}

static sb_status begin_file(sb_writer *w, size_t file, const char *name, sb_error *err)
{
    if (w->flags & SB_WRITER_FILE)
        return sb_file_begin(w->path, &w->files[file], err);
    char *path = sb_path_join(w->path, name);
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(w->path));
    sb_status status = sb_file_begin(path, &w->files[file], err);
    free(path);
    return status;
}

/* Appends a complete text, or fails if the text is incomplete. */
static sb_status append_text(sb_writer *w, size_t file, sb_text *text, sb_error *err)
{
    sb_status status;
    if (text->failed)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for a header", SB_SHOW(w->path));
    else
        status = sb_file_append(&w->files[file], text->bytes, text->used, err);
    free(text->bytes);
    return status;
}

static sb_status write_tensor(sb_writer *w, const sb_tensor *t, sb_writer_fill fill, void *ctx,
                              unsigned char *piece, sb_error *err)
{
    sb_status status = SB_OK;
    for (uint64_t at = 0; at < t->bytes && status == SB_OK; at += SB_WRITER_PIECE) {
        uint64_t left = t->bytes - at;
        size_t count = left < SB_WRITER_PIECE ? (size_t)left : SB_WRITER_PIECE;
        status = fill(ctx, t, at, piece, count, err);
        if (status == SB_OK)
            status = sb_file_append(&w->files[t->shard], piece, count, err);
    }
    return status;
}

static sb_status write_shard(sb_writer *w, size_t first, size_t end, sb_writer_fill fill, void *ctx,
                             unsigned char *piece, sb_error *err)
{
    size_t shard = w->by_place[first]->shard;
    sb_text header = {0};
    sb_status status = begin_file(w, shard, sb_writer_shard_name(w, shard).text, err);
    if (status != SB_OK)
        return status;
    sb_writer_header(w, first, end, &header);
    if (header.used > SB_MAX_HEADER_BYTES) {
        free(header.bytes);
        return sb_fail(err, SB_ERR_USAGE, "%s: a header of %zu bytes, expected at most %d",
                       SB_SHOW(w->path), header.used, SB_MAX_HEADER_BYTES);
    }
    status = append_text(w, shard, &header, err);
    for (size_t i = first; i < end && status == SB_OK; i++)
        status = write_tensor(w, w->by_place[i], fill, ctx, piece, err);
    if (status == SB_OK)
        status = sb_file_sync(&w->files[shard], err);
    return status;
}

static sb_status write_index(sb_writer *w, sb_error *err)
{
    sb_text text = {0};
    sb_status status = begin_file(w, w->shards, INDEX_NAME, err);
    if (status != SB_OK)
        return status;
    sb_writer_index(w, &text);
    status = append_text(w, w->shards, &text, err);
    if (status == SB_OK)
        status = sb_file_sync(&w->files[w->shards], err);
    return status;
}

/* Writes all files under their temporary names. */
static sb_status write_files(sb_writer *w, sb_writer_fill fill, void *ctx, sb_error *err)
{
    unsigned char *piece = sb_alloc(SB_WRITER_PIECE, 1);
    if (!piece)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(w->path));
    sb_status status = SB_OK;
    size_t first = 0;
    while (first < w->count && status == SB_OK) {
        size_t end = first;
        while (end < w->count && w->by_place[end]->shard == w->by_place[first]->shard)
            end++;
        status = write_shard(w, first, end, fill, ctx, piece, err);
        first = end;
    }
    free(piece);
    if (status == SB_OK && w->shards > 1)
        status = write_index(w, err);
    return status;
}

/* 1 if this run wrote a file of that name. */
static int is_written(const sb_writer *w, const char *name)
{
    if (strcmp(name, INDEX_NAME) == 0)
        return w->shards > 1;
    for (size_t i = 0; i < w->shards; i++)
        if (strcmp(name, sb_writer_shard_name(w, i).text) == 0)
            return 1;
    return 0;
}

/* Removes the shards and the index of the replaced checkpoint. Called when the new checkpoint is
 * complete. */
static sb_status remove_stale(const sb_writer *w, sb_error *err)
{
    DIR *dir = opendir(w->path);
    if (!dir)
        return sb_fail(err, SB_ERR_IO, "%s: cannot list: %s", SB_SHOW(w->path), strerror(errno));
    sb_status status = SB_OK;
    for (struct dirent *entry = readdir(dir); entry && status == SB_OK; entry = readdir(dir)) {
        const char *name = entry->d_name;
        if ((strcmp(name, INDEX_NAME) != 0 && !sb_writer_is_shard_name(name)) ||
            is_written(w, name))
            continue;
        char *path = sb_path_join(w->path, name);
        if (!path || unlink(path) != 0)
            status = sb_fail(err, path ? SB_ERR_IO : SB_ERR_MEMORY,
                             "%s: cannot remove %s, which the new files replace", SB_SHOW(w->path),
                             SB_SHOW(name));
        free(path);
    }
    closedir(dir);
    return status;
}

sb_status sb_writer_run(sb_writer *w, sb_writer_fill fill, void *ctx, sb_error *err)
{
    int created = 0;
    int folder = !(w->flags & SB_WRITER_FILE);
    sb_status status = sb_writer_plan(w, err);
    if (status == SB_OK)
        status = folder ? prepare_folder(w, &created, err) : check_file_target(w, err);
    if (status != SB_OK)
        return status;
    status = write_files(w, fill, ctx, err);
    for (size_t i = 0; i < w->shards + (w->shards > 1) && status == SB_OK; i++)
        status = sb_file_commit(&w->files[i], err);
    if (status == SB_OK && folder)
        status = remove_stale(w, err);
    for (size_t i = 0; i <= w->shards; i++) {
        const sb_file_out *file = &w->files[i];
        if (status != SB_OK && created && file->path && !file->temp)
            unlink(file->path); /* this file was renamed before a later rename failed; a partial set
                                   of files is useless */
        sb_file_abort(&w->files[i]);
    }
    if (status != SB_OK && created)
        rmdir(w->path);
    return status;
}
