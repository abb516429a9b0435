/* recipe.h - the modifiers of llm-compressor that the folder's recipe.yaml names. */
#ifndef SB_CHECK_RECIPE_H
#define SB_CHECK_RECIPE_H

#include "tools/check/read/check.h"

typedef enum sb_recipe {
    /* a recipe could be read; if this is the only bit: weights are rounded to nearest */
    SB_RECIPE_there = 1,
    SB_RECIPE_tuned = 2, /* codes are not the nearest ones: GPTQ, AutoRound, SparseGPT */
    /* columns are scaled, and so is the layer that feeds them: AWQ, SmoothQuant */
    SB_RECIPE_smoothed = 4,
    SB_RECIPE_rotated = 8 /* weights are multiplied by a rotation: SpinQuant, QuIP */
} sb_recipe;

/* A sum of the above; 0: there is no recipe. Reads a file, so do not call it for every tensor. */
unsigned sb_recipe_of(const sb_check *check);

#endif
