/* hub.h - finds a checkpoint by its hub id, "org/name" or "org/name@revision", in the local cache.
 *
 * Nothing is ever downloaded. The cache is $HF_HUB_CACHE or $HUGGINGFACE_HUB_CACHE, else
 * $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else $HOME/.cache/huggingface/hub, as in
 * huggingface_hub. */
#ifndef SB_CHECK_HUB_H
#define SB_CHECK_HUB_H

#include "ref/base/status.h"

enum { SB_HUB_ID_MAX = 96 + 1 + 96, SB_HUB_REVISION_MAX = 256 };

typedef struct sb_hub_id {
    char repo[SB_HUB_ID_MAX + 1]; /* "org/name" */
    char revision[SB_HUB_REVISION_MAX + 1];
    int has_revision; /* given by the user, and not the default, main */
} sb_hub_id;

/* Reads "org/name" or "org/name@revision"; returns 0 for any other text. */
int sb_hub_parse_id(const char *text, sb_hub_id *id);

/* The path of the files that `text` names: an existing path is returned unchanged, an id is looked
 * up, any other text is returned unchanged. The caller has to free() *path. The message of
 * SB_ERR_IO contains the folder that was searched and the command that downloads what is
 * missing. */
sb_status sb_hub_resolve(const char *text, char **path, sb_error *err);

#endif
