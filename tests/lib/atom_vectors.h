/* atom_vectors.h - vectors around atoms in a file: what a matrix unit, or another model of one,
 * gave, and what a row of ref/formats/atoms.def gives.
 *
 * A safetensors file; tools/gen/atoms/published.py and tools/gen/atoms/simulated.py write it and
 * have the names of its tensors. */
#ifndef SB_TESTS_LIB_ATOM_VECTORS_H
#define SB_TESTS_LIB_ATOM_VECTORS_H

#include "ref/container/safetensors.h"
#include "ref/formats/atoms.h"

/* Results of one source for a row. */
typedef struct atom_vectors {
    const sb_atom *row;
    char source[32], type[16], key[64];
    sb_format format;
    size_t count, width;                      /* vectors, operand pairs of each */
    const sb_tensor *a, *b, *c, *sa, *sb, *d; /* c: NULL is 0; sa, sb: NULL is 1 */
} atom_vectors;

/* The sets of a file, in the order of its tensors. 0: the tensor is no result; -1: it is damaged.
 */
int atom_vectors_at(const sb_safetensors *file, size_t tensor, atom_vectors *out);

/* Results as codes: binary32, or binary16 where the sums of the row are. */
uint32_t atom_vectors_want(const atom_vectors *v, size_t i);
uint32_t atom_vectors_got(const atom_vectors *v, const sb_atom *row, size_t i);

#endif
