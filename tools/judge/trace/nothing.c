#include "tools/judge/trace/nothing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/judge/trace/trace_file.h"

int sb_trace_is_step(const char *name)
{
    return sb_starts(name, "step-") && sb_ends(name, ".safetensors");
}

static int has_file(const char *dir, const char *name)
{
    struct stat found;
    char *path = sb_path_join(dir, name);
    int there = path && stat(path, &found) == 0;
    free(path);
    return there;
}

/* U-9: "a folder of steps without it is a run that did not end" */
static sb_status no_folder_of_ours(const char *dir, sb_error *err)
{
    size_t steps = 0, files = 0;
    DIR *d = opendir(dir);
    if (!d)
        return sb_fail(err, SB_ERR_IO, "%s: cannot list this folder", SB_SHOW(dir));
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        steps += sb_trace_is_step(e->d_name) != 0;
        files += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(d);
    if (steps)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: is an unfinished trace: it has %zu step file%s but no " SB_TRACE_LIST
                       ", which is written at the end",
                       SB_SHOW(dir), steps, sb_s(steps));
    if (!files)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: is not a trace: the folder is empty; samebit run --trace or an engine "
                       "writes one (docs/trace.md)",
                       SB_SHOW(dir));
    if (has_file(dir, "config.json"))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: is a checkpoint, not a trace; samebit run CKPT --tokens 1,2,3 --trace "
                       "DIR records a run of it",
                       SB_SHOW(dir));
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: is not a trace: the folder has %zu file%s but no " SB_TRACE_LIST
                   ", and samebit trace --kinds lists no such folder",
                   SB_SHOW(dir), files, sb_s(files));
}

/* For a file of unknown kind: the error shows how the file begins. */
static sb_status no_file_of_ours(const char *path, sb_error *err)
{
    char start[17];
    FILE *file = fopen(path, "rb");
    if (!file)
        return sb_fail(err, SB_ERR_IO, "%s: cannot read this file", SB_SHOW(path));
    size_t n = fread(start, 1, sizeof start - 1, file);
    fclose(file);
    start[n] = '\0';
    start[strcspn(start, "\r\n")] = '\0';
    if (!n)
        return sb_fail(err, SB_ERR_INPUT, "%s: is not a trace: the file is empty", SB_SHOW(path));
    if (strspn(start, "0123456789, \t") == strlen(start) && *start)
        return sb_fail(
            err, SB_ERR_INPUT,
            "%s: contains token ids, not a trace; samebit diff CKPT --engine FILE reads them",
            SB_SHOW(path));
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: is neither a trace folder nor a file that samebit trace --kinds lists: it "
                   "begins with '%s'",
                   SB_SHOW(path), SB_SHOW(start));
}

sb_status sb_trace_nothing(const char *path, sb_error *err)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return sb_fail(err, SB_ERR_IO, "%s: no such file or folder", SB_SHOW(path));
    if (S_ISDIR(found.st_mode))
        return no_folder_of_ours(path, err);
    if (S_ISREG(found.st_mode))
        return no_file_of_ours(path, err);
    return sb_fail(err, SB_ERR_IO, "%s: neither a file nor a folder", SB_SHOW(path));
}
