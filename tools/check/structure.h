/* structure.h - what the checks of names, shapes and configuration share. */
#ifndef SB_CHECK_STRUCTURE_H
#define SB_CHECK_STRUCTURE_H

#include "tools/check/check.h"

/* 1 if the index puts the tensor of this name, or one of the layer of this name, into a file that
 * is missing or cannot be read: told once, of the file, and not of each module again. */
int sb_elsewhere(const sb_check *check, const char *name);

/* 1 if every file that the index names is here and can be read. */
int sb_is_whole(const sb_check *check);

/* 1 if what is looked at is one file of several: what it does not hold is not missing. */
int sb_is_fragment(const sb_check *check);

/* Which check tells why a layer cannot be read: 4, 7, 8 or 32; 0: it can. */
unsigned sb_unit_fault(const sb_unit *unit);

/* The place of the name in the vision grammar: 1, or 0 if it has none. */
int sb_is_vision_name(const char *name);

/* Check 9 of config.json alone: what it says twice, and not alike. */
void sb_check_config_self(sb_check *check);

/* The unit that holds an expected tensor: under its full name, or as a layer. */
const sb_unit *sb_unit_of(const sb_units *units, const sb_expected *expected);

/* Where an expected tensor is: here, whether experts are stored one by one or stacked; or where
 * sb_elsewhere says; or nowhere. */
typedef enum sb_presence { SB_HERE, SB_ELSEWHERE, SB_ABSENT } sb_presence;
sb_presence sb_presence_of(const sb_check *check, const sb_expected *expected);

/* 1 if the names of the text model have a prefix that is known: without one nothing of it is found.
 */
int sb_has_text_model(const sb_check *check);

/* 1 if any tensor is of the MTP head. */
int sb_has_mtp(const sb_units *units);

static inline int sb_is_stack(const sb_expected *x)
{
    return x->role == SB_ROLE_experts_gate_up || x->role == SB_ROLE_experts_down;
}

/* "layers.3.mlp.experts." of an expected tensor of one expert or of a stack, its length; else 0. */
size_t sb_experts_prefix(const sb_expected *expected);

/* How a shape is written in messages: "[8192, 2048]". */
typedef struct sb_shape_text {
    char text[200];
} sb_shape_text;
const char *sb_show_shape(unsigned rank, const uint64_t *shape, sb_shape_text *room);

#endif
