/* reindex.h - what is in the files of a folder and not in its index; for graft.c. */
#ifndef SB_GRAFT_REINDEX_H
#define SB_GRAFT_REINDEX_H

#include "ref/model/detect.h"
#include "tools/graft/graft.h"

/* Opens the folder with all its files, whatever the index says of them, as out->base of a graft
 * that takes nothing; out->changes says what the index lacks. Refuses what no index can mend. */
sb_status sb_reindex_open(const char *folder, sb_grafted *out, sb_error *err);

/* After sb_graft_files: a file that has nothing of its own is left out; one that has some, and some
 * twice, is refused. */
sb_status sb_reindex_files(sb_grafted *g, sb_error *err);

/* Whether the configuration is to be made to fit a layer: the index lacks a part of it, or it is a
 * layer of the MTP head in floats. */
int sb_reindex_is_new(const sb_checkpoint *checkpoint, const char *layer, const sb_found *found);

#endif
