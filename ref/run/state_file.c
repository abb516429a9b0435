/* state_file.c - writes a state, and checks that a file belongs to a model. */
#include "ref/run/state_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/show.h"
#include "ref/container/writer.h"
#include "ref/ops/knob.h"
#include "ref/run/state_text.h"
#include "ref/state/piece.h"

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct source {
    const char *path;
    const sb_state *state;
    const uint32_t *tokens;
} source;

static sb_status fill_tokens(const source *from, uint64_t first, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count / 4; i++)
        sb_store_u32(bytes + 4 * i, from->tokens[first / 4 + i]);
    return SB_OK;
}

static sb_status fill_piece(const source *from, const sb_piece *piece, uint64_t first,
                            unsigned char *bytes, size_t count, sb_error *err)
{
    for (size_t i = 0; i < count / 4; i++) {
        float x = piece->data[first / 4 + i];
        if (!sb_is_finite_f32(x))
            return sb_fail(err, SB_ERR_NUMERIC,
                           "%s: not written: element %" PRIu64 " of %s is not finite",
                           SB_SHOW(from->path), first / 4 + i, piece->name);
        sb_store_u32(bytes + 4 * i, sb_bits_f32(x));
    }
    return SB_OK;
}

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const source *from = ctx;
    if (tensor->dtype == SB_DTYPE_I32)
        return fill_tokens(from, first, bytes, count);
    size_t i = 0;
    sb_piece piece = sb_state_piece(from->state, 0);
    /* every declared tensor is a piece, so the search ends */
    while (strcmp(piece.name, tensor->name) != 0)
        piece = sb_state_piece(from->state, ++i);
    return fill_piece(from, &piece, first, bytes, count, err);
}

/* D-10: "A tensor without elements is left out" */
static sb_status declare(sb_writer *writer, const sb_state *state, const uint32_t *tokens,
                         char first[64], sb_error *err)
{
    sb_status status = SB_OK;
    first[0] = '\0';
    for (size_t i = 0; i < sb_state_pieces(state) && !status; i++) {
        sb_piece p = sb_state_piece(state, i);
        if (sb_piece_elements(&p) == 0)
            continue;
        if (!first[0])
            memcpy(first, p.name, sizeof p.name);
        status = sb_writer_add(writer, p.name, SB_DTYPE_F32, p.rank, p.shape, err);
    }
    if (!status && !first[0])
        status = sb_fail(err, SB_ERR_USAGE, "the state is empty and cannot be saved");
    if (!status && tokens && state->position)
        status = sb_writer_add(writer, "tokens", SB_DTYPE_I32, 1, &state->position, err);
    return status;
}

/* The metadata of a file to write: its texts and digests, and a pointer to the value of each
 * key. */
typedef struct words {
    char config[SB_STATE_CONFIG_SIZE], layers[SB_MAX_LAYERS + 1], knobs[SB_STATE_KNOBS_SIZE];
    char position[24], entries[24], drafter_entries[24], spec[16];
    sb_digest target, mtp, tokens, drafter, seal;
    const char *values[SB_STATE_KEY_COUNT];
} words;

static sb_status digest_tokens(const uint32_t *tokens, uint64_t count, sb_digest *out,
                               sb_error *err)
{
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    for (uint64_t i = 0; i < count; i++) {
        unsigned char bytes[4];
        sb_store_u32(bytes, tokens[i]);
        sb_hash_bytes(hash, bytes, sizeof bytes);
    }
    *out = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}

