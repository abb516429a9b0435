#include "tools/check/remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/checkpoint_parts.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "ref/container/target.h"
#include "tools/check/remote/place.h"
#include "tools/check/remote/shard.h"

enum {
    LIST_MAX = 32 << 20, /* bytes of the hub's list of files */
    SMALL_MAX = 64 << 20,
    NAME_MAX_BYTES = 200,
    STALL = 30 /* seconds without a byte */
};

static const uint64_t all_max = (uint64_t)1 << 30; /* bytes that are read for one checkpoint */

static const char *const small_files[] = {
#define SB_REMOTE_FILE(name) name,
#include "tools/check/remote/files.def"
#undef SB_REMOTE_FILE
};

enum { SMALL_FILES = sizeof small_files / sizeof *small_files };

typedef struct fetch {
    sb_http http;
    sb_remote_place place;
    const sb_remote_options *options;
    json_t *listed; /* names of the hub's files, as keys; NULL: there is no list */
    sb_index index; /* if has_index */
    int has_index;
    sb_target target;
    json_t *record; /* file: {size, etag} */
    size_t done, total;
    uint64_t whole;
} fetch;

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for files of a server");
}

/* --- settings --------------------------------------------------------------------------------- */

static sb_status read_token(sb_http *http, sb_error *err)
{
    const char *token = getenv("HF_TOKEN");
    if (!token || !*token)
        return SB_OK;
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            return sb_fail(err, SB_ERR_USAGE, "HF_TOKEN has an invalid character at byte %d",
                           (int)(c - token));
    http->token = token;
    return SB_OK;
}

sb_status sb_remote_settings(sb_http *http, sb_error *err)
{
    const char *offline = getenv("HF_HUB_OFFLINE"), *stall = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    if (offline && *offline && strcmp(offline, "0") != 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "HF_HUB_OFFLINE is set, but --remote reads over HTTP: unset it");
    http->stall = STALL;
    if (stall && *stall) {
        unsigned long seconds = strtoul(stall, NULL, 10);
        if (strlen(stall) > 4 || strspn(stall, "0123456789") != strlen(stall) || seconds < 1)
            return sb_fail(err, SB_ERR_USAGE,
                           "HF_HUB_DOWNLOAD_TIMEOUT is \"%s\", expected 1 to 9999 seconds",
                           SB_SHOW(stall));
        http->stall = (unsigned)seconds;
    }
    http->left = all_max;
    return read_token(http, err);
}

/* --- which files ------------------------------------------------------------------------------ */

/* A name that may become a file of the folder. */
static int is_plain_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_BYTES || name[0] == '.' || strchr(name, '/'))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (name[i] < ' ' || name[i] > '~')
            return 0;
    return 1;
}

static int is_shard_name(const char *name)
{
    return is_plain_name(name) && sb_ends(name, SB_SUFFIX);
}

static int is_commit(const char *text)
{
    return strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40;
}

/* Reads {"sha": ..., "siblings": [{"rfilename": ...}]}. Files in folders of the repository are left
 * out. */
static sb_status read_list(fetch *f, const json_t *document, const char *url, sb_error *err)
{
    const char *commit = json_string_value(json_object_get(document, "sha"));
    const json_t *rows = json_object_get(document, "siblings");
    f->listed = json_object();
    if (!f->listed)
        return no_memory(err);
    if (!commit || !is_commit(commit))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the answer has no \"sha\" of 40 hexadecimal digits, the commit",
                       SB_SHOW(url));
    if (!json_is_array(rows))
        return sb_fail(err, SB_ERR_INPUT, "%s: the answer has no \"siblings\", the list of files",
                       SB_SHOW(url));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(rows, i), "rfilename"));
        if (name && is_plain_name(name) && json_object_set_new(f->listed, name, json_true()) != 0)
            return no_memory(err);
    }
    if (!sb_remote_set_commit(&f->place, commit))
        return sb_fail(err, SB_ERR_INPUT, "%s: the address is too long", SB_SHOW(url));
    return SB_OK;
}

