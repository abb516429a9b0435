/* ngram.h - a drafter without weights: it looks for the end of the text earlier in the text (S-13,
 * S-14). */
#ifndef SB_RUN_NGRAM_H
#define SB_RUN_NGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef enum sb_ngram_kind {
    SB_NGRAM_none,
    SB_NGRAM_prompt_lookup, /* S-13, as vLLM's method `ngram` */
    SB_NGRAM_simple         /* S-14, as llama.cpp's type `ngram-simple` */
} sb_ngram_kind;

typedef struct sb_ngram {
    sb_ngram_kind kind;
    size_t least, most; /* lengths of an n-gram, 1 to SB_NGRAM_MOST; equal for S-14 */
} sb_ngram;

enum { SB_NGRAM_MOST = 64 };

/* Reads "ngram" (5, as in vLLM), "ngram:N", "ngram:MIN-MAX" or "ngram-simple:N". `option` names the
 * text in messages. SB_ERR_USAGE for anything else. */
sb_status sb_ngram_parse(const char *text, const char *option, sb_ngram *out, sb_error *err);

/* Proposes drafts after text (count), which ends with the last emitted token. drafts (k). Returns
 * their number, 0 to k. */
size_t sb_ngram_propose(const sb_ngram *ngram, const uint32_t *text, size_t count, size_t k,
                        uint32_t *drafts);

#endif
