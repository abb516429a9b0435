#define _XOPEN_SOURCE 700 /* realpath */
#include "tools/check/judge/hub_files.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/overlay.h"
#include "ref/container/show.h"

enum { METADATA_MAX = 4096 };

/* The number of hexadecimal digits at the start of text. */
static size_t digits(const char *text)
{
    return strspn(text, "0123456789abcdef");
}

/* Accepts only hashes of the two known lengths: caches between a user and the hub put other values
 * into etags. */
static void take_hash(const char *text, size_t n, char *out)
{
    if ((n == SB_HUB_SHA1 || n == SB_HUB_SHA256) && digits(text) >= n)
        snprintf(out, SB_HUB_SHA256 + 1, "%.*s", (int)n, text);
}

/* V-152: "a link to blobs/HASH" - possibly through several links. */
static void ask_blob(sb_hub_file *file)
{
    char *real = realpath(file->path, NULL);
    char *name = real ? strrchr(real, '/') : NULL;
    if (name) {
        *name++ = '\0';
        const char *folder = strrchr(real, '/');
        if (folder && strcmp(folder, "/blobs") == 0)
            take_hash(name, strlen(name), file->hash[SB_HUB_BLOB]);
    }
    free(real);
}

/* V-152: "three lines: the commit, the hash, the time" */
static void read_metadata(sb_hub_file *file, const char *text)
{
    size_t n = strcspn(text, "\r\n");
    if (n == SB_HUB_SHA1 && digits(text) == n)
        snprintf(file->commit, sizeof file->commit, "%.*s", (int)n, text);
    text += n;
    text += strspn(text, "\r\n");
    take_hash(text, strcspn(text, "\r\n"), file->hash[SB_HUB_METADATA]);
}

static void ask_metadata(const char *folder, sb_hub_file *file)
{
    static const char *const places[] = {".cache/huggingface/download", ".huggingface/download"};
    for (size_t i = 0; i < sizeof places / sizeof *places && !*file->hash[SB_HUB_METADATA]; i++) {
        char path[PATH_MAX];
        unsigned char *bytes;
        size_t count;
        sb_error unused;
        int n = snprintf(path, sizeof path, "%s/%s/%s.metadata", folder, places[i], file->name);
        if (n < 0 || (size_t)n >= sizeof path ||
            sb_read_file(path, METADATA_MAX, &bytes, &count, &unused))
            continue;
        read_metadata(file, (const char *)bytes);
        free(bytes);
    }
}

static int ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static uint32_t shard_of(const sb_checkpoint *c, const char *name)
{
    for (uint32_t i = 0; i < sb_checkpoint_own_shards(c); i++)
        if (strcmp(sb_checkpoint_shard_name(c, i), name) == 0)
            return i;
    return SB_HUB_NO_SHARD;
}

static void free_file(sb_hub_file *file)
{
    free(file->name);
    free(file->path);
}

/* Adds a file of the folder if it is a regular file with a record of the hub. */
static sb_status add(const sb_checkpoint *c, const char *name, sb_hub_files *files, sb_error *err)
{
    struct stat about;
    const char *folder = sb_checkpoint_folder(c);
    sb_hub_file file = {.name = sb_strdup(name), .path = sb_path_join(folder, name)};
    sb_hub_file *rows = sb_grow(files->rows, files->count, &files->room, sizeof *rows);
    if (rows)
        files->rows = rows;
    if (!rows || !file.name || !file.path) {
        free_file(&file);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the files of %s", SB_SHOW(folder));
    }
    if (stat(file.path, &about) == 0 && S_ISREG(about.st_mode)) {
        ask_blob(&file);
        ask_metadata(folder, &file);
    }
    if (!*file.hash[SB_HUB_BLOB] && !*file.hash[SB_HUB_METADATA]) {
        free_file(&file);
        return SB_OK;
    }
    file.size = (uint64_t)about.st_size;
    file.shard = shard_of(c, name);
    file.is_payload = ends_in(name, ".safetensors");
    files->rows[files->count++] = file;
    return SB_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const sb_hub_file *)a)->name, ((const sb_hub_file *)b)->name);
}

sb_status sb_hub_files_list(const sb_checkpoint *c, sb_hub_files *out, sb_error *err)
{
    const char *folder = sb_checkpoint_folder(c);
    sb_status status = SB_OK;
    *out = (sb_hub_files){0};
    if (strcmp(sb_checkpoint_path(c), folder) != 0) /* the checkpoint is one file */
        return add(c, sb_checkpoint_shard_name(c, 0), out, err);
    DIR *dir = opendir(folder);
    for (struct dirent *e; !status && dir && (e = readdir(dir));)
        status = add(c, e->d_name, out, err);
    if (dir)
        closedir(dir);
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, by_name);
    return status;
}

void sb_hub_files_free(sb_hub_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free_file(&files->rows[i]);
    free(files->rows);
    *files = (sb_hub_files){0};
}