static sb_status write_words(const sb_state *state, const sb_state_origin *origin, words *w,
                             sb_error *err)
{
    sb_status status = sb_state_digest(state, &w->target, err);
    if (!status && state->has_mtp)
        status = sb_state_mtp_digest(state, &w->mtp, err);
    if (!status && origin->tokens && state->position)
        status = digest_tokens(origin->tokens, state->position, &w->tokens, err);
    if (!status && state->drafter)
        status = sb_drafter_state_digest(state->drafter, &w->drafter, err);
    if (status)
        return status;
    sb_state_config_text(state->config, w->config);
    sb_state_layers_text(state->config, w->layers);
    sb_state_knobs_text(origin->knobs, w->knobs);
    snprintf(w->position, sizeof w->position, "%" PRIu64, state->position);
    snprintf(w->entries, sizeof w->entries, "%" PRIu64, state->mtp_entries);
    snprintf(w->spec, sizeof w->spec, "%d", SB_SPEC_VERSION);
    w->values[SB_STATE_KEY_checkpoint] = origin->checkpoint.hex;
    w->values[SB_STATE_KEY_config] = w->config;
    if (state->drafter) {
        snprintf(w->drafter_entries, sizeof w->drafter_entries, "%" PRIu64,
                 state->drafter->entries);
        w->values[SB_STATE_KEY_drafter] = w->drafter.hex;
        w->values[SB_STATE_KEY_drafter_checkpoint] = origin->drafter->checkpoint.hex;
        w->values[SB_STATE_KEY_drafter_config] = origin->drafter->text;
        w->values[SB_STATE_KEY_drafter_entries] = w->drafter_entries;
    }
    w->values[SB_STATE_KEY_engine] = origin->kernels ? sb_state_kernels : NULL;
    w->values[SB_STATE_KEY_knobs] = w->knobs;
    w->values[SB_STATE_KEY_layers] = w->layers;
    w->values[SB_STATE_KEY_mtp] = state->has_mtp ? w->mtp.hex : NULL;
    w->values[SB_STATE_KEY_mtp_entries] = state->has_mtp ? w->entries : NULL;
    w->values[SB_STATE_KEY_position] = w->position;
    w->values[SB_STATE_KEY_profile] = origin->profile;
    w->values[SB_STATE_KEY_seal] = w->seal.hex;
    w->values[SB_STATE_KEY_spec] = w->spec;
    w->values[SB_STATE_KEY_target] = w->target.hex;
    w->values[SB_STATE_KEY_tokens] = origin->tokens && state->position ? w->tokens.hex : NULL;
    return sb_state_seal(w->values, &w->seal, err);
}

static sb_status check_origin(const sb_state *state, const sb_state_origin *origin, sb_error *err)
{
    if (strlen(origin->checkpoint.hex) != 32 || !origin->knobs || !origin->profile ||
        strlen(origin->profile) >= sizeof((sb_state_file *)0)->profile)
        return sb_fail(err, SB_ERR_USAGE,
                       "a state is saved with the digest of its checkpoint, its knobs and the "
                       "name of its profile");
    if ((state->drafter != NULL) != (origin->drafter != NULL) ||
        (state->drafter && strlen(origin->drafter->checkpoint.hex) != 32))
        return sb_fail(err, SB_ERR_USAGE,
                       "entries of a drafter are saved with the digest of the drafter");
    for (uint64_t i = 0; origin->tokens && i < state->position; i++)
        if (origin->tokens[i] >= state->config->vocab_size)
            return sb_fail(err, SB_ERR_USAGE, "token %" PRIu64 " is id %u, expected one below %u",
                           i, (unsigned)origin->tokens[i], (unsigned)state->config->vocab_size);
    return SB_OK;
}

sb_status sb_state_save(const char *path, const sb_state *state, const sb_state_origin *origin,
                        sb_error *err)
{
    sb_writer *writer = NULL;
    char first[64];
    source from = {path, state, origin->tokens};
    sb_status status = check_origin(state, origin, err);
    words *w = status ? NULL : sb_alloc(1, sizeof *w);
    if (!status && !w)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    if (!status)
        status = write_words(state, origin, w, err);
    if (!status)
        status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, err);
    if (!status)
        status = declare(writer, state, origin->tokens, first, err);
    for (unsigned k = 0; k < SB_STATE_KEY_COUNT && !status; k++)
        if (w->values[k])
            status = sb_writer_metadata(writer, first, sb_state_key_name((sb_state_key)k),
                                        w->values[k], err);
    if (!status)
        status = sb_writer_run(writer, fill, &from, err);
    sb_writer_free(writer);
    free(w);
    return status;
}

/* --- the origin of a file --------------------------------------------------------------------- */

