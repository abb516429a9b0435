#include "tools/check/remote/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

#define USUAL_ENDPOINT "https://huggingface.co"

static void cut_slashes(char *url)
{
    for (size_t n = strlen(url); n > 0 && url[n - 1] == '/'; n--)
        url[n - 1] = '\0';
}

/* "org/name", "org/name/tree/revision" or "org/name/resolve/revision", the path of a model's
 * page. */
static int parse_page(const char *path, sb_hub_id *id)
{
    static const char *const words[] = {"/tree/", "/resolve/"};
    char text[SB_HUB_ID_MAX + SB_HUB_REVISION_MAX + 16];
    if (strchr(path, '@') || strlen(path) >= sizeof text)
        return 0;
    strcpy(text, path);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *at = strstr(text, words[i]);
        if (!at)
            continue;
        const char *revision = path + (at - text) + strlen(words[i]);
        snprintf(at, sizeof text - (size_t)(at - text), "@%s", revision);
        break;
    }
    return sb_hub_parse_id(text, id);
}

sb_status sb_remote_place_read(const char *text, sb_remote_place *out, sb_error *err)
{
    const char *endpoint = getenv("HF_ENDPOINT");
    *out = (sb_remote_place){0};
    if (!endpoint || !*endpoint)
        endpoint = USUAL_ENDPOINT;
    if (!sb_http_is_url(endpoint) || strpbrk(endpoint, "?#"))
        return sb_fail(err, SB_ERR_USAGE,
                       "HF_ENDPOINT is \"%s\", expected an http or https address",
                       SB_SHOW(endpoint));
    strcpy(out->endpoint, endpoint);
    cut_slashes(out->endpoint);
    if (sb_http_is_url(text) && !strpbrk(text, "?#")) {
        size_t n = strlen(out->endpoint);
        strcpy(out->base, text);
        cut_slashes(out->base);
        out->is_hub = sb_starts(out->base, out->endpoint) && out->base[n] == '/' &&
                      parse_page(out->base + n + 1, &out->id);
        return SB_OK;
    }
    out->is_hub = sb_hub_parse_id(text, &out->id);
    if (out->is_hub)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "%s: --remote expects a path, a hub id (org/name, org/name@revision), or the "
                   "http or https address of a folder",
                   SB_SHOW(text));
}

int sb_remote_list_url(const sb_remote_place *p, char url[SB_HTTP_URL_MAX])
{
    strcpy(url, p->endpoint);
    return sb_http_append(url, "/api/models/") && sb_http_append(url, p->id.repo) &&
           sb_http_append(url, "/revision/") && sb_http_append(url, p->id.revision);
}

int sb_remote_set_commit(sb_remote_place *p, const char *commit)
{
    strcpy(p->base, p->endpoint);
    snprintf(p->id.revision, sizeof p->id.revision, "%s", commit);
    return sb_http_append(p->base, "/") && sb_http_append(p->base, p->id.repo) &&
           sb_http_append(p->base, "/resolve/") && sb_http_append(p->base, commit);
}

/* --- the folder ------------------------------------------------------------------------------- */

static char *cache_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache)
        return sb_path_join(cache, "samebit/remote");
    return home && *home ? sb_path_join(home, ".cache/samebit/remote") : NULL;
}

/* Makes a folder and those above it. */
static sb_status make_folders(const char *path, sb_error *err)
{
    char *text = sb_strdup(path);
    sb_status status = SB_OK;
    if (!text)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    for (size_t i = 1, n = strlen(text); i <= n && !status; i++) {
        char c = text[i];
        if (c != '/' && c != '\0')
            continue;
        text[i] = '\0';
        if (mkdir(text, 0777) != 0 && errno != EEXIST)
            status = sb_fail(err, SB_ERR_IO, "%s: cannot create this folder: %s", SB_SHOW(text),
                             strerror(errno));
        text[i] = c;
    }
    free(text);
    return status;
}

/* "org--name--COMMIT", and for another endpoint also its digest; else "url--DIGEST". */
static sb_status name_of(const sb_remote_place *p, char *name, size_t size, sb_error *err)
{
    const char *address = p->is_hub ? p->endpoint : p->base;
    char commit[SB_HUB_REVISION_MAX + 1];
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(address));
    sb_hash_bytes(hash, address, strlen(address));
    sb_digest digest = sb_hash_end(hash);
    sb_hash_free(hash);
    if (!p->is_hub) {
        snprintf(name, size, "url--%s", digest.hex);
        return SB_OK;
    }
    snprintf(commit, sizeof commit, "%s", p->id.revision);
    for (char *c = commit; *c; c++)
        *c = *c == '/' ? '-' : *c;
    size_t org = strcspn(p->id.repo, "/");
    int usual = strcmp(address, USUAL_ENDPOINT) == 0;
    snprintf(name, size, "%.*s--%s--%s%s%.16s", (int)org, p->id.repo, p->id.repo + org + 1, commit,
             usual ? "" : "--", usual ? "" : digest.hex);
    return SB_OK;
}

sb_status sb_remote_folder(const sb_remote_place *place, const char *cache, char **folder,
                           sb_error *err)
{
    char name[SB_HUB_ID_MAX + SB_HUB_REVISION_MAX + 64];
    char *above = cache ? sb_strdup(cache) : cache_folder();
    if (!above)
        return sb_fail(err, SB_ERR_IO,
                       "there is no folder for the headers: none of --remote-cache, XDG_CACHE_HOME "
                       "and HOME is set");
    sb_status status = name_of(place, name, sizeof name, err);
    if (!status)
        status = make_folders(above, err);
    *folder = status ? NULL : sb_path_join(above, name);
    if (!status && !*folder)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(above));
    free(above);
    return status;
}
