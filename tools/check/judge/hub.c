#include "tools/check/judge/hub.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

enum { REF_MAX = 4096 };

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the path of a checkpoint");
}

static int is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* 1 if the text may be a revision. A revision becomes a path below refs, so it must not contain "."
 * or ".." as a part. */
static int is_revision(const char *text)
{
    size_t n = strlen(text);
    if (n == 0 || n > SB_HUB_REVISION_MAX || text[0] == '/' || text[n - 1] == '/')
        return 0;
    for (const char *c = text; *c; c++)
        if (!is_id_char(*c) && *c != '/')
            return 0;
    for (const char *part = text; part; part = strchr(part, '/'), part += part != NULL)
        if (part[0] == '.' || part[0] == '/')
            return 0;
    return 1;
}

/* There must be exactly one slash before the '@'. */
int sb_hub_parse_id(const char *text, sb_hub_id *id)
{
    size_t n = strcspn(text, "@"), slashes = 0;
    *id = (sb_hub_id){.revision = "main"};
    if (n < 3 || n > SB_HUB_ID_MAX || text[0] == '.' || text[0] == '/' || text[n - 1] == '/')
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '/' && !is_id_char(text[i]))
            return 0;
        slashes += text[i] == '/';
        if (text[i] == '/' && text[i + 1] == '.')
            return 0;
    }
    if (slashes != 1)
        return 0;
    memcpy(id->repo, text, n);
    if (text[n] == '@') {
        if (!is_revision(text + n + 1))
            return 0;
        snprintf(id->revision, sizeof id->revision, "%s", text + n + 1);
        id->has_revision = 1;
    }
    return 1;
}

static char *below(const char *variable, const char *under)
{
    const char *value = getenv(variable);
    return value && *value ? sb_path_join(value, under) : NULL;
}

/* The folder of the cache; NULL: memory ran out, or there is no home directory. */
static char *cache_folder(void)
{
    static const char *const direct[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"};
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        const char *value = getenv(direct[i]);
        if (value && *value)
            return sb_strdup(value);
    }
    char *path = below("HF_HOME", "hub");
    if (!path)
        path = below("XDG_CACHE_HOME", "huggingface/hub");
    return path ? path : below("HOME", ".cache/huggingface/hub");
}

static int is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The names of the existing snapshots, for a message. */
static void list_snapshots(const char *repo, char *text, size_t size)
{
    char *path = sb_path_join(repo, "snapshots");
    DIR *folder = path ? opendir(path) : NULL;
    char first[65] = "";
    unsigned count = 0;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof first)
            continue;
        /* the first by name, independent of the order in the folder */
        if (count++ == 0 || strcmp(e->d_name, first) < 0)
            snprintf(first, sizeof first, "%.64s", e->d_name);
    }
    if (folder)
        closedir(folder);
    free(path);
    text[0] = '\0';
    if (count)
        snprintf(text, size, "; %u snapshots of other revisions are in the cache: @%s%s", count,
                 first, count > 1 ? ", ..." : "");
}

static sb_status absent(const sb_hub_id *id, const char *where, const char *repo, sb_error *err)
{
    char others[160];
    list_snapshots(repo, others, sizeof others);
    return sb_fail(err, SB_ERR_IO,
                   "%s: there is no such path, and no such model with revision %s in the cache "
                   "%s%s; to download it: hf download %s%s%s",
                   id->repo, SB_SHOW(id->revision), SB_SHOW(where), others, id->repo,
                   id->has_revision ? " --revision " : "", id->has_revision ? id->revision : "");
}

/* The content of refs/<revision>: the name of the snapshot. NULL: it does not exist. */
static char *read_ref(const char *repo, const char *revision)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    sb_error unused;
    char *refs = sb_path_join(repo, "refs");
    char *path = refs ? sb_path_join(refs, revision) : NULL;
    if (path && sb_read_file(path, REF_MAX, &bytes, &count, &unused))
        bytes = NULL;
    free(refs);
    free(path);
    if (!bytes)
        return NULL;
    char *text = (char *)bytes;
    text[strcspn(text, "\r\n \t")] = '\0';
    if (!is_revision(text) || strchr(text, '/')) {
        free(text);
        return NULL;
    }
    return text;
}

static sb_status look_up(const sb_hub_id *id, const char *cache, char **out, sb_error *err)
{
    char folder[SB_HUB_ID_MAX + 16];
    size_t org = strcspn(id->repo, "/");
    snprintf(folder, sizeof folder, "models--%.*s--%s", (int)org, id->repo, id->repo + org + 1);
    char *repo = sb_path_join(cache, folder);
    char *hash = repo ? read_ref(repo, id->revision) : NULL;
    char *snapshots = repo ? sb_path_join(repo, "snapshots") : NULL;
    char *path = snapshots ? sb_path_join(snapshots, hash ? hash : id->revision) : NULL;
    sb_status status = SB_OK;
    if (!path)
        status = no_memory(err);
    else if (!is_folder(path))
        status = absent(id, cache, repo, err);
    else
        *out = path;
    if (status)
        free(path);
    free(snapshots);
    free(hash);
    free(repo);
    return status;
}

sb_status sb_hub_resolve(const char *text, char **path, sb_error *err)
{
    struct stat about;
    sb_hub_id id;
    *path = NULL;
    if (stat(text, &about) == 0 || !sb_hub_parse_id(text, &id)) {
        *path = sb_strdup(text);
        return *path ? SB_OK : no_memory(err);
    }
    char *cache = cache_folder();
    if (!cache)
        return sb_fail(err, SB_ERR_IO,
                       "%s: there is no such path, and no cache of the hub to look in: none of "
                       "HF_HUB_CACHE, HF_HOME and HOME is set",
                       SB_SHOW(text));
    sb_status status = look_up(&id, cache, path, err);
    free(cache);
    return status;
}
