/* json_out.h - JSON documents that are written: whole, or not at all.
 *
 * What builds a document with jansson asks no call whether memory was out. A program watches
 * instead: from then on a failed allocation of jansson is remembered, and no document becomes text
 * any more. Every document goes through these two functions. */
#ifndef SB_CONTAINER_JSON_OUT_H
#define SB_CONTAINER_JSON_OUT_H

#include <jansson.h>
#include <stdio.h>

/* For programs, not for the library: jansson may be the host's, too. */
void sb_json_watch(void);

/* Says the same of an allocation of one's own, where lines are printed and nobody asks; nothing in
 * a process that does not watch. */
void sb_json_lose(void);

/* Whether an allocation failed since: what is told may lack something. */
int sb_json_lost(void);

/* The text, for free(); NULL if memory was out, ever, or the document is NULL. */
char *sb_json_dumps(const json_t *document, size_t flags);

/* 1 if it was written. For eyes, too: a character that may not be shown (show.h) is a \uXXXX. */
int sb_json_dumpf(const json_t *document, FILE *out, size_t flags);

#endif