static sb_status list_files(fetch *f, sb_error *err)
{
    sb_http_file file = {.known = 0};
    unsigned char *text = NULL;
    size_t n = 0;
    json_t *document = NULL;
    if (!sb_remote_list_url(&f->place, file.url))
        return sb_fail(err, SB_ERR_USAGE, "%s: the address is too long", SB_SHOW(file.url));
    sb_status status = sb_http_whole(&f->http, &file, LIST_MAX, &text, &n, NULL, err);
    if (!status)
        status = sb_json_parse_rich((const char *)text, n, file.url, &document, err);
    if (!status)
        status = read_list(f, document, file.url, err);
    json_decref(document);
    free(text);
    return status;
}

static int may_be_there(const fetch *f, const char *name)
{
    return !f->listed || json_object_get(f->listed, name);
}

/* --- one file --------------------------------------------------------------------------------- */

static sb_status prepare(const fetch *f, const char *name, sb_http_file *file, char **path,
                         sb_error *err)
{
    *file = (sb_http_file){.known = 0};
    strcpy(file->url, f->place.base);
    if (!sb_http_append(file->url, "/") || !sb_http_append(file->url, name))
        return sb_fail(err, SB_ERR_INPUT, "%s: the address is too long", SB_SHOW(file->url));
    *path = sb_path_join(f->target.partial, name);
    return *path ? SB_OK : no_memory(err);
}

static sb_status remember(fetch *f, const char *name, const sb_http_file *file, sb_error *err)
{
    char tag[SB_HTTP_TAG_MAX];
    snprintf(tag, sizeof tag, "%s", file->tag);
    sb_clean_text(tag);
    f->whole += file->size;
    f->done++;
    if (f->options->progress && f->total)
        f->options->progress(NULL, "files", f->done, f->total > f->done ? f->total : f->done);
    return json_object_set_new(f->record, name,
                               json_pack("{s:I,s:s}", "size", (json_int_t)file->size, "etag", tag))
               ? no_memory(err)
               : SB_OK;
}

/* Reads a small file if the server has it; *there, if not NULL, says whether. */
static sb_status take_small(fetch *f, const char *name, size_t limit, int *there, sb_error *err)
{
    sb_http_file file;
    char *path = NULL;
    unsigned char *bytes = NULL;
    size_t n = 0;
    int absent = !may_be_there(f, name);
    if (there)
        *there = 0;
    if (absent)
        return SB_OK;
    sb_status status = prepare(f, name, &file, &path, err);
    if (!status)
        status = sb_http_whole(&f->http, &file, limit, &bytes, &n, f->listed ? NULL : &absent, err);
    if (!status && !absent)
        status = sb_write_file(path, bytes, n, err);
    if (!status && !absent)
        status = remember(f, name, &file, err);
    if (there)
        *there = !status && !absent;
    free(bytes);
    free(path);
    return status;
}

static sb_status take_shard(fetch *f, const char *name, sb_error *err)
{
    sb_http_file file;
    char *path = NULL;
    if (!is_shard_name(name))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: names the shard \"%s\", which is not a plain file name", SB_INDEX_NAME,
                       SB_SHOW(name));
    sb_status status = prepare(f, name, &file, &path, err);
    if (!status) {
        status = sb_remote_shard(&f->http, &file, path, err);
        free(file.whole);
    }
    if (!status)
        status = remember(f, name, &file, err);
    free(path);
    return status;
}

/* --- all files -------------------------------------------------------------------------------- */

/* Reads the index if there is one. A damaged one stays in the folder, to be judged. */
static sb_status take_index(fetch *f, sb_error *err)
{
    int there = 0;
    sb_error why;
    sb_status status = take_small(f, SB_INDEX_NAME, SB_JSON_MAX_BYTES, &there, err);
    if (status || !there)
        return status;
    char *path = sb_path_join(f->target.partial, SB_INDEX_NAME);
    if (!path)
        return no_memory(err);
    status = sb_index_load(path, &f->index, &why);
    f->has_index = status == SB_OK;
    free(path);
    if (status == SB_ERR_MEMORY || (status && !f->listed))
        return sb_fail(err, status, "%s", why.text);
    return SB_OK;
}

