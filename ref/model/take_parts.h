/* take_parts.h - the internals of take.c, take_names.c and take_shapes.c. */
#ifndef SB_MODEL_TAKE_PARTS_H
#define SB_MODEL_TAKE_PARTS_H

#include "ref/model/take.h"

enum { SB_SIDE_BASE, SB_SIDE_OTHER };

/* A tensor of one of the two sides, and its module. */
typedef struct sb_take_entry {
    char *module;
    uint32_t tensor; /* index in its checkpoint */
    unsigned char side, matched;
} sb_take_entry;

/* The tensors of one module: entries first .. first + count - 1 of the sorted list. */
typedef struct sb_take_group {
    const sb_checkpoint *side[2];
    const sb_take_entry *entries;
    size_t count;
} sb_take_group;

/* take_names.c. The name of a tensor in a checkpoint whose text model has the given prefix; NULL if
 * out of memory. */
char *sb_take_name(const char *name, const char *prefix, int vision_in_model);

/* The length of "....mlp.experts" in a plain name, or 0; *style is set to one of these values. */
enum { SB_EXPERTS_STACKED = 1, SB_EXPERTS_SPLIT = 2 };
size_t sb_take_experts(const char *plain, int *style);

/* The smallest module that contains a tensor. */
void sb_take_module(const char *plain, char *module, size_t size);

/* take_shapes.c. SB_ERR_INPUT unless both sides have matrices and vectors of the same shapes. */
sb_status sb_take_compare(const sb_take_group *group, sb_error *err);

#endif
