#include "ref/container/survey.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/text.h"
#include "ref/container/checkpoint_parts.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

typedef struct survey {
    sb_checkpoint *c;
    char **names; /* files of the folder that end in .safetensors, sorted */
    size_t count, room;
    int index_damaged; /* 1: the files that the index names are unknown */
    sb_problem_fn tell;
    void *ctx;
} survey;

static sb_status no_memory(const survey *s, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(s->c->path));
}

static sb_status add_name(survey *s, const char *name, sb_error *err)
{
    char **grown = sb_grow(s->names, s->count, &s->room, sizeof *grown);
    if (!grown)
        return no_memory(s, err);
    s->names = grown;
    s->names[s->count] = sb_strdup(name);
    if (!s->names[s->count])
        return no_memory(s, err);
    s->count++;
    return SB_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static sb_status list_files(survey *s, sb_error *err)
{
    DIR *dir = opendir(s->c->folder);
    if (!dir)
        return sb_fail(err, SB_ERR_IO, "%s: cannot list: %s", SB_SHOW(s->c->folder),
                       strerror(errno));
    sb_status status = SB_OK;
    errno = 0;
    for (struct dirent *entry = readdir(dir); entry && !status; errno = 0, entry = readdir(dir)) {
        size_t n = strlen(entry->d_name), tail = strlen(SB_SUFFIX);
        if (n > tail && strcmp(entry->d_name + n - tail, SB_SUFFIX) == 0)
            status = add_name(s, entry->d_name, err);
    }
    if (!status && errno)
        status =
            sb_fail(err, SB_ERR_IO, "%s: cannot list: %s", SB_SHOW(s->c->folder), strerror(errno));
    closedir(dir);
    if (s->count)
        qsort(s->names, s->count, sizeof *s->names, by_text);
    return status;
}

/* Reads the index if there is one. A damaged index is reported and ignored. */
static sb_status read_index(survey *s, sb_error *err)
{
    struct stat info;
    sb_error why;
    char *path = sb_path_join(s->c->folder, SB_INDEX_NAME);
    if (!path)
        return no_memory(s, err);
    sb_status status = SB_OK;
    if (lstat(path, &info) == 0) {
        status = sb_index_load(path, &s->c->index, &why);
        s->c->has_index = status == SB_OK;
        if (status == SB_ERR_INPUT || status == SB_ERR_IO || status == SB_ERR_UNSUPPORTED) {
            s->index_damaged = 1;
            s->tell(s->ctx, SB_PROBLEM_INDEX, SB_INDEX_NAME, NULL, sb_show_behind(why.text, path));
            status = SB_OK;
        } else if (status) {
            sb_fail(err, status, "%s", why.text);
        }
    }
    free(path);
    return status;
}

/* A file of the folder while it is opened. */
typedef struct opening {
    sb_safetensors file;
    sb_status status;
    int unread; /* it exists, but cannot be read */
    sb_error why;
} opening;

typedef struct opener {
    survey *s;
    opening *all;
} opener;

static void open_one(void *ctx, size_t i, size_t worker)
{
    const opener *by = ctx;
    const survey *s = by->s;
    opening *o = &by->all[i];
    (void)worker;
    char *path = sb_path_join(s->c->folder, s->names[i]);
    o->status = path ? sb_safetensors_open(path, &o->file, &o->why) : no_memory(s, &o->why);
    if (o->status) {
        const char *text = path ? sb_show_behind(o->why.text, path) : o->why.text;
        memmove(o->why.text, text, strlen(text) + 1);
        struct stat info;
        o->unread = o->status == SB_ERR_IO && path && stat(path, &info) == 0;
    }
    free(path);
}

/* Opens all files of the folder that can be opened. Of the work of reading headers, this takes the
 * most time. */
static sb_status open_files(survey *s, sb_error *err)
{
    opening *all = sb_alloc(s->count, sizeof *all);
    s->c->shards = sb_alloc(s->count, sizeof *s->c->shards);
    sb_status status = all && s->c->shards ? SB_OK : no_memory(s, err);
    opener by = {s, all};
    sb_parallel_in_order(status ? 0 : s->count, 1, open_one, &by);
    for (size_t i = 0; all && s->c->shards && i < s->count; i++) {
        sb_shard *shard = &s->c->shards[s->c->shard_count];
        if (!all[i].status) {
            shard->file = all[i].file;
            shard->name = sb_strdup(s->names[i]);
            s->c->shard_count++;
            if (!shard->name)
                status = no_memory(s, err);
        } else if (all[i].file.is_stub && !status) {
            status = sb_fail(err, all[i].status, "%s/%s: %s", SB_SHOW(s->c->folder),
                             SB_SHOW(s->names[i]), all[i].why.text);
        } else if (all[i].status == SB_ERR_MEMORY) {
            status = no_memory(s, err);
        } else if (!status) {
            s->tell(s->ctx, all[i].unread ? SB_PROBLEM_UNREAD : SB_PROBLEM_FILE, s->names[i], NULL,
                    all[i].why.text);
        }
    }
    free(all);
    return status;
}

static int in_folder(const survey *s, const char *name)
{
    return bsearch(&name, s->names, s->count, sizeof *s->names, by_text) != NULL;
}

static void tell_files(const survey *s)
{
    const sb_index *index = sb_checkpoint_index(s->c);
    char text[256];
    for (size_t i = 0; index && i < index->shard_count; i++) {
        const sb_index_shard *want = &index->shards[i];
        if (in_folder(s, want->name))
            continue;
        snprintf(text, sizeof text, "is missing: " SB_INDEX_NAME " puts %zu tensors into it",
                 want->tensors);
        s->tell(s->ctx, SB_PROBLEM_NO_FILE, want->name, NULL, text);
    }
    for (size_t i = 0; i < s->c->shard_count && !s->index_damaged; i++) {
        const char *name = s->c->shards[i].name;
        if (index ? sb_index_has_shard(index, name) : strcmp(name, SB_SINGLE_NAME) == 0)
            continue;
        snprintf(text, sizeof text, "holds %zu tensors, but %s", s->c->shards[i].file.count,
                 index ? SB_INDEX_NAME " does not name it" : "there is no index that names it");
        s->tell(s->ctx, SB_PROBLEM_STRAY, name, NULL, text);
    }
}

static int by_tensor(const void *key, const void *entry)
{
    return strcmp(key, ((const sb_index_entry *)entry)->tensor);
}

static const sb_index_entry *entry_of(const sb_index *index, const char *tensor)
{
    return index && index->count
               ? bsearch(tensor, index->entries, index->count, sizeof *index->entries, by_tensor)
               : NULL;
}

static int is_indexed_here(const sb_checkpoint *c, const sb_tensor *t)
{
    const sb_index_entry *e = entry_of(sb_checkpoint_index(c), t->name);
    return e && strcmp(e->shard_name, c->shards[t->shard].name) == 0;
}

/* Reports tensors that are not in the index. If a whole file is not in the index, the file is
 * reported instead. */
static void tell_unindexed(const survey *s)
{
    const sb_index *index = sb_checkpoint_index(s->c);
    for (size_t i = 0; index && i < s->c->count; i++) {
        const sb_tensor *t = &s->c->tensors[i];
        const char *file = s->c->shards[t->shard].name;
        if (!entry_of(index, t->name) && sb_index_has_shard(index, file))
            s->tell(s->ctx, SB_PROBLEM_UNINDEXED, file, t->name,
                    "is in the file, but not in " SB_INDEX_NAME);
    }
}

static const sb_shard *shard_named(const sb_checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->shard_count; i++)
        if (strcmp(c->shards[i].name, name) == 0)
            return &c->shards[i];
    return NULL;
}

