#include "tools/cli/outputs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

enum { DEEP = 4 }; /* levels of nested folders: dumps of ranks and steps have two */

static int same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* True if the folder contains the file, links followed. */
static int holds(const char *folder, const struct stat *file, int deep)
{
    DIR *dir = opendir(folder);
    int found = 0;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && !found; e = readdir(dir)) {
        struct stat info;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *path = sb_path_join(folder, e->d_name);
        if (path && stat(path, &info) == 0) {
            found = same(&info, file);
            if (!found && deep > 1 && lstat(path, &info) == 0 && S_ISDIR(info.st_mode))
                found = holds(path, file, deep - 1);
        }
        free(path);
    }
    if (dir)
        closedir(dir);
    return found;
}

static int is_report(const char *path)
{
    return sb_ends(path, ".xml") || sb_ends(path, ".html") || sb_ends(path, ".svg");
}

/* One output of the command line. */
typedef struct output {
    const char *option, *path; /* option: as typed */
    int there;
    struct stat info; /* if something exists there */
} output;

static sb_status check_input(const output *out, const char *text, sb_error *err)
{
    struct stat info;
    if (!out->there || !text || stat(text, &info) != 0)
        return SB_OK;
    if (same(&info, &out->info))
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: this command reads this file and therefore does not write it",
                       SB_SHOW(out->path));
    if (S_ISDIR(info.st_mode) && S_ISREG(out->info.st_mode) && !is_report(out->path) &&
        holds(text, &out->info, DEEP))
        return sb_fail(
            err, SB_ERR_USAGE,
            "%s: this file belongs to %s, which this command reads, and therefore is not written",
            SB_SHOW(out->path), SB_SHOW(text));
    return SB_OK;
}

/* Checks the text of an input, and the part after its first @, : or =. */
static sb_status check_text(const output *out, const char *text, sb_error *err)
{
    sb_status status = check_input(out, text, err);
    if (status || !text)
        return status;
    size_t n = strcspn(text, "@:=");
    return text[n] ? check_input(out, text + n + 1, err) : SB_OK;
}

static sb_status check_inputs(const sb_command_line *line, const output *out, sb_error *err)
{
    sb_status status = SB_OK;
    size_t room = sizeof line->operand / sizeof *line->operand;
    for (size_t i = 0; i < line->operands && i < room && !line->names && !status; i++)
        if (!(line->written >> i & 1))
            status = check_text(out, line->operand[i], err);
    for (size_t i = 0; i < line->opt_count && !status; i++) {
        const sb_opt *o = &line->opts[i];
        if (o->kind == SB_OPT_INPUT)
            status = check_text(out, *(const char *const *)o->value, err);
        const sb_repeated *list = o->value;
        for (size_t k = 0; o->kind == SB_OPT_REPEATED && k < list->count && !status; k++)
            status = check_text(out, list->item[k], err);
    }
    return status;
}

/* *is: both paths lead to the same file, which writing would replace: with links followed, they end
 * at the same name in the same folder. */
static sb_status same_place(const char *a, const char *b, int *is, sb_error *err)
{
    const char *const paths[2] = {a, b};
    char *place[2] = {NULL, NULL};
    const char *name[2] = {a, b};
    struct stat folder[2];
    int found = 1;
    sb_status status = SB_OK;
    for (int i = 0; i < 2 && !status; i++) {
        status = sb_file_place(paths[i], &place[i], err);
        if (status)
            break;
        name[i] = sb_path_last(place[i]);
        char *of = name[i] > place[i] ? sb_strdup(place[i]) : NULL;
        if (of)
            of[name[i] - place[i]] = '\0';
        found &= stat(of ? of : ".", &folder[i]) == 0;
        free(of);
    }
    *is = !status && (found ? strcmp(name[0], name[1]) == 0 && same(&folder[0], &folder[1])
                            : strcmp(a, b) == 0);
    free(place[0]);
    free(place[1]);
    return status;
}

static sb_status check_others(const output *all, size_t count, sb_error *err)
{
    const output *last = &all[count];
    for (size_t i = 0; i < count; i++) {
        int is = 0;
        if (last->there && !S_ISREG(last->info.st_mode) && !S_ISDIR(last->info.st_mode))
            return SB_OK;
        sb_status status = same_place(all[i].path, last->path, &is, err);
        if (status)
            return status;
        if (is)
            return sb_fail(
                err, SB_ERR_USAGE,
                "--%s and --%s name the same file, %s: one output would overwrite the other",
                all[i].option, last->option, SB_SHOW(last->path));
    }
    return SB_OK;
}

sb_status sb_outputs_check(const sb_command_line *line, sb_error *err)
{
    enum { OUTPUTS = 16 };
    output all[OUTPUTS];
    size_t count = 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < line->opt_count + line->operands && !status && count < OUTPUTS; i++) {
        const sb_opt *o = i < line->opt_count ? &line->opts[i] : NULL;
        size_t operand = i - line->opt_count;
        if (o ? o->kind != SB_OPT_OUTPUT || !*(const char *const *)o->value
              : operand >= 4 || !(line->written >> operand & 1))
            continue;
        output *out = &all[count];
        *out = (output){o ? o->name : "DIR",
                        o ? *(const char *const *)o->value : line->operand[operand],
                        0,
                        {0}};
        out->there = stat(out->path, &out->info) == 0;
        status = check_inputs(line, out, err);
        if (!status)
            status = check_others(all, count++, err);
    }
    return status;
}
