/* state_file.h - a state on disk: one safetensors file that names its checkpoint and profile and
 * detects every changed bit (D-10 to D-12). */
#ifndef SB_RUN_STATE_FILE_H
#define SB_RUN_STATE_FILE_H

#include "ref/base/hash.h"
#include "ref/ops/knobs.h"
#include "ref/run/eagle3.h"
#include "ref/run/model.h"
#include "ref/state/state.h"

/* The checkpoint, knobs and tokens of a state. The numbers of a state mean nothing without
 * these. */
typedef struct sb_state_origin {
    sb_digest checkpoint; /* from sb_checkpoint_digest, which reads the whole checkpoint */
    const sb_knobs *knobs;
    const char *profile;               /* for readers: "exact"; only the knobs are compared */
    const uint32_t *tokens;            /* (position) the ids that were fed, or NULL */
    int kernels;                       /* 1: computed by kernels (gpu/); 0: by the reference */
    const sb_eagle3_identity *drafter; /* of the entries of the state; NULL: it has none */
} sb_state_origin;

/* Writes a file, or replaces an existing one. SB_ERR_NUMERIC if an element is not finite. */
sb_status sb_state_save(const char *path, const sb_state *state, const sb_state_origin *origin,
                        sb_error *err);

/* Reads a file for a session of `model` under the checkpoint and the knobs of `origin` (its profile
 * and tokens are not used), with the head if has_mtp. Only kernels continue a state of kernels.
 * SB_ERR_INPUT: the message names the damage, or the difference between the file's origin and this
 * one. Free with sb_state_free. */
sb_status sb_state_load(const char *path, const sb_model *model, const sb_state_origin *origin,
                        int has_mtp, sb_state **out, sb_error *err);

/* A state file without a model. Opening checks everything except that the file belongs to a
 * checkpoint. */
typedef struct sb_state_file {
    sb_config config; /* only the fields that set a state's shape or its bits */
    sb_state *state;  /* state with this config */
    sb_knobs knobs;
    char profile[64];
    char config_text[1024]; /* the text in the file (D-11) */
    sb_digest checkpoint, target;
    sb_digest mtp;                /* "" without a head */
    uint32_t *tokens;             /* (position), or NULL */
    int kernels;                  /* as in sb_state_origin */
    sb_digest drafter;            /* of the entries of a drafter; "" without */
    sb_eagle3_identity drafts_of; /* the drafter, if there is one */
    sb_drafter_state *entries;    /* those of a state that was taken; NULL: it had none */
    int bare;                     /* the file had no metadata: sb_state_file_open_like */
} sb_state_file;

sb_status sb_state_file_open(const char *path, sb_state_file **out, sb_error *err);

/* Opens a file that may be bare: the tensors of D-10 in F32, BF16 or F16, without metadata. For a
 * bare file, everything else comes from `like`. A bare file cannot show that it belongs to the
 * model or that it is unchanged. */
sb_status sb_state_file_open_like(const char *path, const sb_state_file *like, sb_state_file **out,
                                  sb_error *err);

/* Parses a file whose bytes are in memory, and keeps no pointer to them. `name` names the file in
 * messages. */
sb_status sb_state_file_parse(const unsigned char *bytes, size_t size, const char *name,
                              sb_state_file **out, sb_error *err);
void sb_state_file_free(sb_state_file *file);

/* SB_ERR_INPUT, with `path` in the message, unless the file belongs to this checkpoint and these
 * knobs. */
sb_status sb_state_file_belongs(const sb_state_file *file, const char *path, const sb_model *model,
                                const sb_state_origin *origin, sb_error *err);

/* The same for the entries of a drafter; `folder` names it in messages. SB_ERR_USAGE if the file
 * has none, SB_ERR_INPUT if they are those of another one. */
sb_status sb_state_file_has_entries(const sb_state_file *file, const char *path,
                                    const sb_eagle3_identity *drafter, const char *folder,
                                    sb_error *err);

/* Moves the state out of a file that belongs to the model; the result is that of sb_state_load.
 * Afterwards the file has no state, but the entries of a drafter. */
sb_status sb_state_file_take(sb_state_file *file, const char *path, const sb_model *model,
                             const sb_state_origin *origin, int has_mtp, sb_state **out,
                             sb_error *err);

#endif