/* Reports the first words that differ between two texts of the same form. */
static sb_status other_config(const char *path, const char *file, const char *model, sb_error *err)
{
    while (*file && *model) {
        size_t in_file = strcspn(file, " "), in_model = strcspn(model, " ");
        if (in_file != in_model || strncmp(file, model, in_file) != 0)
            break;
        file += in_file + (file[in_file] == ' ');
        model += in_model + (model[in_model] == ' ');
    }
    return sb_fail(err, SB_ERR_INPUT, "%s: belongs to a model with %.*s, but this one has %.*s",
                   SB_SHOW(path), (int)strcspn(file, " "), file, (int)strcspn(model, " "), model);
}

sb_status sb_state_file_belongs(const sb_state_file *file, const char *path, const sb_model *model,
                                const sb_state_origin *origin, sb_error *err)
{
    char config[SB_STATE_CONFIG_SIZE];
    if (strcmp(file->checkpoint.hex, origin->checkpoint.hex) != 0)
        return sb_fail(
            err, SB_ERR_INPUT,
            "%s: belongs to the checkpoint with the digest %s, but this checkpoint has %s",
            SB_SHOW(path), file->checkpoint.hex, origin->checkpoint.hex);
    sb_state_config_text(&model->config, config);
    if (strcmp(config, file->config_text) != 0)
        return other_config(path, file->config_text, config, err);
    if (file->config.layers != model->config.layers ||
        memcmp(file->config.layer_is_full, model->config.layer_is_full, file->config.layers) != 0)
        return sb_fail(err, SB_ERR_INPUT, "%s: has other kinds of layers than this checkpoint",
                       SB_SHOW(path));
    /* D-11: "Only kernels continue a state of kernels." */
    if (file->kernels && !origin->kernels)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: was computed by kernels, and the reference does not continue it; "
                       "expected --backend emu or gpu",
                       SB_SHOW(path));
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
        if (file->knobs.value[k] != origin->knobs->value[k])
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: was made under %s=%s (profile %s), but is continued under %s=%s",
                           SB_SHOW(path), sb_knob_name((sb_knob)k),
                           sb_knob_value_name(file->knobs.value[k]), SB_SHOW(file->profile),
                           sb_knob_name((sb_knob)k), sb_knob_value_name(origin->knobs->value[k]));
    return SB_OK;
}

sb_status sb_state_file_has_entries(const sb_state_file *file, const char *path,
                                    const sb_eagle3_identity *drafter, const char *folder,
                                    sb_error *err)
{
    if (!file->drafter.hex[0])
        return sb_fail(err, SB_ERR_USAGE,
                       "--drafter %s, but the state %s has no entries of the drafter; it was saved "
                       "by a run without one",
                       SB_SHOW(folder), SB_SHOW(path));
    if (strcmp(file->drafts_of.checkpoint.hex, drafter->checkpoint.hex) != 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: has entries of the drafter with the digest %s, but %s has %s",
                       SB_SHOW(path), file->drafts_of.checkpoint.hex, SB_SHOW(folder),
                       drafter->checkpoint.hex);
    return strcmp(file->drafts_of.text, drafter->text) == 0
               ? SB_OK
               : other_config(path, file->drafts_of.text, drafter->text, err);
}

sb_status sb_state_file_take(sb_state_file *file, const char *path, const sb_model *model,
                             const sb_state_origin *origin, int has_mtp, sb_state **out,
                             sb_error *err)
{
    sb_status status = sb_state_file_belongs(file, path, model, origin, err);
    if (!status && has_mtp && !file->state->has_mtp)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: has no state of the MTP head; it was saved by a run without drafts",
                         SB_SHOW(path));
    if (status)
        return status;
    if (!has_mtp)
        sb_state_drop_mtp(file->state);
    /* not the file's config, because the state outlives the file */
    file->state->config = &model->config;
    file->entries = file->state->drafter;
    file->state->drafter = NULL;
    *out = file->state;
    file->state = NULL;
    return SB_OK;
}

sb_status sb_state_load(const char *path, const sb_model *model, const sb_state_origin *origin,
                        int has_mtp, sb_state **out, sb_error *err)
{
    sb_state_file *file = NULL;
    sb_status status = sb_state_file_open(path, &file, err);
    if (!status)
        status = sb_state_file_take(file, path, model, origin, has_mtp, out, err);
    sb_state_file_free(file);
    return status;
}
