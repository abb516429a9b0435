/* bad_bytes.h - the bytes of one file of bad_corpus.h. */
#ifndef SB_TESTS_BAD_BYTES_H
#define SB_TESTS_BAD_BYTES_H

#include <string.h>

#include "ref/base/bytes.h"
#include "tests/fuzz/bad_corpus.h"

enum { BAD_MOST = 2048 }; /* a file of the corpus is smaller than this */

/* Writes the bytes to out and returns how many; 0 if there are too many. */
static inline size_t bad_bytes(const bad_file *f, unsigned char out[BAD_MOST])
{
    size_t text_bytes = strlen(f->text);
    size_t n = 0;
    if (8 + text_bytes + f->data_bytes >= BAD_MOST)
        return 0;
    if (f->kind == BAD_TENSORS) {
        sb_store_u64(out, f->length ? f->length : text_bytes);
        n = 8;
    }
    for (size_t i = 0; i < text_bytes; i++)
        out[n++] = (unsigned char)(f->text[i] == '\'' ? '"' : f->text[i]);
    for (size_t i = 0; i < f->data_bytes; i++)
        out[n++] = (unsigned char)(i * 37 + 11);
    if (f->flip && f->flip / 8 < n)
        out[f->flip / 8] ^= (unsigned char)(1u << f->flip % 8);
    return n - f->cut;
}

#endif
