/* meta_parts.h - parts that both forms of the metamorphic gate share: variants as lists of rows. */
#ifndef SB_GATE_META_PARTS_H
#define SB_GATE_META_PARTS_H

#include "tools/judge/gate/meta.h"

enum { SB_META_WIDEST = 33, SB_META_ALONE = 64, SB_META_CUTS = 8 };

/* True if an input has its own row for each row of the case. */
int sb_meta_is_row_array(const sb_gate_op *op, const char *name);

/* The number of rows of a case; 0: the op does not name its row arrays. */
size_t sb_meta_rows(const sb_gate_case *c);

/* A batch made of rows of the case; the caller frees `rows`. */
typedef struct sb_meta_variant {
    char name[32]; /* "width-5" */
    size_t *rows, count;
} sb_meta_variant;

/* The number of variants of a kind for `rows` independent rows, and variant i. */
size_t sb_meta_variants(sb_gate_meta_kind kind, size_t rows);
sb_status sb_meta_variant_at(sb_gate_meta_kind kind, size_t i, size_t rows, sb_meta_variant *out);

/* The case of a variant, with its outputs declared. */
sb_status sb_meta_derive(const sb_gate_case *c, const sb_meta_variant *v, sb_gate_case **out,
                         sb_error *err);

/* The reason why the rows of the op cannot be separated; NULL: they can. */
const char *sb_meta_why_not(const sb_gate_case *c);

#endif
