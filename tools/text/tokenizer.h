/* tokenizer.h - text to token ids and back, as the tokenizer.json of a checkpoint says.
 *
 * Byte-level BPE in the form that Qwen checkpoints publish: added tokens, NFC where the file asks
 * for it, a splitting regular expression, merges, the byte alphabet. docs/tokenizer.md (N- clauses)
 * says what each step does; what a file asks for beyond that is refused by name when it is loaded.
 * A tokenizer is never changed after loading: threads may share it. */
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

/* Reads a tokenizer.json. SB_ERR_UNSUPPORTED names the key and the value that is not done here,
 * SB_ERR_INPUT what contradicts itself. sb_tokenizer_free releases it. */
sb_status sb_tokenizer_load(const char *path, sb_tokenizer **out, sb_error *err);

/* The same of a text in memory; `name` names it in messages. */
sb_status sb_tokenizer_parse(const char *json, size_t bytes, const char *name, sb_tokenizer **out,
                             sb_error *err);

void sb_tokenizer_free(sb_tokenizer *tokenizer);

/* One more than the largest id that has a token. */
size_t sb_tokenizer_size(const sb_tokenizer *tokenizer);

/* The ids of a text, which may be any bytes (N-1). free(*ids) releases them; no bytes give no ids,
 * and a pointer that can be released all the same. */
sb_status sb_tokenizer_encode(const sb_tokenizer *tokenizer, const void *text, size_t bytes,
                              uint32_t **ids, size_t *count, sb_error *err);

/* The bytes of ids, one behind the other (N-8), with a NUL that *size does not count; they need not
 * be UTF-8. Special tokens are shown. Ids that have no token give nothing; *unknown, which may be
 * NULL, counts them. free(*bytes) releases it. */
sb_status sb_tokenizer_decode(const sb_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                              char **bytes, size_t *size, size_t *unknown, sb_error *err);

/* The bytes of one id, not terminated; NULL if it has no token. They live as long as the tokenizer.
 */
const char *sb_tokenizer_bytes(const sb_tokenizer *tokenizer, uint32_t id, size_t *size);

/* The id of the added token with this content, "<|im_end|>" for example; 0 if there is none. */
int sb_tokenizer_added(const sb_tokenizer *tokenizer, const char *content, uint32_t *id);

#endif
