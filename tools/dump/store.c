#include "tools/dump/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

typedef struct kept {
    void *object;
    void (*release)(void *);
} kept;

struct sb_dump_store {
    sb_dump_arrays arrays;
    sb_dump_rows *rows;
    kept *items;
    size_t count, room;
};

/* --- objects in the store --------------------------------------------------------------------- */

sb_status sb_dump_store_new(sb_dump_store **out, sb_error *err)
{
    *out = sb_alloc(1, sizeof **out);
    return *out ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a file's arrays");
}

sb_dump_arrays *sb_dump_store_arrays(sb_dump_store *store)
{
    return &store->arrays;
}

sb_status sb_dump_store_keep(sb_dump_store *s, void *object, void (*release)(void *), sb_error *err)
{
    kept *more = sb_grow(s->items, s->count, &s->room, sizeof *more);
    if (!more) {
        release(object);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a file's arrays");
    }
    s->items = more;
    s->items[s->count++] = (kept){object, release};
    return SB_OK;
}

sb_status sb_dump_store_path(sb_dump_store *s, const char *dir, const char *name, const char **out,
                             sb_error *err)
{
    char *path = sb_path_join(dir ? dir : "", name);
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a file's name");
    *out = path;
    return sb_dump_store_keep(s, path, free, err);
}

static void release_map(void *map)
{
    sb_map_close(map);
    free(map);
}

sb_status sb_dump_store_map(sb_dump_store *s, const char *path, sb_map *out, sb_error *err)
{
    sb_map *map = sb_alloc(1, sizeof *map);
    sb_status status = map ? sb_map_open(path, map, err)
                           : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    if (status) {
        free(map);
        return status;
    }
    *out = *map;
    return sb_dump_store_keep(s, map, release_map, err);
}

/* --- the reader ------------------------------------------------------------------------------- */

sb_status sb_dump_store_ready(sb_status status, sb_dump_store *s, const char *path,
                              const sb_dump_options *options, sb_trace_head *head, void **state,
                              sb_error *err)
{
    if (!status)
        status = sb_dump_rows_new(&s->arrays, path, options, head, &s->rows, err);
    if (status)
        sb_dump_store_close(s);
    else
        *state = s;
    return status;
}

sb_status sb_dump_store_play(void *store, sb_step_fn take, void *ctx, sb_error *err)
{
    const sb_dump_store *s = store;
    return sb_dump_rows_play(s->rows, take, ctx, err);
}

void sb_dump_store_close(void *store)
{
    sb_dump_store *s = store;
    if (!s)
        return;
    sb_dump_rows_free(s->rows);
    sb_dump_arrays_clear(&s->arrays);
    while (s->count > 0) {
        s->count--;
        s->items[s->count].release(s->items[s->count].object);
    }
    free(s->items);
    free(s);
}

/* --- files and folders ------------------------------------------------------------------------ */

int sb_dump_begins(const char *path, const void *bytes, size_t count)
{
    unsigned char found[32];
    struct stat st;
    if (count > sizeof found || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, found, count);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)count && memcmp(found, bytes, count) == 0;
}

static int has_file(const char *dir, const char *name)
{
    struct stat st;
    char *path = sb_path_join(dir, name);
    int found = path && stat(path, &st) == 0;
    free(path);
    return found;
}

static sb_status add_name(sb_dump_names *out, const char *path, const char *name, sb_error *err)
{
    if (out->count == SB_DUMP_MAX_FILES)
        return sb_fail(err, SB_ERR_INPUT, "%s: more than %d files", SB_SHOW(path),
                       SB_DUMP_MAX_FILES);
    char **more = sb_grow(out->items, out->count, &out->room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    out->items = more;
    out->items[out->count] = sb_strdup(name);
    if (!out->items[out->count])
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    out->count++;
    return SB_OK;
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

sb_status sb_dump_list(const char *path, const char *suffix, sb_dump_names *out, sb_error *err)
{
    sb_status status = SB_OK;
    *out = (sb_dump_names){.count = 0};
    DIR *dir = opendir(path);
    if (!dir || has_file(path, "trace.json") || has_file(path, "config.json")) {
        if (dir)
            closedir(dir);
        return SB_OK;
    }
    for (struct dirent *e = readdir(dir); e && !status; e = readdir(dir))
        if (e->d_name[0] != '.' && sb_ends(e->d_name, suffix))
            status = add_name(out, path, e->d_name, err);
    closedir(dir);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_bytes);
    if (status)
        sb_dump_names_free(out);
    return status;
}

void sb_dump_names_free(sb_dump_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (sb_dump_names){.count = 0};
}

int sb_dump_has_only(const char *path, const char *suffix)
{
    static const char *const kinds[] = {".npy", ".npz", ".pt", ".safetensors"};
    int found = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        sb_dump_names names;
        if (sb_dump_list(path, kinds[i], &names, NULL))
            return 0;
        int mine = strcmp(kinds[i], suffix) == 0, some = names.count > 0;
        sb_dump_names_free(&names);
        if (some && !mine)
            return 0;
        found |= some;
    }
    return found;
}

const char *sb_dump_stem_of(const char *path, const char *suffix, sb_dump_stem *room)
{
    const char *name = sb_path_last(path);
    size_t n = strlen(name) - (sb_ends(name, suffix) ? strlen(suffix) : 0);
    snprintf(room->text, sizeof room->text, "%.*s", (int)n, name);
    return room->text;
}