/* The shards: those of the list, which may be more or fewer than those of the index. */
static sb_status take_listed(fetch *f, sb_error *err)
{
    const char *name;
    json_t *yes;
    size_t count = 0;
    sb_status status = SB_OK;
    json_object_foreach(f->listed, name, yes) count += (size_t)is_shard_name(name);
    if (count == 0 || count > SB_MAX_SHARDS)
        return sb_fail(err, SB_ERR_INPUT, "%s: has %zu files *.safetensors, expected 1 to %d",
                       SB_SHOW(f->place.base), count, SB_MAX_SHARDS);
    f->total = f->done + count;
    json_object_foreach(f->listed, name, yes)
    {
        if (!status && is_shard_name(name))
            status = take_shard(f, name, err);
    }
    return status;
}

static sb_status take_indexed(fetch *f, sb_error *err)
{
    sb_status status = SB_OK;
    f->total = f->done + (f->has_index ? f->index.shard_count : 1);
    if (!f->has_index)
        return take_shard(f, SB_SINGLE_NAME, err);
    for (size_t i = 0; i < f->index.shard_count && !status; i++)
        status = take_shard(f, f->index.shards[i].name, err);
    return status;
}

static sb_status write_record(const fetch *f, sb_error *err)
{
    json_t *document = json_pack("{s:s,s:O}", "source", f->place.base, "files", f->record);
    char *text = sb_json_dumps(document, JSON_INDENT(1));
    char *path = sb_path_join(f->target.partial, SB_REMOTE_RECORD);
    sb_status status = text && path ? sb_write_file(path, text, strlen(text), err) : no_memory(err);
    json_decref(document);
    free(text);
    free(path);
    return status;
}

static sb_status take_all(fetch *f, sb_error *err)
{
    f->record = json_object();
    sb_status status = f->record ? SB_OK : no_memory(err);
    for (size_t i = 0; i < SMALL_FILES && !status; i++)
        status = take_small(f, small_files[i], SMALL_MAX, NULL, err);
    if (!status)
        status = take_index(f, err);
    if (!status)
        status = f->listed ? take_listed(f, err) : take_indexed(f, err);
    return status ? status : write_record(f, err);
}

static int is_complete(const char *folder)
{
    char *path = sb_path_join(folder, SB_REMOTE_RECORD);
    int is = path && access(path, R_OK) == 0;
    free(path);
    return is;
}

static sb_status take_folder(fetch *f, const char *folder, sb_error *err)
{
    sb_target_clear(folder);
    sb_status status = sb_target_open(folder, &f->target, err);
    if (status)
        return status;
    status = sb_target_begin(&f->target, NULL, err);
    if (!status)
        status = take_all(f, err);
    if (!status)
        status = sb_target_commit(&f->target, 1, NULL, err);
    sb_target_close(&f->target);
    return status;
}

/* Names the folder; that of a commit may be complete. */
static sb_status find_folder(const fetch *f, sb_remote_result *out, sb_error *err)
{
    free(out->folder);
    out->folder = NULL;
    sb_status status = sb_remote_folder(&f->place, f->options->cache, &out->folder, err);
    out->was_there = !status && f->place.is_hub && is_complete(out->folder);
    return status;
}

sb_status sb_remote_fetch(const char *text, const sb_remote_options *options, sb_remote_result *out,
                          sb_error *err)
{
    fetch f = {.options = options};
    *out = (sb_remote_result){0};
    sb_stubs_allow(); /* to read the headers of the stubs that are written */
    sb_status status = sb_remote_place_read(text, &f.place, err);
    f.http.home = f.place.endpoint;
    if (!status)
        status = sb_remote_settings(&f.http, err);
    if (!status && f.place.is_hub && is_commit(f.place.id.revision))
        status = find_folder(&f, out, err);
    if (!status && f.place.is_hub && !out->was_there)
        status = list_files(&f, err);
    if (!status && !out->was_there)
        status = find_folder(&f, out, err);
    if (!status && !out->was_there)
        status = take_folder(&f, out->folder, err);
    out->read = f.http.read;
    out->whole = f.whole;
    sb_index_free(&f.index);
    json_decref(f.listed);
    json_decref(f.record);
    if (status) {
        free(out->folder);
        out->folder = NULL;
    }
    return status;
}
