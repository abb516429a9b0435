/* overlay.h - tensors of one checkpoint in place of another's: in memory, and nothing is written.
 */
#ifndef SB_CONTAINER_OVERLAY_H
#define SB_CONTAINER_OVERLAY_H

#include "ref/container/checkpoint.h"

/* A tensor that comes, and the name under which it comes. */
typedef struct sb_overlaid {
    const sb_tensor *from; /* of the checkpoint that is laid over */
    char *name;
} sb_overlaid;

/* Takes out of base the tensors whose number is marked in dropped, and puts in those of `over` that
 * are listed: base is then the checkpoint that a folder with these tensors would be. The files of
 * `over` become the last files of base, which owns and closes them; over itself is gone, also after
 * a failure. Pointers to tensors of either are no longer valid. SB_ERR_INPUT if a name would stand
 * twice, SB_ERR_MEMORY. */
sb_status sb_checkpoint_overlay(sb_checkpoint *base, const unsigned char *dropped,
                                sb_checkpoint *over, const sb_overlaid *taken, size_t count,
                                sb_error *err);

/* How many of the files are the checkpoint's own: the first ones. And the folder of any file. */
size_t sb_checkpoint_own_shards(const sb_checkpoint *checkpoint);
const char *sb_checkpoint_shard_folder(const sb_checkpoint *checkpoint, uint32_t shard);

/* The folder that a tensor was laid over from, or NULL if it is the checkpoint's own. */
const char *sb_checkpoint_origin(const sb_checkpoint *checkpoint, const sb_tensor *tensor);

#endif
