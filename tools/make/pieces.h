/* pieces.h - the bytes of the tensors of quantized layers.
 *
 * The file wants them tensor by tensor, while codes and scales of a layer come from one
 * computation. So a layer is computed as a whole when the first of its tensors is asked for, and
 * held until all of them have been. There is an end to what is held: a layer that finds no room is
 * computed anew for each of its tensors, band by band, and only its largest magnitude is kept; so
 * is the last of those that have but one band. */
#ifndef SB_TOOLS_MAKE_PIECES_H
#define SB_TOOLS_MAKE_PIECES_H

#include "tools/make/plan.h"

/* A layer that is held. */
typedef struct sb_held {
    unsigned char *bytes[3]; /* codes, scales, zeros; NULL: not held, or not there */
    size_t size[3];
    uint64_t left; /* bytes that have not been asked for */
    int tried;     /* there was no room, or it has been let go again */
} sb_held;

typedef struct sb_pieces {
    const sb_maker *maker;
    const sb_make_plan *plan;
    float *largest;               /* (linear layers) below 0: not known yet */
    sb_held *held;                /* (linear layers) */
    uint64_t held_bytes, most;    /* at most */
    size_t kept;                  /* the layer whose only band is kept, or SIZE_MAX */
    unsigned char *kept_bytes[3]; /* codes, scales, zeros */
} sb_pieces;

/* most: bytes that may be held; 0: 1 GB */
sb_status sb_pieces_new(const sb_maker *maker, const sb_make_plan *plan, uint64_t most,
                        sb_pieces *out, sb_error *err);
void sb_pieces_free(sb_pieces *pieces);

/* Bytes first_byte .. first_byte + count - 1 of a tensor whose content is not plain. */
sb_status sb_pieces_fill(sb_pieces *pieces, const sb_make_tensor *tensor, uint64_t first_byte,
                         unsigned char *bytes, size_t count, sb_error *err);

/* The largest magnitude that the calibration of a layer "saw", of one stream for all layers that
 * read the same input (G-6). */
float sb_make_input_amax(const sb_maker *maker, sb_role role, uint32_t layer);

#endif
