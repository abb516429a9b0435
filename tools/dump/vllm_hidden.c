/* vllm_hidden.c - hidden states of a request from vLLM's example connector: one safetensors file
 * with `hidden_states` [tokens, places, H] and `token_ids`. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"
#include "tools/dump/store.h"

static const sb_tensor *find(const sb_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

static int is_hidden(const char *path)
{
    sb_safetensors file;
    if (!sb_ends(path, ".safetensors") || !sb_dump_begins(path, "", 0) ||
        sb_safetensors_open(path, &file, NULL))
        return 0;
    int found = find(&file, "hidden_states") && find(&file, "token_ids");
    sb_safetensors_close(&file);
    return found;
}

/* J-45: "the writer holds a lock on the file with `.lock` after its name" */
static sb_status check_lock(const char *path, sb_error *err)
{
    size_t room = strlen(path) + sizeof ".lock";
    char *lock = sb_alloc(room, 1);
    if (!lock)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    snprintf(lock, room, "%s.lock", path);
    int fd = open(lock, O_RDONLY | O_CLOEXEC), held = 0;
    free(lock);
    if (fd < 0)
        return SB_OK;
    held = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd); /* this releases the lock, too */
    if (!held)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "%s: is still being written: its lock is held",
                   SB_SHOW(path));
}

static void release(void *file)
{
    sb_safetensors_close(file);
    free(file);
}

/* J-45: "The arrays are called hidden_states.0" */
static sb_status add_places(sb_dump_store *s, const char *path, const sb_tensor *t, sb_error *err)
{
    uint64_t places = t->rank == 3 ? t->shape[1] : 1, width = t->shape[t->rank - 1];
    size_t size = sb_dtype_bits(t->dtype) / 8;
    sb_status status = SB_OK;
    for (uint64_t i = 0; i < places && !status; i++) {
        sb_dump_array a = {.file = path, .dtype = t->dtype, .rank = 2};
        const uint64_t stride[2] = {places * width, 1};
        char name[64];
        a.shape[0] = t->shape[0];
        a.shape[1] = width;
        a.data = t->data + (size_t)(i * width) * size;
        snprintf(name, sizeof name, "hidden_states.%llu", (unsigned long long)i);
        status = sb_dump_arrays_add(sb_dump_store_arrays(s), &a, name, stride,
                                    t->bytes - i * width * size, err);
    }
    return status;
}

static sb_status add_all(sb_dump_store *s, const char *path, sb_error *err)
{
    const char *kept = NULL;
    sb_safetensors *file = sb_alloc(1, sizeof *file);
    if (!file)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    sb_status status = sb_safetensors_open(path, file, err);
    if (status) {
        free(file);
        return status;
    }
    status = sb_dump_store_keep(s, file, release, err);
    if (!status)
        status = sb_dump_store_path(s, NULL, path, &kept, err);
    if (status)
        return status;
    const sb_tensor *states = find(file, "hidden_states"), *ids = find(file, "token_ids");
    if (!states || !ids || ids->rank != 1 || (states->rank != 2 && states->rank != 3) ||
        states->shape[0] != ids->shape[0] || sb_dtype_bits(states->dtype) < 8 ||
        !sb_dump_is_integer(ids->dtype) || !states->bytes)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: expected hidden_states [tokens, places, width] and token_ids [tokens]",
                       SB_SHOW(path));
    sb_dump_array a = {.file = kept, .dtype = ids->dtype, .rank = 1, .data = ids->data};
    a.shape[0] = ids->shape[0];
    status = sb_dump_arrays_add(sb_dump_store_arrays(s), &a, "tokens", NULL, ids->bytes, err);
    return status ? status : add_places(s, kept, states, err);
}

static sb_status open_hidden(const char *path, const sb_dump_options *options, sb_trace_head *head,
                             void **state, sb_error *err)
{
    sb_dump_store *s;
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = check_lock(path, err);
    if (!status)
        status = add_all(s, path, err);
    snprintf(head->engine, sizeof head->engine, "vllm (hidden states)");
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_vllm_hidden;
const sb_dump_reader sb_dump_vllm_hidden = {
    .name = "vllm_hidden",
    .what = "hidden states of a request, as vLLM's example connector writes them",
    .is = is_hidden,
    .open = open_hidden,
    .play = sb_dump_store_play,
    .close = sb_dump_store_close,
    .mapped = 1};
