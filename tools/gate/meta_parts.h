/* meta_parts.h - what the two forms of the metamorphic gate share: variants as lists of rows. */
#ifndef SB_GATE_META_PARTS_H
#define SB_GATE_META_PARTS_H

#include "tools/gate/meta.h"

enum { SB_META_WIDEST = 33, SB_META_ALONE = 64, SB_META_CUTS = 8 };

/* Whether an input has a row of its own for each row of the case. */
int sb_meta_is_row_array(const sb_gate_op *op, const char *name);

/* The rows of a case; 0: the op does not say which arrays have them. */
size_t sb_meta_rows(const sb_gate_case *c);

/* A batch that is made of rows of the case; free() releases rows. */
typedef struct sb_meta_variant {
    char name[32]; /* "width-5" */
    size_t *rows, count;
} sb_meta_variant;

/* How many variants of a kind there are for so many independent rows, and one of them. */
size_t sb_meta_variants(sb_gate_meta_kind kind, size_t rows);
sb_status sb_meta_variant_at(sb_gate_meta_kind kind, size_t i, size_t rows, sb_meta_variant *out);

/* The case of a variant, its outputs declared. */
sb_status sb_meta_derive(const sb_gate_case *c, const sb_meta_variant *v, sb_gate_case **out,
                         sb_error *err);

/* Why the rows of the op are not taken apart; NULL: they may be. */
const char *sb_meta_why_not(const sb_gate_case *c);

#endif
