/* metadata.h - the string map "__metadata__" of a safetensors file. */
#ifndef SB_CONTAINER_METADATA_H
#define SB_CONTAINER_METADATA_H

#include <jansson.h>
#include <stddef.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_metadata_pair {
    const char *key, *value;
} sb_metadata_pair;

typedef struct sb_metadata {
    sb_metadata_pair *pairs; /* sorted bytewise by key; NULL if there are none */
    size_t count;
    char *texts; /* one block with all keys and values */
} sb_metadata;

/* Copies the map. `file` names the file in messages. SB_ERR_INPUT if the value is not an object of
 * strings. */
sb_status sb_metadata_read(json_t *value, const char *file, sb_metadata *out, sb_error *err);
void sb_metadata_free(sb_metadata *metadata);

/* The value of a key, or NULL. */
const char *sb_metadata_get(const sb_metadata *metadata, const char *key);

#ifdef __cplusplus
}
#endif

#endif
