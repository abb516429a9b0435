/* reindex.h - finds tensors in the files of a folder that its index lacks; for graft.c. */
#ifndef SB_GRAFT_REINDEX_H
#define SB_GRAFT_REINDEX_H

#include "ref/model/detect.h"
#include "tools/check/graft/graft.h"

/* Opens the folder with all its files, with or without index entries, as out->base of a graft that
 * takes nothing. out->changes lists what the index lacks. Refuses faults that no index can repair.
 */
sb_status sb_reindex_open(const char *folder, sb_grafted *out, sb_error *err);

/* Call after sb_graft_files. Leaves out a file whose tensors are all in other files. Refuses a file
 * with some tensors of its own and some that are in other files, too. */
sb_status sb_reindex_files(sb_grafted *g, sb_error *err);

/* True if the configuration has to be fitted to a layer: the index lacks a part of it, or it is a
 * float layer of the MTP head. */
int sb_reindex_is_new(const sb_checkpoint *checkpoint, const char *layer, const sb_found *found);

#endif
