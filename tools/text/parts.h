/* parts.h - the internals of a tokenizer, for the files of this folder. */
#ifndef SB_TOOLS_TEXT_PARTS_H
#define SB_TOOLS_TEXT_PARTS_H

#include "ref/container/json.h"
#include "tools/text/pattern.h"
#include "tools/text/tokenizer.h"

enum { SB_TEXT_PATTERNS = 8 };

/* The decoded bytes of an id, in the arena. */
typedef struct sb_text_token {
    size_t at;
    uint32_t size;
    unsigned char known;
    unsigned char whole; /* in the vocabulary, with all characters in the byte alphabet */
} sb_text_token;

typedef struct sb_text_merge {
    uint32_t right, rank, made;
} sb_text_merge;

/* An added token, which is searched for in the text before splitting. */
typedef struct sb_text_added {
    char *content; /* as in the file */
    char *match;   /* the searched text: normalized, or the content itself */
    size_t size;   /* of match */
    uint32_t id;
    int single_word, lstrip, rstrip, normalized;
} sb_text_added;

/* Sorted by the bytes of `match`. */
typedef struct sb_text_list {
    sb_text_added *rows;
    size_t count;
    size_t first[257]; /* the first row for each first byte */
} sb_text_list;

struct sb_tokenizer {
    uint32_t size;
    sb_text_token *tokens; /* by id */
    unsigned char *arena;
    size_t used, room;
    uint32_t byte_ids[256];
    uint32_t *first; /* size + 1: the first merge of each left id */
    sb_text_merge *merges;
    size_t merge_count;
    uint32_t *whole; /* ids of whole tokens, sorted by their bytes; only with ignore_merges */
    size_t whole_count;
    int ignore_merges, nfc, byte_level;
    sb_pattern *patterns[SB_TEXT_PATTERNS];
    size_t pattern_count;
    sb_text_list plain, normalized; /* searched for before normalization, and after it */
};

/* The ids of a text during encoding. */
typedef struct sb_text_ids {
    uint32_t *ids;
    size_t count, room;
} sb_text_ids;

/* Makes room for `more` ids. */
sb_status sb_text_reserve(sb_text_ids *ids, size_t more, sb_error *err);

/* Makes room for the ids below count. */
sb_status sb_text_make_ids(sb_tokenizer *t, size_t count, sb_error *err);

/* Sets the bytes of an id, or replaces them. */
sb_status sb_text_set_token(sb_tokenizer *t, uint32_t id, const char *text, size_t size,
                            int in_vocabulary, sb_error *err);

/* load_model.c: loads the member "model"; *vocab is its vocabulary. */
sb_status sb_text_load_model(sb_tokenizer *t, const sb_json_object *root, json_t **vocab,
                             sb_error *err);

/* Fails with SB_ERR_UNSUPPORTED: "is <value>, which is not done here; expected <expected>". */
sb_status sb_text_unsupported(const sb_json_object *object, const char *key, const char *expected,
                              sb_error *err);

/* added.c: loads the member "added_tokens"; needs the vocabulary and t->nfc. */
sb_status sb_text_load_added(sb_tokenizer *t, const sb_json_object *root, json_t *vocab,
                             sb_error *err);
void sb_text_free_added(sb_text_list *list);

/* The longest token of the list at the beginning of text, or NULL. */
const sb_text_added *sb_text_longest(const sb_text_list *list, const unsigned char *text,
                                     size_t bytes);

/* bpe.c: scratch for merging, which grows to the longest piece. sb_text_merge_piece appends the ids
 * of one piece. */
typedef struct sb_text_work sb_text_work;
sb_text_work *sb_text_work_new(void);
void sb_text_work_free(sb_text_work *work);
sb_status sb_text_merge_piece(const sb_tokenizer *t, sb_text_work *work, const unsigned char *piece,
                              size_t bytes, sb_text_ids *out, sb_error *err);

#endif
