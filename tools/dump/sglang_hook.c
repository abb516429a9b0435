/* sglang_hook.c - the folder of SGLang's --debug-tensor-dump-output-folder for a rank: a dictionary
 * of outputs per forward pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/dump/torch.h"

static const char input_ids[] = ".forward_batch_info.input_ids";
static const char positions[] = ".forward_batch_info.positions";

/* "Pass00012.pt" is 12; -1: another name. */
static long pass_of(const char *name)
{
    long n = 0;
    size_t i = 4;
    if (!sb_starts(name, "Pass"))
        return -1;
    for (; name[i] >= '0' && name[i] <= '9' && i < 12; i++)
        n = n * 10 + (name[i] - '0');
    return i >= 9 && strcmp(name + i, ".pt") == 0 ? n : -1;
}

static int is_passes(const char *path)
{
    sb_dump_names names;
    if (!sb_dump_has_only(path, ".pt") || sb_dump_list(path, ".pt", &names, NULL))
        return 0;
    int found = names.count > 0;
    for (size_t i = 0; i < names.count; i++)
        found &= pass_of(names.items[i]) >= 0;
    sb_dump_names_free(&names);
    return found;
}

/* The parent folder, with one folder per rank. */
static sb_status ranks_of(const char *path, sb_dump_names *out, sb_error *err)
{
    sb_dump_names names;
    sb_status status = sb_dump_list(path, "", &names, err);
    size_t kept = 0;
    for (size_t i = 0; i < names.count; i++) {
        int is_rank = sb_starts(names.items[i], "TP") && strstr(names.items[i], "_Rank") &&
                      strstr(names.items[i], "_pid");
        if (is_rank)
            names.items[kept++] = names.items[i];
        else
            free(names.items[i]);
    }
    names.count = kept;
    *out = names;
    return status;
}

static int is_hook(const char *path)
{
    sb_dump_names ranks;
    if (is_passes(path))
        return 1;
    if (ranks_of(path, &ranks, NULL))
        return 0;
    int found = ranks.count > 0;
    sb_dump_names_free(&ranks);
    return found;
}

/* --- the pass of a value ---------------------------------------------------------------------- */

/* The name of the module that the hooks treat as the model: the one with the fed ids. */
static int model_of(const sb_dump_arrays *arrays, size_t from, char *out, size_t room)
{
    for (size_t i = from; i < arrays->count; i++)
        if (sb_ends(arrays->items[i].name, input_ids)) {
            size_t n = strlen(arrays->items[i].name) - strlen(input_ids);
            return n > 0 && snprintf(out, room, "%.*s", (int)n, arrays->items[i].name) < (int)room;
        }
    return 0;
}

/* J-20: "they stand in the file of the next pass" - 1 for the output of the model itself and for
 * everything outside it. */
static int is_of_before(const char *name, const char *model)
{
    size_t n = strlen(model);
    if (strncmp(name, model, n) != 0 || (name[n] != '.' && name[n] != '\0'))
        return 1;
    const char *rest = name + n;
    return *rest == '\0' || strspn(rest, ".0123456789") == strlen(rest);
}

static sb_status rename_array(sb_dump_array *a, const char *name, const char *behind, sb_error *err)
{
    char text[2 * SB_MAX_TENSOR_NAME];
    snprintf(text, sizeof text, "%s%s", name, behind);
    char *copy = sb_strdup(text);
    if (!copy)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(a->file));
    free(a->name);
    a->name = copy;
    return SB_OK;
}

static sb_status sort_pass(sb_dump_arrays *arrays, size_t from, const char *file, sb_error *err)
{
    char model[SB_MAX_TENSOR_NAME + 1];
    sb_status status = SB_OK;
    if (!model_of(arrays, from, model, sizeof model))
        return sb_fail(err, SB_ERR_INPUT, "%s: has no NAME%s: expected the fed ids", SB_SHOW(file),
                       input_ids);
    for (size_t i = from; i < arrays->count && !status; i++) {
        sb_dump_array *a = &arrays->items[i];
        if (sb_ends(a->name, input_ids))
            status = rename_array(a, "tokens", "", err);
        else if (sb_ends(a->name, positions))
            status = rename_array(a, "positions", "", err);
        else if (!is_of_before(a->name, model))
            continue;
        else if (a->call > 0)
            a->call--;
        else
            status = rename_array(a, "before.", a->name, err);
    }
    return status;
}

/* --- the folder ------------------------------------------------------------------------------- */

static sb_status add_passes(sb_dump_store *s, const char *dir, sb_error *err)
{
    sb_dump_names names;
    sb_status status = sb_dump_list(dir, ".pt", &names, err);
    for (size_t i = 0; i < names.count && !status; i++) {
        sb_dump_arrays *arrays = sb_dump_store_arrays(s);
        size_t from = arrays->count;
        const char *path = NULL;
        sb_torch *torch = NULL;
        if (pass_of(names.items[i]) != (long)i)
            status = sb_fail(err, SB_ERR_INPUT, "%s: has %s, expected the pass %zu", SB_SHOW(dir),
                             SB_SHOW(names.items[i]), i);
        if (!status)
            status = sb_dump_store_path(s, dir, names.items[i], &path, err);
        if (!status)
            status = sb_torch_open(s, path, &torch, err);
        if (!status)
            status = sb_torch_add(torch, sb_torch_root(torch), "", i, s, err);
        if (!status)
            status = sort_pass(arrays, from, path, err);
    }
    sb_dump_names_free(&names);
    return status;
}

static sb_status find_folder(sb_dump_store *s, const char *path, const char **out, sb_error *err)
{
    sb_dump_names ranks;
    if (is_passes(path))
        return sb_dump_store_path(s, NULL, path, out, err);
    sb_status status = ranks_of(path, &ranks, err);
    if (!status && ranks.count != 1)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: has folders of %zu ranks, each with a part of the arrays: expected a "
                         "dump of a single GPU",
                         SB_SHOW(path), ranks.count);
    if (!status)
        status = sb_dump_store_path(s, path, ranks.items[0], out, err);
    sb_dump_names_free(&ranks);
    return status;
}

static sb_status open_hook(const char *path, const sb_dump_options *options, sb_trace_head *head,
                           void **state, sb_error *err)
{
    sb_dump_store *s;
    const char *dir = NULL;
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = find_folder(s, path, &dir, err);
    if (!status)
        status = add_passes(s, dir, err);
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_sglang_hook;
const sb_dump_reader sb_dump_sglang_hook = {"sglang-hook",
                                            "SGLang: the passes of --debug-tensor-dump-output-"
                                            "folder",
                                            is_hook,
                                            open_hook,
                                            sb_dump_store_play,
                                            sb_dump_store_close,
                                            1};
