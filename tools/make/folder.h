/* folder.h - the folder that a checkpoint is made in, and what may be lost there. */
#ifndef SB_MAKE_FOLDER_H
#define SB_MAKE_FOLDER_H

#include <stdint.h>

#include "ref/container/target.h"

/* Opens the target. What is there must be a folder, and an empty one unless `replace`; other files
 * of a folder that is replaced stay, so a *.safetensors of another name is refused: it would make
 * the result unreadable. */
sb_status sb_make_folder_open(const char *dir, int replace, sb_target *out, sb_error *err);

/* SB_ERR_IO, saying how much, if the disk of the folder has no room for so many bytes. */
sb_status sb_make_room(const sb_target *target, uint64_t bytes, sb_error *err);

/* Whether an entry is one of a checkpoint, and goes when that is replaced. */
int sb_make_goes(const char *name);

#endif
