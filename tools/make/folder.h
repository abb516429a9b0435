/* folder.h - the folder for a checkpoint, and the files that may be removed from it. */
#ifndef SB_MAKE_FOLDER_H
#define SB_MAKE_FOLDER_H

#include <stdint.h>

#include "ref/container/target.h"

/* Opens the target. An existing target must be a folder, and empty unless `replace` is set.
 * Replacing keeps other files in the folder. It is refused if there is a *.safetensors file with
 * another name, which would make the result unreadable. */
sb_status sb_make_folder_open(const char *dir, int replace, sb_target *out, sb_error *err);

/* SB_ERR_IO, with the missing amount, if the folder's disk has fewer free bytes. */
sb_status sb_make_check_disk(const sb_target *target, uint64_t bytes, sb_error *err);

/* True if an entry is part of a checkpoint, and is removed when the checkpoint is replaced. */
int sb_make_goes(const char *name);

#endif
