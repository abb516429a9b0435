/* json_out.h - writes JSON documents completely or not at all.
 *
 * Code that builds documents with jansson does not check each call for lack of memory. Instead, a
 * program calls sb_json_watch. After that, any failed allocation of jansson is remembered, and no
 * later document is converted to text. Every document is written by sb_json_dumps or
 * sb_json_dumpf. */
#ifndef SB_CONTAINER_JSON_OUT_H
#define SB_CONTAINER_JSON_OUT_H

#include <jansson.h>
#include <stdio.h>

/* Starts to watch jansson's allocations. Only programs call this, not the library, because the host
 * program may use jansson, too. */
void sb_json_watch(void);

/* Records a failed allocation of other code that has no way to report it, such as printing. No
 * effect in a process that does not watch. */
void sb_json_lose(void);

/* True if an allocation has failed since then, so that output may be incomplete. */
int sb_json_lost(void);

/* Returns the text, which the caller frees. NULL if an allocation has ever failed or the document
 * is NULL. */
char *sb_json_dumps(const json_t *document, size_t flags);

/* Returns 1 if the document was written. The output is safe for terminals: characters that must not
 * be shown (show.h) are written as \uXXXX. */
int sb_json_dumpf(const json_t *document, FILE *out, size_t flags);

#endif
