/* hashes.c - check 52: compares files with the hashes under which the hub stores them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/container/overlay.h"
#include "ref/container/show.h"
#include "tools/check/read/check.h"
#include "tools/check/judge/file_hash.h"
#include "tools/check/judge/hub_files.h"

/* --- all files, each by one thread ------------------------------------------------------------ */

/* The result for one file. */
typedef struct result {
    sb_file_hashes hashes;
    sb_status status;
    sb_error why;
} result;

typedef struct run {
    sb_check *check;
    sb_hub_files files;
    result *results;   /* one per file */
    sb_source *source; /* NULL: the bytes that are read stay in the page cache */
    _Atomic uint64_t done;
    uint64_t total;
} run;

typedef struct reading {
    run *r;
    uint32_t shard;
    size_t worker;
} reading;

/* I-2: "stays. The rest leaves the cache after it was read" */
static void was_read(void *ctx, int fd, uint64_t first, uint64_t end)
{
    const reading *at = ctx;
    run *r = at->r;
    const sb_check_options *o = r->check->options;
    if (r->source && at->shard != SB_HUB_NO_SHARD)
        sb_source_drop(r->source, at->shard, fd, first, end);
    const uint64_t done = atomic_fetch_add(&r->done, end - first) + (end - first);
    if (o->progress && at->worker == 0 && done < r->total)
        o->progress(o->progress_ctx, "hash", done, r->total);
}

static void hash_one(void *ctx, size_t i, size_t worker)
{
    run *r = ctx;
    const sb_hub_file *file = &r->files.rows[i];
    result *got = &r->results[i];
    reading at = {r, file->shard, worker};
    int wanted[SB_HASH_KINDS] = {0};
    for (unsigned w = 0; w < SB_HUB_WITNESSES; w++) {
        size_t n = strlen(file->hash[w]);
        wanted[SB_HASH_SHA256] |= n == SB_HUB_SHA256;
        wanted[SB_HASH_GIT] |= n == SB_HUB_SHA1;
        wanted[SB_HASH_SHA1] |= n == SB_HUB_SHA1;
    }
    got->status = sb_file_hash(file->path, wanted, was_read, &at, &got->hashes, &got->why);
}

static void hash_all(run *r)
{
    const sb_check_options *o = r->check->options;
    for (size_t i = 0; i < r->files.count; i++)
        r->total += r->files.rows[i].size;
    sb_parallel_in_order(r->files.count, 1, hash_one, r);
    if (o->progress)
        o->progress(o->progress_ctx, "hash", r->total, r->total);
}

/* --- findings --------------------------------------------------------------------------------- */

/* V-152: "Forty digits are git's hash or the plain SHA-1" */
static int is_of(const sb_file_hashes *h, const char *hash)
{
    return strcmp(h->hex[SB_HASH_SHA256], hash) == 0 || strcmp(h->hex[SB_HASH_GIT], hash) == 0 ||
           strcmp(h->hex[SB_HASH_SHA1], hash) == 0;
}

/* V-152: "A file of tensors that has another hash is an ERROR"
 * V-152: "any other file is a WARN" */
static void tell_other(run *r, const sb_hub_file *file, const result *got, sb_hub_witness witness)
{
    const char *hash = file->hash[witness];
    int sha256 = strlen(hash) == SB_HUB_SHA256;
    const char *why = !file->is_payload ? "it was edited after the download"
                      : file->shard == SB_HUB_NO_SHARD
                          ? "the download is incomplete, or it broke the header"
                          : "bytes were changed after the download, or lost during it";
    sb_check_find(
        r->check, 52, file->is_payload ? SB_LEVEL_error : SB_LEVEL_warn, "",
        "%s: its %s is %s, the hub stored %s (%s): %s", SB_SHOW(file->name),
        sha256 ? "SHA-256" : "git hash", got->hashes.hex[sha256 ? SB_HASH_SHA256 : SB_HASH_GIT],
        hash, witness == SB_HUB_BLOB ? "the name of the blob" : ".metadata of the download", why);
}

