/* headers.h - names, dtypes and shapes of a checkpoint, without its data.
 *
 * As text, sorted bytewise by name, with names as in a manifest (manifest.h):
 *
 *   samebit-headers 1
 *   tensor DTYPE [2,3] NAME
 *   headers DIGEST          G-5 with 32 times "-" in place of the digest of each tensor's bytes */
#ifndef SB_HASH_HEADERS_H
#define SB_HASH_HEADERS_H

#include <stdio.h>

#include "ref/container/digest.h"
#include "ref/container/json.h"

sb_status sb_headers_print(const sb_checkpoint *checkpoint, FILE *out, sb_error *err);

/* Adds to document. */
sb_status sb_headers_json(const sb_checkpoint *checkpoint, json_t *document, sb_error *err);

#endif
