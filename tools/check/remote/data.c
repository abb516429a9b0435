#include "tools/check/remote/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/show.h"
#include "tools/check/remote/place.h"
#include "tools/check/remote/shard.h"

typedef struct filler {
    sb_http http;
    const char *folder;
    json_t *record; /* SB_REMOTE_RECORD of the folder */
} filler;

static int by_place(const void *a, const void *b)
{
    const sb_remote_range *x = a, *y = b;
    int order = strcmp(x->shard, y->shard);
    return order ? order : x->at != y->at ? (x->at < y->at ? -1 : 1) : 0;
}

/* The file as it was when its header was read. */
static sb_status recall(const filler *f, const char *name, sb_http_file *file, sb_error *err)
{
    const char *base = json_string_value(json_object_get(f->record, "source"));
    const json_t *row = json_object_get(json_object_get(f->record, "files"), name);
    const json_t *size = json_object_get(row, "size");
    const char *tag = json_string_value(json_object_get(row, "etag"));
    *file = (sb_http_file){.known = 1};
    if (!base || !json_is_integer(size) || json_integer_value(size) < 0 || !tag ||
        strlen(tag) >= sizeof file->tag || strlen(base) >= sizeof file->url)
        return sb_fail(err, SB_ERR_INPUT, "%s/%s: has no source, size and etag of %s",
                       SB_SHOW(f->folder), SB_REMOTE_RECORD, SB_SHOW(name));
    strcpy(file->url, base);
    strcpy(file->tag, tag);
    file->size = (uint64_t)json_integer_value(size);
    if (!sb_http_append(file->url, "/") || !sb_http_append(file->url, name))
        return sb_fail(err, SB_ERR_INPUT, "%s: the address is too long", SB_SHOW(file->url));
    return SB_OK;
}

static sb_status fill_shard(filler *f, const sb_remote_range *ranges, size_t count, sb_error *err)
{
    sb_http_file file;
    sb_status status = recall(f, ranges->shard, &file, err);
    if (status)
        return status;
    char *path = sb_path_join(f->folder, ranges->shard);
    sb_stub_piece *wanted = sb_alloc(count, sizeof *wanted);
    if (!path || !wanted)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(f->folder));
    for (size_t i = 0; i < count && !status; i++)
        wanted[i] = (sb_stub_piece){.at = ranges[i].at, .bytes = ranges[i].bytes};
    if (!status)
        status = sb_remote_shard_data(&f->http, &file, path, wanted, count, err);
    free(file.whole);
    free(wanted);
    free(path);
    return status;
}

static sb_status fill(filler *f, const sb_remote_options *options, const sb_remote_range *ranges,
                      size_t count, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0, n; i < count && !status; i += n) {
        for (n = 1; i + n < count && strcmp(ranges[i].shard, ranges[i + n].shard) == 0; n++)
            ;
        status = fill_shard(f, ranges + i, n, err);
        if (!status && options->progress)
            options->progress(NULL, "tensors", i + n, count);
    }
    return status;
}

sb_status sb_remote_data(const char *text, const sb_remote_options *options, const char *folder,
                         const sb_remote_range *ranges, size_t count, uint64_t *read, sb_error *err)
{
    sb_remote_place place;
    filler f = {.folder = folder};
    char *path = sb_path_join(folder, SB_REMOTE_RECORD);
    sb_remote_range *sorted = sb_alloc(count, sizeof *sorted);
    sb_status status = path && sorted
                           ? sb_remote_place_read(text, &place, err)
                           : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(folder));
    if (!status)
        status = sb_remote_settings(&f.http, err);
    if (!status)
        status = sb_json_load(path, &f.record, err);
    if (!status && count) {
        f.http.home = place.endpoint;
        memcpy(sorted, ranges, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_place);
        status = fill(&f, options, sorted, count, err);
    }
    *read = f.http.read;
    json_decref(f.record);
    free(sorted);
    free(path);
    return status;
}
