/* take_parts.h - what take.c and take_match.c share. */
#ifndef SB_MODEL_TAKE_PARTS_H
#define SB_MODEL_TAKE_PARTS_H

#include "ref/model/take.h"

enum { SB_SIDE_BASE, SB_SIDE_OTHER };

/* A tensor of either side, and the module that it belongs to. */
typedef struct sb_take_entry {
    char *module;
    uint32_t tensor; /* its number in its checkpoint */
    unsigned char side, matched;
} sb_take_entry;

/* The tensors of one module: entries first .. first + count - 1 of the sorted list. */
typedef struct sb_take_group {
    const sb_checkpoint *side[2];
    const sb_take_entry *entries;
    size_t count;
} sb_take_group;

/* take_names.c. The name that a tensor gets in a checkpoint whose text model has that prefix; NULL
 * if memory is out. */
char *sb_take_name(const char *name, const char *prefix, int vision_in_model);

/* The length of "....mlp.experts" of a plain name, or 0; and how the name stores experts. */
enum { SB_EXPERTS_STACKED = 1, SB_EXPERTS_SPLIT = 2 };
size_t sb_take_experts(const char *plain, int *style);

/* The finest module that a tensor belongs to. */
void sb_take_module(const char *plain, char *module, size_t size);

/* take_shapes.c. SB_ERR_INPUT unless both sides mean matrices and vectors of the same shapes. */
sb_status sb_take_compare(const sb_take_group *group, sb_error *err);

#endif
