/* state_bare.c - the tensors of a state without metadata: another program's dump, read for a
 * comparison. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/run/session.h"
#include "ref/run/state_reader.h"
#include "ref/state/piece.h"

static int has_metadata(const sb_safetensors *in)
{
    for (size_t i = 0; i < in->metadata.count; i++)
        if (sb_starts(in->metadata.pairs[i].key, "samebit.state."))
            return 1;
    return 0;
}

/* The number of rows of a tensor of keys; `otherwise` if the tensor is absent. */
static uint64_t rows_of(const sb_state_reader *r, const char *name, uint64_t otherwise)
{
    const sb_tensor *t = sb_state_find_tensor(r, name);
    return t && t->rank > 0 && t->shape[0] <= SB_POSITION_LIMIT ? t->shape[0] : otherwise;
}

/* Takes the position and the number of entries from the tensors. If no tensor shows the position,
 * takes the position from `like`. */
static void guess_sizes(const sb_state_reader *r, const sb_state *like, sb_state *sizes,
                        sb_drafter_state *drafter)
{
    int has_drafter = 0;
    *sizes = (sb_state){.config = &r->out->config, .position = like->position};
    for (size_t i = 0; i < r->in->count; i++)
        sizes->has_mtp |= sb_starts(r->in->tensors[i].name, "mtp.");
    for (size_t i = 0; i < r->in->count; i++)
        has_drafter |= sb_starts(r->in->tensors[i].name, "drafter.");
    for (uint32_t i = 0; i < like->config->layers; i++)
        if (like->config->layer_is_full[i]) {
            sb_piece keys = sb_state_piece(sizes, 2 * (size_t)i);
            sizes->position = rows_of(r, keys.name, sizes->position);
            break;
        }
    if (sizes->has_mtp)
        sizes->mtp_entries = rows_of(r, "mtp.layers.0.self_attn.keys", 0);
    if (!has_drafter || !like->drafter)
        return;
    *drafter = *like->drafter;
    drafter->entries = rows_of(r, "drafter.layers.0.self_attn.keys", 0);
    sizes->drafter = drafter;
}

/* D-10: "A file without metadata is read for a comparison only" */
static sb_status read_bare(const char *path, const sb_safetensors *in, const sb_state_file *like,
                           sb_state_file *out, sb_error *err)
{
    sb_state_reader r = {.path = path, .in = in, .bare = 1, .out = out, .err = err};
    sb_state sizes;
    sb_drafter_state drafter;
    *out = *like;
    out->state = NULL;
    out->tokens = NULL;
    out->mtp = out->drafter = (sb_digest){{0}};
    out->entries = NULL;
    out->bare = 1;
    guess_sizes(&r, like->state, &sizes, &drafter);
    sb_status status = sb_state_check_tensors(&r, &sizes);
    if (!status)
        status = sb_state_fill(&r, &sizes);
    if (!status)
        status = sb_state_digest(out->state, &out->target, err);
    if (!status && sizes.has_mtp)
        status = sb_state_mtp_digest(out->state, &out->mtp, err);
    if (!status && out->state->drafter)
        status = sb_drafter_state_digest(out->state->drafter, &out->drafter, err);
    return status;
}

sb_status sb_state_file_open_like(const char *path, const sb_state_file *like, sb_state_file **out,
                                  sb_error *err)
{
    sb_safetensors in;
    sb_state_file *file = NULL;
    sb_status status = sb_safetensors_open(path, &in, err);
    if (status)
        return status;
    int bare = !has_metadata(&in);
    if (bare) {
        file = sb_alloc(1, sizeof *file);
        status = file ? read_bare(path, &in, like, file, err)
                      : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    }
    sb_safetensors_close(&in);
    if (!bare)
        return sb_state_file_open(path, out, err);
    if (status)
        sb_state_file_free(file);
    else
        *out = file;
    return status;
}
