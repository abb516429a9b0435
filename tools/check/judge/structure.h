/* structure.h - shared by the checks of names, shapes and configuration. */
#ifndef SB_CHECK_STRUCTURE_H
#define SB_CHECK_STRUCTURE_H

#include "tools/check/read/check.h"

/* 1 if the index puts the tensor of this name, or a tensor of the layer of this name, into a file
 * that is missing or cannot be read. Such a file is reported once, instead of each of its
 * modules. */
int sb_elsewhere(const sb_check *check, const char *name);

/* 1 if every file that the index names is here and can be read. */
int sb_is_whole(const sb_check *check);

/* 1 if the checkpoint is one file of several: tensors that it does not hold are not missing. */
int sb_is_fragment(const sb_check *check);

/* The check that reports why a layer cannot be read: 4, 7, 8 or 32; 0: it can be read. */
unsigned sb_unit_fault(const sb_unit *unit);

/* 1 if the vision grammar has a place for the name, else 0. */
int sb_is_vision_name(const char *name);

/* Check 9 of config.json alone: values that it states twice and differently. */
void sb_check_config_self(sb_check *check);

/* The unit that holds an expected tensor: under its full name, or as a layer. */
const sb_unit *sb_unit_of(const sb_units *units, const sb_expected *expected);

/* Where an expected tensor is: here, with experts one by one or stacked; in a file that cannot be
 * read (sb_elsewhere); or nowhere. */
typedef enum sb_presence { SB_HERE, SB_ELSEWHERE, SB_ABSENT } sb_presence;
sb_presence sb_presence_of(const sb_check *check, const sb_expected *expected);

/* 1 if the prefix of the text model's names is known. Without a prefix, nothing of the text model
 * is found. */
int sb_has_text_model(const sb_check *check);

/* 1 if any tensor belongs to the MTP head. */
int sb_has_mtp(const sb_units *units);

static inline int sb_is_stack(const sb_expected *x)
{
    return x->role == SB_ROLE_experts_gate_up || x->role == SB_ROLE_experts_down;
}

/* The length of "layers.3.mlp.experts." in an expected tensor of one expert or of a stack; else
 * 0. */
size_t sb_experts_prefix(const sb_expected *expected);

/* How a shape is written in messages: "[8192, 2048]". */
typedef struct sb_shape_text {
    char text[200];
} sb_shape_text;
const char *sb_show_shape(unsigned rank, const uint64_t *shape, sb_shape_text *room);

#endif
