/* state_file.h - a state on disk: one safetensors file that says to what it belongs, and shows
 * every changed bit (D-10 to D-12). */
#ifndef SB_RUN_STATE_FILE_H
#define SB_RUN_STATE_FILE_H

#include "ref/base/hash.h"
#include "ref/ops/knobs.h"
#include "ref/run/model.h"
#include "ref/state/state.h"

/* What a state belongs to: without all of it the numbers mean nothing. */
typedef struct sb_state_origin {
    sb_digest checkpoint; /* sb_checkpoint_digest of the model's checkpoint, which reads it whole */
    const sb_knobs *knobs;
    const char *profile;    /* for people: "exact"; what counts are the knobs */
    const uint32_t *tokens; /* (position) the ids that were fed, or NULL */
} sb_state_origin;

/* Writes a file, replacing the one that stands there. SB_ERR_NUMERIC if an element is not finite.
 */
sb_status sb_state_save(const char *path, const sb_state *state, const sb_state_origin *origin,
                        sb_error *err);

/* Reads a file for a session of `model` under the checkpoint and the knobs of `origin` (profile and
 * tokens are not asked for), with the head if has_mtp. SB_ERR_INPUT says what is damaged, or what
 * the file belongs to instead. Free with sb_state_free. */
sb_status sb_state_load(const char *path, const sb_model *model, const sb_state_origin *origin,
                        int has_mtp, sb_state **out, sb_error *err);

/* A file by itself: all of it is checked but whether it belongs to a checkpoint. */
typedef struct sb_state_file {
    sb_config config; /* what gives a state its shape, and what decides bits; nothing else is set */
    sb_state *state;  /* of this config */
    sb_knobs knobs;
    char profile[64];
    char config_text[1024]; /* as the file has it (D-11) */
    sb_digest checkpoint, target;
    sb_digest mtp;    /* "" without a head */
    uint32_t *tokens; /* (position), or NULL */
    int bare;         /* it had no metadata: sb_state_file_open_like */
} sb_state_file;

sb_status sb_state_file_open(const char *path, sb_state_file **out, sb_error *err);

/* The same of a file that may be bare: the tensors of D-10 in F32, BF16 or F16, without metadata.
 * Then all else is taken from `like`; nothing can tell whether it belongs, or was changed. */
sb_status sb_state_file_open_like(const char *path, const sb_state_file *like, sb_state_file **out,
                                  sb_error *err);

/* The bytes of a file in memory, which are not kept; messages name them by `name`. */
sb_status sb_state_file_parse(const unsigned char *bytes, size_t size, const char *name,
                              sb_state_file **out, sb_error *err);
void sb_state_file_free(sb_state_file *file);

/* SB_ERR_INPUT, naming the file by `path`, unless it belongs to this checkpoint and these knobs. */
sb_status sb_state_file_belongs(const sb_state_file *file, const char *path, const sb_model *model,
                                const sb_state_origin *origin, sb_error *err);

/* The state of a file that belongs, as sb_state_load gives it; the file has none afterwards. */
sb_status sb_state_file_take(sb_state_file *file, const char *path, const sb_model *model,
                             const sb_state_origin *origin, int has_mtp, sb_state **out,
                             sb_error *err);

#endif
