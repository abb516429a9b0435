/* place.h - where a checkpoint is on a server, and where it is kept here. */
#ifndef SB_REMOTE_PLACE_H
#define SB_REMOTE_PLACE_H

#include "tools/check/judge/hub.h"
#include "tools/check/remote/http.h"

typedef struct sb_remote_place {
    int is_hub; /* an id of the hub, whose files can be listed */
    sb_hub_id id;
    char endpoint[SB_HTTP_URL_MAX]; /* of the hub, without '/' at its end */
    char base[SB_HTTP_URL_MAX];     /* the address of the folder; of the hub: after the listing */
} sb_remote_place;

/* Reads a hub id, the address of a model's page, or the address of a folder. SB_ERR_USAGE for other
 * text. */
sb_status sb_remote_place_read(const char *text, sb_remote_place *out, sb_error *err);

/* Reads the variables of huggingface_hub: token, patience, and the limit of all reads. */
sb_status sb_remote_settings(sb_http *http, sb_error *err);

/* The address of the list of files, and of the files of a commit; 0: too long. */
int sb_remote_list_url(const sb_remote_place *place, char url[SB_HTTP_URL_MAX]);
int sb_remote_set_commit(sb_remote_place *place, const char *commit);

/* The folder for the files, below `cache`, or below $XDG_CACHE_HOME/samebit/remote or
 * $HOME/.cache/samebit/remote if cache is NULL. The caller frees *folder. Makes the folders above
 * it. */
sb_status sb_remote_folder(const sb_remote_place *place, const char *cache, char **folder,
                           sb_error *err);

#endif
