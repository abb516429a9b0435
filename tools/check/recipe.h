/* recipe.h - which modifiers of llm-compressor the folder's recipe.yaml names. */
#ifndef SB_CHECK_RECIPE_H
#define SB_CHECK_RECIPE_H

#include "tools/check/check.h"

typedef enum sb_recipe {
    SB_RECIPE_there = 1,    /* a recipe could be read; alone: weights are rounded to nearest */
    SB_RECIPE_tuned = 2,    /* codes are no nearest ones: GPTQ, AutoRound, SparseGPT */
    SB_RECIPE_smoothed = 4, /* columns are scaled, and what feeds them: AWQ, SmoothQuant */
    SB_RECIPE_rotated = 8   /* weights are multiplied by a rotation: SpinQuant, QuIP */
} sb_recipe;

/* A sum of the above; 0: there is none. Reads a file, so not for every tensor. */
unsigned sb_recipe_of(const sb_check *check);

#endif
