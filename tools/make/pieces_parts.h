/* pieces_parts.h - what the two ways of computing a quantized layer share: in bands, or whole. */
#ifndef SB_MAKE_PIECES_PARTS_H
#define SB_MAKE_PIECES_PARTS_H

#include "tools/make/pieces.h"

enum {
    SB_PIECES_ROWS = 8,       /* that are drawn at once, where a band may have any number */
    SB_PIECES_ALONE = 1 << 16 /* so few weights are not worth waking other threads for */
};

/* A layer, cut into bands, and the tensor of it that is wanted. */
typedef struct sb_bands {
    const sb_make_linear *linear;
    uint64_t rows;     /* of a band */
    size_t bytes[3];   /* that a band has of codes, scales and zeros */
    size_t all[3];     /* that the layer has of them */
    unsigned wanted;   /* one of the three */
    sb_band prototype; /* without weights and places */
} sb_bands;

/* But for the factor. */
sb_status sb_pieces_measure(const sb_pieces *pieces, size_t linear, sb_bands *out, sb_error *err);

/* Weights of rows first .. first + rows - 1. */
void sb_pieces_draw(const sb_pieces *pieces, const sb_make_linear *linear, uint64_t first,
                    uint64_t rows, float *out);

/* Keeps the larger magnitude: its bits, which stand in the order of magnitudes. */
void sb_pieces_keep_largest(_Atomic uint32_t *largest, float magnitude);

/* Computes and holds a layer with all that share its factor, if that has not been tried and there
 * is room. */
sb_status sb_pieces_hold(sb_pieces *pieces, size_t linear, sb_error *err);

/* The bytes, of codes, scales or zeros, if the layer is held; 0 if not. What has been asked for
 * whole is let go. */
int sb_pieces_held(sb_pieces *pieces, size_t linear, unsigned which, uint64_t first,
                   unsigned char *bytes, size_t count);

void sb_pieces_let_go(sb_pieces *pieces, size_t linear);

#endif
