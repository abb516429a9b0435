/* atom_vectors.h - vectors for atoms in a file: the results of a matrix unit, or of another model
 * of such a unit, and those of a row of ref/formats/atoms.def.
 *
 * The file is a safetensors file. tools/gen/atoms/published.py and tools/gen/atoms/simulated.py
 * write it and define the names of its tensors. */
#ifndef SB_TESTS_LIB_ATOM_VECTORS_H
#define SB_TESTS_LIB_ATOM_VECTORS_H

#include "ref/container/safetensors.h"
#include "ref/formats/atoms.h"

/* The results of one source for a row. */
typedef struct atom_vectors {
    const sb_atom *row;
    char source[32], type[16], key[64];
    sb_format format;
    size_t count, width;                      /* vectors; operand pairs per vector */
    const sb_tensor *a, *b, *c, *sa, *sb, *d; /* c: NULL is 0; sa, sb: NULL is 1 */
} atom_vectors;

/* The set of vectors that a tensor of results belongs to. 0: the tensor holds no results; -1: it is
 * damaged. */
int atom_vectors_at(const sb_safetensors *file, size_t tensor, atom_vectors *out);

/* Results as codes: binary32, or binary16 if the sums of the row are binary16. */
uint32_t atom_vectors_want(const atom_vectors *v, size_t i);
uint32_t atom_vectors_got(const atom_vectors *v, const sb_atom *row, size_t i);

#endif
