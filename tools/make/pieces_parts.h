/* pieces_parts.h - parts that both ways to compute a quantized layer share: in bands, or whole. */
#ifndef SB_MAKE_PIECES_PARTS_H
#define SB_MAKE_PIECES_PARTS_H

#include "tools/make/pieces.h"

enum {
    SB_PIECES_ROWS = 8,       /* rows drawn at once, if a band may have any number */
    SB_PIECES_ALONE = 1 << 16 /* at most this many weights are done by one thread */
};

/* A layer cut into bands, and the requested tensor of the layer. */
typedef struct sb_bands {
    const sb_make_linear *linear;
    uint64_t rows;     /* of a band */
    size_t bytes[3];   /* codes, scales and zeros of a band */
    size_t all[3];     /* the same for the layer */
    unsigned wanted;   /* the requested one of the three */
    sb_band prototype; /* without weights and places */
} sb_bands;

/* Fills *out except the factor. */
sb_status sb_pieces_measure(const sb_pieces *pieces, size_t linear, sb_bands *out, sb_error *err);

/* Weights of rows first .. first + rows - 1. */
void sb_pieces_draw(const sb_pieces *pieces, const sb_make_linear *linear, uint64_t first,
                    uint64_t rows, float *out);

/* Keeps the larger magnitude as its bits, which have the order of the magnitudes. */
void sb_pieces_keep_largest(_Atomic uint32_t *largest, float magnitude);

/* Computes and holds a layer and all layers that share its factor, if this was not tried before and
 * there is room. */
sb_status sb_pieces_hold(sb_pieces *pieces, size_t linear, sb_error *err);

/* Copies bytes of codes, scales or zeros if the layer is held; returns 0 if not. Releases the layer
 * after all its bytes were requested. */
int sb_pieces_held(sb_pieces *pieces, size_t linear, unsigned which, uint64_t first,
                   unsigned char *bytes, size_t count);

void sb_pieces_let_go(sb_pieces *pieces, size_t linear);

#endif
