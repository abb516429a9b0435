/* tokenizer.h - text to token ids and back, following the tokenizer.json of a checkpoint.
 *
 * Byte-level BPE in the form of Qwen checkpoints: added tokens, NFC if the file requires it, a
 * splitting regular expression, merges, the byte alphabet. docs/tokenizer.md (N- clauses) defines
 * each step; loading refuses everything else by name. A loaded tokenizer never changes: threads may
 * share it. */
#ifndef SB_TOOLS_TEXT_TOKENIZER_H
#define SB_TOOLS_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef struct sb_tokenizer sb_tokenizer;

enum {
    SB_TOKENIZER_MAX_TEXT = 64 << 20, /* bytes that one call encodes */
    SB_TOKENIZER_MAX_IDS = 1 << 24    /* ids are below this */
};

/* Reads a tokenizer.json. SB_ERR_UNSUPPORTED names the key and the unsupported value, SB_ERR_INPUT
 * the contradiction in the file. */
sb_status sb_tokenizer_load(const char *path, sb_tokenizer **out, sb_error *err);

/* The same for a text in memory; `name` names it in messages. */
sb_status sb_tokenizer_parse(const char *json, size_t bytes, const char *name, sb_tokenizer **out,
                             sb_error *err);

void sb_tokenizer_free(sb_tokenizer *tokenizer);

/* One more than the largest id that has a token. */
size_t sb_tokenizer_size(const sb_tokenizer *tokenizer);

/* The ids of a text, which may be any bytes (N-1). The caller frees *ids, also for an empty text,
 * which has no ids. */
sb_status sb_tokenizer_encode(const sb_tokenizer *tokenizer, const void *text, size_t bytes,
                              uint32_t **ids, size_t *count, sb_error *err);

/* The concatenated bytes of ids (N-8), followed by a NUL that *size does not count; they need not
 * be UTF-8. Special tokens are included. Ids without a token give nothing; *unknown counts them,
 * unknown may be NULL. The caller frees *bytes. */
sb_status sb_tokenizer_decode(const sb_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                              char **bytes, size_t *size, size_t *unknown, sb_error *err);

/* The bytes of one id, not terminated; NULL if it has no token. They live as long as the tokenizer.
 */
const char *sb_tokenizer_bytes(const sb_tokenizer *tokenizer, uint32_t id, size_t *size);

/* The id of the added token with this content, "<|im_end|>" for example; 0 if there is none. */
int sb_tokenizer_added(const sb_tokenizer *tokenizer, const char *content, uint32_t *id);

#endif
