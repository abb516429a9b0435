/* weights_parts.h - the formats of stored matrices and their tensors, for making and reading. */
#ifndef SB_GATE_WEIGHTS_PARTS_H
#define SB_GATE_WEIGHTS_PARTS_H

#include "tools/judge/gate/weights.h"
#include "tools/make/scheme.h"

typedef struct sb_gate_weight_format {
    const char *name;
    sb_scheme scheme;
    sb_format stored; /* of the codes, or of the values of a plain one */
    sb_gate_coding coding;
} sb_gate_weight_format;
const sb_gate_weight_format *sb_gate_weight_format_of(const sb_gate_case *c);

typedef struct sb_gate_stored_part {
    char name[SB_GATE_NAME];
    sb_dtype dtype;
    sb_content content;
    int swizzled;
    const char *axes;
    unsigned rank;
    uint64_t shape[SB_GATE_RANK];
} sb_gate_stored_part;
int sb_gate_stored_tensor(const sb_gate_case *c, const sb_gate_stored *s, size_t i,
                          sb_gate_stored_part *out);

/* sb_gate_stored_find returns the tensor with this content, sb_gate_stored_bytes the bytes of an
 * expert in it; NULL: the format has none. */
const sb_gate_array *sb_gate_stored_find(const sb_gate_case *c, const sb_gate_stored *s,
                                         sb_content content, int swizzled);
unsigned char *sb_gate_stored_bytes(const sb_gate_case *c, const sb_gate_stored *s,
                                    sb_content content, uint32_t expert);

/* Recomputes in.x_scale_swizzled after the rows of a case changed; its size may change, too. */
sb_status sb_gate_swizzle_again(sb_gate_case *c, const sb_gate_stored *s);

uint32_t sb_gate_group_of(sb_scheme scheme, uint32_t cols); /* columns of a group of integers */
uint64_t sb_gate_all_rows(const sb_gate_stored *s);         /* rows of a tensor: of all parts */

/* V-133: the factor of a value, so that blocks and matrices differ in size. */
float sb_gate_size_of(const sb_gate_case *c, uint64_t matrix, uint64_t row, uint64_t col);

/* The values of an input before it becomes codes. */
void sb_gate_draw_codes(const sb_gate_case *c, const sb_gate_stored *s, float *values);

#endif
