/* adapt.h - converts taken tensors: FP8 blocks get the names that the dialect has for their scales,
 * or a layer is decoded to BF16. For graft.c. */
#ifndef SB_GRAFT_ADAPT_H
#define SB_GRAFT_ADAPT_H

#include "ref/model/declared.h"
#include "ref/model/detect.h"
#include "tools/check/graft/graft.h"

/* A tensor of the result that no folder has in this form. */
struct sb_graft_made {
    sb_tensor tensor; /* data is NULL if decoded */
    int decoded;
    sb_found found; /* the layer in the other folder */
};

/* W-16: changes g->take so that FP8 blocks have the names and shapes that the dialect of the base
 * requires. */
sb_status sb_graft_rename_scales(sb_grafted *g, sb_error *err);

/* W-17: changes g->take so that each quantized layer becomes one BF16 tensor. Values that are no
 * BF16 numbers are refused, or with `round` counted in g->rounded. */
sb_status sb_graft_decode(sb_grafted *g, int round, sb_error *err);

/* The sb_graft_made of a decoded tensor, or NULL. */
const sb_graft_made *sb_graft_made_of(const sb_grafted *g, const sb_tensor *tensor);

/* Values first .. first + count - 1 of a decoded tensor, two bytes each. wide is scratch for a row;
 * *row is the row in it, at first UINT64_MAX. */
void sb_graft_decoded(const sb_graft_made *made, uint64_t first, size_t count, double *wide,
                      uint64_t *row, unsigned char *bytes);

/* The BF16 number nearest to x / divisor; *exact: it equals x / divisor. */
uint16_t sb_graft_bf16(double x, double divisor, int *exact);

#endif
