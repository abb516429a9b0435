/* adapt.h - what comes, written otherwise than it is stored where it comes from: FP8 blocks under
 * the name that the dialect has for their scales, or a layer decoded to BF16. For graft.c. */
#ifndef SB_GRAFT_ADAPT_H
#define SB_GRAFT_ADAPT_H

#include "ref/model/declared.h"
#include "ref/model/detect.h"
#include "tools/graft/graft.h"

/* A tensor of the result that no folder has as it is. */
struct sb_graft_made {
    sb_tensor tensor; /* data is NULL of one that is decoded */
    int decoded;
    sb_found found; /* of the other folder */
};

/* W-16: changes out->take so that FP8 blocks have the names and shapes that the dialect of the base
 * asks for. */
sb_status sb_graft_rename_scales(sb_grafted *g, sb_error *err);

/* W-17: changes out->take so that each quantized layer comes as one tensor of BF16. Values that are
 * no BF16 numbers are refused, or counted in g->rounded if `round` is given. */
sb_status sb_graft_decode(sb_grafted *g, int round, sb_error *err);

/* The decoded tensor that is meant, or NULL. */
const sb_graft_made *sb_graft_made_of(const sb_grafted *g, const sb_tensor *tensor);

/* Values first .. first + count - 1 of a decoded tensor, two bytes each. wide is scratch for a row,
 * and *row the row that it holds: begin with UINT64_MAX. */
void sb_graft_decoded(const sb_graft_made *made, uint64_t first, size_t count, double *wide,
                      uint64_t *row, unsigned char *bytes);

/* The number of BF16 that is nearest to x, or to x / divisor; *exact: it is that number. */
uint16_t sb_graft_bf16(double x, double divisor, int *exact);

#endif
