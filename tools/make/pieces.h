/* pieces.h - the bytes of the tensors of quantized layers.
 *
 * The file needs them tensor by tensor, but codes and scales of a layer come from one computation.
 * So the first request for one of its tensors computes the whole layer and holds it until all its
 * tensors were requested. Memory is limited: a layer without room is computed anew for each of its
 * tensors, band by band, and only its largest magnitude is kept. If such a layer has only one band,
 * the result of the last one is kept, too. */
#ifndef SB_TOOLS_MAKE_PIECES_H
#define SB_TOOLS_MAKE_PIECES_H

#include "tools/make/plan.h"

/* The results of a layer that is held. */
typedef struct sb_held {
    unsigned char *bytes[3]; /* codes, scales, zeros; NULL: not held, or the scheme has none */
    size_t size[3];
    uint64_t left; /* bytes not requested so far */
    int tried;     /* there was no room, or it was held and released */
} sb_held;

typedef struct sb_pieces {
    const sb_maker *maker;
    const sb_make_plan *plan;
    float *largest;               /* (linear layers) negative: not known yet */
    sb_held *held;                /* (linear layers) */
    uint64_t held_bytes, most;    /* held now, and its limit */
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

/* The largest input magnitude in the calibration of a layer (G-6). Layers that read the same input
 * share the value. */
float sb_make_input_amax(const sb_maker *maker, sb_role role, uint32_t layer);

#endif