static void tell_file(run *r, size_t i)
{
    const sb_hub_file *file = &r->files.rows[i];
    const result *got = &r->results[i];
    if (got->status == SB_ERR_MEMORY) {
        r->check->findings.lost = 1;
    } else if (got->status) {
        int bad = got->status == SB_ERR_IO && file->is_payload;
        sb_check_find(r->check, 52, bad ? SB_LEVEL_error : SB_LEVEL_warn, "",
                      "%s: its hash is not known: %s", SB_SHOW(file->name),
                      sb_show_behind(got->why.text, file->path));
    } else {
        for (unsigned w = 0; w < SB_HUB_WITNESSES; w++)
            if (*file->hash[w] && !is_of(&got->hashes, file->hash[w])) {
                tell_other(r, file, got, w);
                break;
            }
    }
}

/* The first file whose commit differs from that of `other` (NULL: the first file with a commit).
 * payload: only files of tensors count. Returns NULL if there is none. */
static const sb_hub_file *commit_unlike(const sb_hub_files *files, int payload,
                                        const sb_hub_file *other)
{
    for (size_t i = 0; i < files->count; i++) {
        const sb_hub_file *file = &files->rows[i];
        if (*file->commit && file->is_payload >= payload &&
            (!other || strcmp(file->commit, other->commit) != 0))
            return file;
    }
    return NULL;
}

/* V-152: "Files of two commits in one folder are a WARN" */
static void tell_commits(run *r)
{
    for (int payload = 1; payload >= 0; payload--) {
        const sb_hub_file *a = commit_unlike(&r->files, payload, NULL);
        const sb_hub_file *b = a ? commit_unlike(&r->files, payload, a) : NULL;
        if (!b)
            continue;
        sb_check_find(
            r->check, 52, SB_LEVEL_warn, "",
            "%s of two commits are in one folder: %s is of commit %s, %s is of %s%s",
            payload ? "shards" : "files", SB_SHOW(a->name), a->commit, SB_SHOW(b->name), b->commit,
            payload ? "; this is sound only if no shard changed between the two commits" : "");
        return;
    }
}

/* V-152: "some files of tensors have a hash and others have none, that is an INFO" */
static void tell_unknown(run *r)
{
    const sb_checkpoint *c = r->check->self.checkpoint;
    const char *first = NULL;
    size_t known = 0, unknown = 0;
    for (uint32_t s = 0; s < sb_checkpoint_own_shards(c); s++) {
        int found = 0;
        for (size_t i = 0; i < r->files.count && !found; i++)
            found = r->files.rows[i].shard == s;
        known += found != 0;
        if (!found && unknown++ == 0)
            first = sb_checkpoint_shard_name(c, s);
    }
    if (known && unknown)
        sb_check_find(r->check, 52, SB_LEVEL_info, "",
                      "%zu files of tensors have no hash of the hub, %s first; %zu have one",
                      unknown, SB_SHOW(first), known);
}

static void tell(run *r)
{
    for (size_t i = 0; i < r->files.count; i++)
        tell_file(r, i);
    tell_commits(r);
    tell_unknown(r);
}

void sb_check_hashes(sb_check *check)
{
    run r = {.check = check};
    sb_error err;
    if (!sb_check_wanted(check, 52) || check->options->no_hashes)
        return;
    sb_status status = sb_hub_files_list(check->self.checkpoint, &r.files, &err);
    check->hub_files = r.files.count;
    r.results = sb_alloc(r.files.count, sizeof *r.results);
    if (status || !r.results) {
        check->findings.lost = 1;
    } else if (r.files.count) {
        if (sb_source_new(check->self.checkpoint, SB_IO_pread, &r.source, &err))
            r.source = NULL;
        hash_all(&r);
        tell(&r);
        sb_source_free(r.source);
    }
    free(r.results);
    sb_hub_files_free(&r.files);
}
