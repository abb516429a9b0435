/* atom_model.h - what a warp's MMA gives by the interpreter of ref/formats/atoms.h, element for
 * element, with the fragments laid out by the formulas of the PTX manual: the plain statement that
 * the bodies of gpu/atom are held against. */
#ifndef SB_TESTS_GPU_ATOM_MODEL_H
#define SB_TESTS_GPU_ATOM_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "ref/formats/atoms.h"

/* The registers of a warp around one MMA. */
typedef struct atom_warp {
    uint32_t a[32][4], b[32][2], sa[32], sb[32];
    float c[32][4];
    unsigned from_a, from_b;
} atom_warp;

/* Where the manual puts element i of a lane; `width` elements fill a register. */
void atom_place_a(unsigned width, unsigned lane, unsigned i, unsigned *row, unsigned *k);
void atom_place_b(unsigned width, unsigned lane, unsigned i, unsigned *k, unsigned *column);
void atom_place_d(unsigned lane, unsigned i, unsigned *row, unsigned *column);

/* format: bf16, f16 or e4m3, of an atom without groups; or e2m1 of one with groups. `only`, a
 * column, or 8 for all: the others of d are left as they are. */
void atom_model(const sb_atom *atom, sb_format format, const atom_warp *warp, unsigned only,
                float d[32][4]);
void atom_model_s8(const atom_warp *warp, const int32_t c[32][4], int32_t d[32][4]);

/* Registers of a warp from stream `key`, of one of the kinds of operands below. */
enum {
    ATOM_CODES,    /* any bit patterns but infinities and NaNs */
    ATOM_ORDINARY, /* of about the same size, one in eight zero */
    ATOM_CANCEL,   /* each second pair the negative of the one before, C near the sum */
    ATOM_HUGE_C,   /* C far above, or far below, the products */
    ATOM_HOSTILE,  /* NaN, infinities, subnormals, the largest and the least, scales 0 and NaN */
    ATOM_FEW,      /* all but one or two columns zero; C of all kinds */
    ATOM_APART,    /* zero in A or in B throughout some parts, whose scales are large; C is small */
    ATOM_TINY,     /* products about as small as the least number; C is 0, or such a number */
    ATOM_KINDS
};
void atom_draw(sb_format format, unsigned kind, uint64_t key, atom_warp *out);

#ifdef __cplusplus
}
#endif
#endif