/* Reports lost tensors: goes through two sorted lists together, in which tensors may have twins. */
static void tell_lost(const survey *s)
{
    const sb_checkpoint *c = s->c;
    const sb_index *index = sb_checkpoint_index(c);
    size_t t = 0;
    for (size_t i = 0; index && i < index->count; i++) {
        const sb_index_entry *e = &index->entries[i];
        int here = 0;
        const char *other = NULL;
        char text[SB_MAX_TENSOR_NAME + 128];
        while (t < c->count && strcmp(c->tensors[t].name, e->tensor) < 0)
            t++;
        for (size_t k = t; k < c->count && strcmp(c->tensors[k].name, e->tensor) == 0; k++) {
            const char *file = c->shards[c->tensors[k].shard].name;
            here |= strcmp(file, e->shard_name) == 0;
            other = file;
        }
        if (here || !shard_named(c, e->shard_name))
            continue;
        snprintf(text, sizeof text, "is not in this file, where " SB_INDEX_NAME " puts it%s%s",
                 other ? ", but in " : "", other ? SB_SHOW(other) : "");
        s->tell(s->ctx, SB_PROBLEM_LOST, e->shard_name, e->tensor, text);
    }
}

/* Bytes that are not here count as the same. */
static int same_bytes(const sb_checkpoint *c, const sb_tensor *a, const sb_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 && a->bytes == b->bytes &&
           (sb_checkpoint_in_stub(c, a) || sb_checkpoint_in_stub(c, b) ||
            memcmp(a->data, b->data, (size_t)a->bytes) == 0);
}

