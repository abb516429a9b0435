#define _GNU_SOURCE

#include "tests/fuzz/command_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/text.h"

static struct {
    command_table *table;
    guard_told *told; /* NULL: no guard */
    const char *inside;
    int argc;
    char **argv;
} now;

void guard_list(command_table *table)
{
    now.table = table;
}

void guard_begin(const char *inside, int argc, char **argv, guard_told *told)
{
    now.inside = inside;
    now.argc = argc;
    now.argv = argv;
    now.told = told;
}

/* --- the parser ------------------------------------------------------------------------------- */

sb_status __real_sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err);
sb_status __wrap_sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err);
sb_status __wrap_sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err)
{
    command_table *to = now.table;
    if (to) {
        now.table = NULL;
        to->count = line->opt_count < GUARD_OPTS ? line->opt_count : GUARD_OPTS;
        memcpy(to->opts, line->opts, to->count * sizeof *to->opts);
        return sb_fail(err, SB_ERR_USAGE, "listed");
    }
    sb_status status = __real_sb_parse(line, argc, argv, err);
    if (!now.told || status)
        return status;
    now.told->parsed = 1;
    now.told->helped = line->helped;
    for (size_t i = 0; i < line->opt_count; i++)
        if (strcmp(line->opts[i].name, "json") == 0)
            now.told->json = *(const int *)line->opts[i].value;
    return status;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Resolves a path that need not exist: its folder, with links followed, and its name. */
static int place_of(const char *path, char out[PATH_MAX + NAME_MAX + 2])
{
    char dir[PATH_MAX], real[PATH_MAX];
    if (realpath(path, real)) {
        snprintf(out, PATH_MAX + NAME_MAX + 2, "%s", real);
        return 1;
    }
    size_t n = (size_t)(sb_path_last(path) - path);
    if (n >= sizeof dir || strlen(path + n) > NAME_MAX)
        return 0;
    snprintf(dir, sizeof dir, "%.*s", n ? (int)n : 1, n ? path : ".");
    if (!realpath(dir, real))
        return 0;
    snprintf(out, PATH_MAX + NAME_MAX + 2, "%s/%s", real, path + n);
    return 1;
}

static int is_under(const char *place, const char *root)
{
    size_t n = strlen(root);
    return strncmp(place, root, n) == 0 && (place[n] == '/' || place[n] == '\0');
}

/* Whether a word leads to a place, or to its folder: a temporary file is beside its target. */
static int names(const char *word, const char *place)
{
    char at[PATH_MAX + NAME_MAX + 2];
    if (!*word || !place_of(word, at))
        return 0;
    if (is_under(place, at))
        return 1;
    char *slash = strrchr(at, '/');
    return slash && slash > at && strncmp(place, at, (size_t)(slash - at)) == 0 &&
           !strchr(place + (slash - at) + 1, '/');
}

static int is_named(const char *place)
{
    for (int i = 1; i < now.argc; i++)
        for (const char *at = now.argv[i]; at; at = strpbrk(at + (*at != '\0'), "@:=/-"))
            if (names(at, place) || (*at && names(at + 1, place)))
                return 1;
    return 0;
}

/* Returns 1 if the call may proceed. */
static int may_change(const char *call, const char *path)
{
    static const char *const devices[] = {"/dev/null", "/dev/full", "/dev/stdout", "/dev/stderr"};
    char place[PATH_MAX + NAME_MAX + 2];
    if (!now.told || !place_of(path, place) || is_under(place, now.inside))
        return 1;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(path, devices[i]) == 0)
            return 1;
    if (is_named(place)) {
        errno = EROFS;
        return 0;
    }
    snprintf(now.told->broken, sizeof now.told->broken, "%s of %.400s", call, place);
    _exit(98);
}

#define WRAP(name, parameters, arguments, path)                                                    \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        return may_change(#name, path) ? __real_##name arguments : -1;                             \
    }
WRAP(rename, (const char *from, const char *to), (from, to), to)
WRAP(renameat2, (int x, const char *from, int y, const char *to, unsigned how),
     (x, from, y, to, how), to)
WRAP(mkdir, (const char *path, mode_t mode), (path, mode), path)
WRAP(rmdir, (const char *path), (path), path)
WRAP(unlink, (const char *path), (path), path)
WRAP(link, (const char *from, const char *to), (from, to), to)
WRAP(symlink, (const char *from, const char *to), (from, to), to)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;
    va_end(list);
    int changes = (flags & (O_CREAT | O_TRUNC)) || (flags & O_ACCMODE) != O_RDONLY;
    return !changes || may_change("open", path) ? __real_open(path, flags, mode) : -1;
}
