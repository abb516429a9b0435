/* fill.h - the values of tensors, for every layout of the folder.
 *
 * Every stored tensor consists of rows of matrices: those that Qwen3.5 stores with one tensor per
 * expert. A matrix has a name without the layout's prefix. An element is a function of seed,
 * preset, recipe, this name and its index. Fused experts and the interleaved projections of
 * Qwen3-Next arrange the same rows differently. */
#ifndef SB_TOOLS_MAKE_FILL_H
#define SB_TOOLS_MAKE_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "ref/model/names.h"
#include "tools/make/codes.h"

typedef enum sb_make_recipe {
#define SB_RECIPE(id, name, help) SB_RECIPE_##id,
#include "tools/make/recipes.def"
#undef SB_RECIPE
    SB_RECIPES
} sb_make_recipe;

typedef struct sb_maker {
    const sb_config *config;
    uint64_t seed;
    sb_make_recipe recipe;
    sb_codes codes;                   /* recipe predictable */
    const struct sb_weights *weights; /* source of the values; NULL: they are drawn */
} sb_maker;

typedef enum sb_make_kind {
    SB_MAKE_lookup,
    SB_MAKE_linear,
    SB_MAKE_zero_norm,
    SB_MAKE_one_norm,
    SB_MAKE_decay,
    SB_MAKE_step,
    SB_MAKE_none
} sb_make_kind;

typedef struct sb_make_matrix {
    sb_role role;
    uint32_t layer;  /* as in sb_expected */
    uint32_t expert; /* SB_NO_EXPERT if it belongs to no single expert */
    int in_mtp;      /* of an MTP layer */
    uint64_t rows, cols;
    sb_make_kind kind;
    uint64_t key; /* random stream of the elements: element i has index i */
    float mean, spread;
    float level; /* recipe predictable: the scale of the part that is not noise */
} sb_make_matrix;

/* The origin of a row of a stored tensor. */
typedef struct sb_make_place {
    sb_role role;
    uint32_t expert;
    uint64_t rows, cols, row;
} sb_make_place;

/* The origin of row `row` of the stored tensor of this role and shape (vectors have one row). */
sb_make_place sb_make_locate(const sb_config *config, sb_role role, uint32_t expert, unsigned rank,
                             const uint64_t *shape, uint64_t row);

/* The matrix of a place, ready for sb_make_row. */
void sb_make_matrix_of(const sb_maker *maker, const sb_make_place *place, uint32_t layer,
                       sb_make_matrix *out);

/* n values of a row, from column col on, before they are rounded to the format. */
void sb_make_row(const sb_maker *maker, const sb_make_matrix *matrix, uint64_t row, uint64_t col,
                 size_t n, float *out);

/* The values that no recipe changes: mean + spread * normal, or as the kind requires. */
void sb_make_usual(const sb_make_matrix *matrix, uint64_t row, uint64_t col, size_t n, float *out);

/* Both functions exist per recipe. prepare may change mean and spread; row writes values. */
#define SB_RECIPE(id, name, help)                                                                  \
    void sb_make_prepare_##id(const sb_maker *maker, sb_make_matrix *matrix);                      \
    void sb_make_row_##id(const sb_maker *maker, const sb_make_matrix *matrix, uint64_t row,       \
                          uint64_t col, size_t n, float *out);
#include "tools/make/recipes.def"
#undef SB_RECIPE

/* The length of a code vector of recipe predictable. */
uint32_t sb_make_code_length(const sb_config *config);

/* n normal values: elements first, first + 1, .. of a stream. */
void sb_make_normal(uint64_t key, uint64_t first, size_t n, float mean, float spread, float *out);

#endif