/* Reports the tensors that are in several files and drops all copies but one. equal[i] is set to 1
 * for a twin with the same bytes, so that bytes are compared only once. */
static void drop_twins(const survey *s, sb_problem which, unsigned char *equal)
{
    sb_checkpoint *c = s->c;
    size_t kept = 0;
    for (size_t i = 0, n; i < c->count; i += n) {
        sb_tensor *first = &c->tensors[i];
        size_t use = 0;
        for (n = 1; i + n < c->count && strcmp(first[n].name, first->name) == 0; n++)
            if (!is_indexed_here(c, &first[use]) && is_indexed_here(c, &first[n]))
                use = n;
        for (size_t k = 1; k < n; k++) {
            char text[SB_MAX_TENSOR_NAME + 128];
            if (which == SB_PROBLEM_TWIN_EQUAL)
                equal[i + k] = (unsigned char)same_bytes(c, first, &first[k]);
            int same = equal[i + k];
            if (which != (same ? SB_PROBLEM_TWIN_EQUAL : SB_PROBLEM_TWIN_DIFFERS))
                continue;
            snprintf(text, sizeof text, "is also in %s, with %s",
                     SB_SHOW(c->shards[first[k].shard].name),
                     !same ? "other bytes"
                     : sb_checkpoint_in_stub(c, first) || sb_checkpoint_in_stub(c, &first[k])
                         ? "bytes that are not here"
                         : "the same bytes");
            s->tell(s->ctx, which, c->shards[first->shard].name, first->name, text);
        }
        if (which == SB_PROBLEM_TWIN_DIFFERS)
            c->tensors[kept++] = first[use];
    }
    if (which == SB_PROBLEM_TWIN_DIFFERS)
        c->count = kept;
}

static sb_status survey_folder(survey *s, sb_error *err)
{
    sb_status status = list_files(s, err);
    if (!status && s->count == 0)
        status = sb_fail(err, SB_ERR_INPUT, "%s: no checkpoint: there is no *.safetensors",
                         SB_SHOW(s->c->path));
    if (!status)
        status = read_index(s, err);
    if (!status)
        status = open_files(s, err);
    if (status)
        return status;
    tell_files(s);
    status = sb_checkpoint_merge(s->c, err);
    if (status)
        return status;
    tell_unindexed(s);
    tell_lost(s);
    unsigned char *equal = sb_alloc(s->c->count, 1);
    if (!equal)
        return no_memory(s, err);
    drop_twins(s, SB_PROBLEM_TWIN_EQUAL, equal);
    drop_twins(s, SB_PROBLEM_TWIN_DIFFERS, equal);
    free(equal);
    return SB_OK;
}

/* Surveys a single file. If the file is damaged, the survey fails. */
static sb_status survey_file(survey *s, sb_error *err)
{
    s->c->shards = sb_alloc(1, sizeof *s->c->shards);
    if (!s->c->shards)
        return no_memory(s, err);
    sb_status status = sb_checkpoint_add_shard(s->c, s->c->path, sb_path_last(s->c->path), err);
    return status ? status : sb_checkpoint_merge(s->c, err);
}

sb_status sb_checkpoint_survey(const char *path, sb_problem_fn tell, void *ctx, sb_checkpoint **out,
                               sb_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return sb_fail(err, SB_ERR_IO, "%s: cannot open: %s", SB_SHOW(path), strerror(errno));
    survey s = {.c = sb_alloc(1, sizeof *s.c), .tell = tell, .ctx = ctx};
    if (!s.c)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    int folder = S_ISDIR(info.st_mode) != 0;
    sb_status status = sb_checkpoint_set_paths(path, folder, s.c, err);
    if (!status)
        status = folder ? survey_folder(&s, err) : survey_file(&s, err);
    for (size_t i = 0; i < s.count; i++)
        free(s.names[i]);
    free(s.names);
    if (status)
        sb_checkpoint_close(s.c);
    else
        *out = s.c;
    return status;
}
