/* atom_model.h - the result of a warp's MMA by the interpreter of ref/formats/atoms.h, element by
 * element, with the fragment layout of the formulas in the PTX manual. The bodies of gpu/atom are
 * compared with this plain model. */
#ifndef SB_TESTS_GPU_ATOM_MODEL_H
#define SB_TESTS_GPU_ATOM_MODEL_H

#include <stdint.h>

#include "ref/formats/atoms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The registers of a warp for one MMA. */
typedef struct atom_warp {
    uint32_t a[32][4], b[32][2], sa[32], sb[32];
    float c[32][4];
    unsigned from_a, from_b;
} atom_warp;

/* The position of element i of a lane according to the manual; a register has `width` elements. */
void atom_place_a(unsigned width, unsigned lane, unsigned i, unsigned *row, unsigned *k);
void atom_place_b(unsigned width, unsigned lane, unsigned i, unsigned *k, unsigned *column);
void atom_place_d(unsigned lane, unsigned i, unsigned *row, unsigned *column);

/* format: bf16, f16 or e4m3 for an atom without groups, e2m1 for an atom with groups. only: the
 * column to compute, or 8 for all; other columns of d keep their values. */
void atom_model(const sb_atom *atom, sb_format format, const atom_warp *warp, unsigned only,
                float d[32][4]);
void atom_model_s8(const atom_warp *warp, const int32_t c[32][4], int32_t d[32][4]);

/* Draws the registers of a warp from stream `key`, with one of these kinds of operands. */
enum {
    ATOM_CODES,    /* any bit patterns except infinities and NaNs */
    ATOM_ORDINARY, /* of similar size, one in eight zero */
    ATOM_CANCEL,   /* each second pair is the negative of the one before, C is near the sum */
    ATOM_HUGE_C,   /* C is far above or far below the products */
    ATOM_HOSTILE,  /* NaN, infinities, subnormals, the largest and the smallest values, scales 0 and
                    * NaN */
    ATOM_FEW,      /* all columns but one or two are zero; C of all kinds */
    ATOM_APART,    /* in some parts, all products are zero and scales are large; C is small */
    ATOM_TINY,     /* products about as small as the least number; C is 0 or of that size */
    ATOM_KINDS
};
void atom_draw(sb_format format, unsigned kind, uint64_t key, atom_warp *out);

#ifdef __cplusplus
}
#endif
#endif
