/* telling.h - converts one JSON answer of a server to an sb_spoken: common parts of the four
 * formats. */
#ifndef SB_DUMP_TELLING_H
#define SB_DUMP_TELLING_H

#include "ref/container/json.h"
#include "tools/dump/spoken.h"
#include "tools/dump/token_texts.h"

typedef struct sb_telling {
    const char *file;
    size_t document; /* from 1 */
    const sb_dump_options *options;
    sb_token_texts **texts; /* for the whole file, made on first use */
    size_t sequence;
    size_t said_prompt, said_generated; /* the answer's token counts; 0: none */
    sb_spoken *out;
    char where[96]; /* "choice 0: logprobs.content[3]": begins messages */
    sb_error *err;
} sb_telling;

/* One per format. sequences: the number of sequences of a document (0: another format); tell: reads
 * sequence i. */
typedef struct sb_answer_format {
    size_t (*sequences)(const json_t *document);
    sb_status (*tell)(sb_telling *t, const json_t *document, size_t i);
} sb_answer_format;
extern const sb_answer_format sb_answer_openai, sb_answer_llama_server, sb_answer_sglang;

/* SB_ERR_INPUT: "file: document 3: where: what". */
sb_status sb_tell_fail(const sb_telling *t, const char *format, ...) SB_PRINTF(2, 3);
void sb_tell_where(sb_telling *t, const char *format, ...) SB_PRINTF(2, 3);

/* The value of a key; NULL if it is absent or null. */
const json_t *sb_tell_get(const json_t *object, const char *key);

/* A number; an id, which is below the vocabulary size if this is known. */
sb_status sb_tell_number(const sb_telling *t, const json_t *value, double *out);
sb_status sb_tell_id(const sb_telling *t, const json_t *value, uint32_t *out);

/* J-35: "token_id:17", or the text of one token. `bytes`, a list of numbers, takes precedence if
 * not NULL. */
sb_status sb_tell_token(const sb_telling *t, const char *text, const json_t *bytes, uint32_t *out);

/* Adds a list of ids as tokens of the sequence. */
sb_status sb_tell_ids(sb_telling *t, const json_t *ids);

/* J-34: adds the prompt from the file's list of ids, or NULL, and from the command line. Sets
 * sb_spoken.prompt. */
sb_status sb_tell_prompt(sb_telling *t, const json_t *ids);

/* The token count under a key of this object. */
size_t sb_tell_count(const json_t *object, const char *key);

/* Reads an entry of a token or of its list: id and log-probability. */
typedef sb_status (*sb_item_fn)(sb_telling *t, const json_t *item, uint32_t *id, double *logprob);

/* J-44: adds entries of generated tokens. ids: the list of these tokens, or NULL; `what` names the
 * entries. */
sb_status sb_tell_items(sb_telling *t, const char *what, const json_t *list, const json_t *ids,
                        sb_item_fn read);

/* J-38: base64 of an .npy. */
sb_status sb_tell_experts(sb_telling *t, const char *text);

#endif
