/* hub.h - a checkpoint by its hub id, "org/name" or "org/name@revision", in the local cache.
 *
 * Nothing is ever downloaded. The cache is $HF_HUB_CACHE or $HUGGINGFACE_HUB_CACHE, else
 * $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else $HOME/.cache/huggingface/hub, as
 * huggingface_hub has it. */
#ifndef SB_CHECK_HUB_H
#define SB_CHECK_HUB_H

#include "ref/base/status.h"

/* Where the files are that `text` names: a path that exists is taken as it is, an id is looked up.
 * *path is for the caller to free(). SB_ERR_IO says which folder was looked at, and the command
 * that downloads what is missing. Text that is neither is given back as it is. */
sb_status sb_hub_resolve(const char *text, char **path, sb_error *err);

#endif
