/* atoms.h - how matrix units accumulate: a table of models, and one interpreter in integers.
 *
 * An atom is the computation of one instruction for one element of its result: D from C and some
 * pairs of operands. docs/atoms.md has the clauses and the evidence for each row. */
#ifndef SB_FORMATS_ATOMS_H
#define SB_FORMATS_ATOMS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/formats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The distribution of terms to blocks (H-4). */
typedef enum sb_atom_order { SB_ATOM_IN_ROW, SB_ATOM_IN_PAIRS } sb_atom_order;
typedef enum sb_atom_sums { SB_ATOM_F32, SB_ATOM_F16 } sb_atom_sums;
typedef enum sb_atom_addend { SB_ATOM_FIRST, SB_ATOM_LAST } sb_atom_addend;
typedef enum sb_atom_form { SB_ATOM_HALF, SB_ATOM_FP8, SB_ATOM_FP4 } sb_atom_form;

/* The evidence for a row: bits of that hardware were reproduced, or only published models agree. */
typedef enum sb_atom_evidence { SB_ATOM_MEASURED, SB_ATOM_PUBLISHED } sb_atom_evidence;

/* The details that were not measured (H-13), one bit each. H-13 allows two readings of each detail;
 * a set bit selects the second. */
enum { SB_ATOM_EMPTY_AS_ZERO = 1, SB_ATOM_PLUS_ZERO = 2 };

typedef struct sb_atom {
    const char *name, *what;
    unsigned terms, block, group; /* pairs per instruction, per block, and per exact sum */
    sb_atom_order order;
    int fraction, kept; /* bits kept below the largest exponent; in the result */
    sb_atom_sums sums;  /* the format of C and of results */
    int zero;           /* the exponent of a zero, below that of any other C */
    sb_atom_addend addend;
    sb_atom_form form;
    sb_atom_evidence evidence;
    unsigned open; /* readings of H-13; 0 in the table: the first reading of each */
} sb_atom;

typedef enum sb_atom_id {
#define SB_ATOM(id, ...) SB_ATOM_##id,
#include "ref/formats/atoms.def"
#undef SB_ATOM
    SB_ATOM_COUNT
} sb_atom_id;

extern const sb_atom sb_atoms[SB_ATOM_COUNT];
const sb_atom *sb_atom_find(const char *name); /* NULL if there is none */

/* A term has the value digits * 2^unit. When terms are aligned, the term counts as a number with
 * this `exponent`. |digits| < 2^(exponent - unit + 13), and at most 2^48. A zero has the exponent
 * SB_ATOM_OF_ZERO: its true exponent depends on the row. An infinity has SB_ATOM_BEYOND and digits
 * 1 or -1; a NaN has SB_ATOM_BEYOND and digits 0. */
enum { SB_ATOM_OF_ZERO = -4096, SB_ATOM_BEYOND = 4096 };

typedef struct sb_atom_term {
    int64_t digits;
    int unit, exponent;
} sb_atom_term;

/* A product (H-2). a and b must be values of the format. */
sb_atom_term sb_atom_product(sb_format format, float a, float b);

/* H-2: "A scale that is a power of two adds its exponent to the exponent of the product; a product
 * of zero keeps Z." */
static inline sb_atom_term sb_atom_scaled(sb_atom_term term, int power)
{
    const sb_atom_term scaled = {term.digits, term.unit + power, term.exponent + power};
    return term.digits && term.exponent != SB_ATOM_BEYOND ? scaled
                                                          : term; /* C++ has no compound literals */
}

/* One block (H-1, H-3): adds the terms and c at once. n is at most 64. */
float sb_atom_block(const sb_atom *atom, const sb_atom_term *terms, size_t n, float c);

/* One instruction (H-4) on atom->terms terms, or on terms / group terms for a grouped atom. */
float sb_atom_run(const sb_atom *atom, const sb_atom_term *terms, float c);

/* The number of blocks in a chain over n products (H-4). Blocks that contain only padding are not
 * counted. */
size_t sb_atom_blocks(const sb_atom *atom, size_t n);

/* A chain of instructions over n pairs. The C of an instruction is the result of the previous one;
 * the first C is 0. The last instruction is padded with zeros. All operands are values of `format`.
 * The hardware need not support this format: SB_FORMAT_f32 allows arbitrary operands. Not for
 * grouped atoms. */
float sb_atom_dot(const sb_atom *atom, sb_format format, const float *a, size_t step_a,
                  const float *b, size_t step_b, size_t n);

/* The term of a group of 16 pairs (H-5). The codes are E2M1 values times two; the scales are UE4M3
 * values. */
sb_atom_term sb_atom_group(const sb_atom *atom, const int8_t *a, const int8_t *b, float scale_a,
                           float scale_b);

#ifdef __cplusplus
}
#endif

#endif
