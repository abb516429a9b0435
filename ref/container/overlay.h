/* overlay.h - replaces tensors of one checkpoint by those of another, in memory. Nothing is
 * written. */
#ifndef SB_CONTAINER_OVERLAY_H
#define SB_CONTAINER_OVERLAY_H

#include "ref/container/checkpoint.h"

/* A tensor to add, and its new name. */
typedef struct sb_overlaid {
    const sb_tensor *from; /* a tensor of the overlaid checkpoint */
    char *name;
} sb_overlaid;

/* Removes from base the tensors marked in `dropped` and adds the tensors of `over` listed in
 * `taken`. Afterwards, base behaves as if its folder had these tensors. The files of `over` become
 * the last files of base, which owns and closes them. The function takes ownership of `over`, also
 * on failure. Pointers to tensors of both become invalid. SB_ERR_INPUT if a name would occur twice;
 * SB_ERR_MEMORY. */
sb_status sb_checkpoint_overlay(sb_checkpoint *base, const unsigned char *dropped,
                                sb_checkpoint *over, const sb_overlaid *taken, size_t count,
                                sb_error *err);

/* sb_checkpoint_own_shards returns the number of the checkpoint's own files, which come before the
 * overlaid files. The second function returns the folder of any file. */
size_t sb_checkpoint_own_shards(const sb_checkpoint *checkpoint);
const char *sb_checkpoint_shard_folder(const sb_checkpoint *checkpoint, uint32_t shard);

/* The folder from which a tensor was overlaid, or NULL for the checkpoint's own tensors. */
const char *sb_checkpoint_origin(const sb_checkpoint *checkpoint, const sb_tensor *tensor);

#endif
