/* safetensors.c - arrays in a safetensors file, or in a folder of them, as written by the model
 * debugger of transformers: one file per tensor, which is called `data`. */
#include "ref/container/file.h"
#include "ref/container/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/dump/store.h"

static int has(const sb_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return 1;
    return 0;
}

/* True for hidden states with token ids, which vLLM's connector writes. */
static int is_other(const char *path)
{
    sb_safetensors file;
    if (sb_safetensors_open(path, &file, NULL))
        return 0; /* opening a damaged one reports the error */
    int other = has(&file, "hidden_states") && has(&file, "token_ids");
    sb_safetensors_close(&file);
    return other;
}

static int is_safetensors(const char *path)
{
    sb_dump_names names;
    if (!sb_is_folder(path))
        return sb_ends(path, ".safetensors") && sb_dump_begins(path, "", 0) && !is_other(path);
    if (!sb_dump_has_only(path, ".safetensors") || sb_dump_list(path, ".safetensors", &names, NULL))
        return 0;
    int found = names.count > 0;
    for (size_t i = 0; i < names.count; i++) /* step files belong to an incomplete trace (U-9) */
        found &= !sb_starts(names.items[i], "step-");
    sb_dump_names_free(&names);
    return found;
}

static void release(void *file)
{
    sb_safetensors_close(file);
    free(file);
}

static sb_status add_tensor(sb_dump_store *s, const char *path, const sb_tensor *t,
                            const char *prefix, sb_error *err)
{
    sb_dump_array a = {.file = path, .dtype = t->dtype, .rank = t->rank, .data = t->data};
    char name[2 * SB_MAX_TENSOR_NAME + 2];
    if (sb_dtype_bits(t->dtype) < 8)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: \"%s\" is %s, a type that values of a run never have", SB_SHOW(path),
                       SB_SHOW(t->name), sb_dtype_name(t->dtype));
    memcpy(a.shape, t->shape, sizeof a.shape);
    if (prefix && strcmp(t->name, "data") == 0) /* J-18: "is named as its file" */
        snprintf(name, sizeof name, "%s", prefix);
    else
        snprintf(name, sizeof name, "%s%s%s", prefix ? prefix : "", prefix ? "." : "", t->name);
    return sb_dump_arrays_add(sb_dump_store_arrays(s), &a, name, NULL, t->bytes, err);
}

/* Adds all tensors of a file; prefix NULL: under their own names. */
static sb_status add_file(sb_dump_store *s, const char *dir, const char *name, const char *prefix,
                          sb_error *err)
{
    const char *path = NULL;
    sb_status status = sb_dump_store_path(s, dir, name, &path, err);
    sb_safetensors *file = status ? NULL : sb_alloc(1, sizeof *file);
    if (!status && !file)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    if (!status)
        status = sb_safetensors_open(path, file, err);
    if (status) {
        free(file);
        return status;
    }
    status = sb_dump_store_keep(s, file, release, err);
    for (size_t i = 0; !status && i < file->count; i++)
        status = add_tensor(s, path, &file->tensors[i], prefix, err);
    return status;
}

static sb_status add_folder(sb_dump_store *s, const char *dir, sb_error *err)
{
    sb_dump_names names;
    sb_dump_stem stem;
    sb_status status = sb_dump_list(dir, ".safetensors", &names, err);
    for (size_t i = 0; i < names.count && !status; i++)
        status = add_file(s, dir, names.items[i],
                          sb_dump_stem_of(names.items[i], ".safetensors", &stem), err);
    sb_dump_names_free(&names);
    return status;
}

static sb_status open_safetensors(const char *path, const sb_dump_options *options,
                                  sb_trace_head *head, void **state, sb_error *err)
{
    sb_dump_store *s;
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = sb_is_folder(path) ? add_folder(s, path, err) : add_file(s, NULL, path, NULL, err);
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_safetensors;
const sb_dump_reader sb_dump_safetensors = {
    "safetensors",
    "safetensors: arrays named as taps, or the files of transformers' debugger",
    is_safetensors,
    open_safetensors,
    sb_dump_store_play,
    sb_dump_store_close,
    1};
