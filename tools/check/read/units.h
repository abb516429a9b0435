/* units.h - a checkpoint as checks see it: its linear layers, and the tensors that belong to
 * none. */
#ifndef SB_CHECK_UNITS_H
#define SB_CHECK_UNITS_H

#include "ref/base/hash.h"
#include "ref/model/declared.h"
#include "ref/model/eagle3.h"
#include "ref/model/layers.h"
#include "ref/model/names.h"
#include "tools/check/read/code_runs.h"
#include "tools/check/read/marks.h"
#include "tools/check/read/same.h"
#include "tools/check/read/seen.h"
#include "tools/check/read/zero_runs.h"

typedef enum sb_region {
    SB_REGION_trunk,  /* the text model */
    SB_REGION_mtp,    /* names that begin with "mtp." */
    SB_REGION_vision, /* "model.visual." or "visual." */
    SB_REGION_other
} sb_region;

/* A linear layer (a stack of experts is one unit), or one tensor that belongs to no layer. */
typedef struct sb_unit {
    char *name;  /* "...self_attn.q_proj", "...mlp.experts.gate_up_proj"; or the tensor's name */
    char *plain; /* the name without the prefix of the text model: "layers.3.self_attn.q_proj" */
    char *kind;  /* sb_layer_kind: "self_attn.q_proj" */
    sb_region region;
    const sb_tensor *tensor; /* the tensor, if the unit is one; NULL for a layer */
    sb_found found;          /* for a layer: what was detected, not yet judged */
    sb_status status;        /* whether found can be read; SB_OK for single tensors */
    char *problem;           /* if the layer cannot be read: why, in one line */
    /* What the configuration expects under this name, with experts stacked or one by one; NULL:
     * nothing, or there is no configuration. For a layer: the expectation for its "weight". */
    const sb_expected *expected;
    /* By part of parts.def ([0] for a single tensor): the digest of its bytes, as D-1 defines it.
     * Empty until the payload has been read. */
    sb_digest digest[SB_PART_COUNT];
    /* What the payload pass saw: one entry for a layer or tensor; for a stack, one per piece, in
     * the order of sb_each_piece. */
    sb_seen *seen;
    size_t seen_count;
    sb_zero_list *zeros; /* V-153; NULL: none */
    sb_mark_list marks;  /* V-13; emptied once judged */
    sb_code_runs codes;  /* V-36 */
    sb_same same;        /* filled for single tensors, and where the original is quantized */
    int chosen;          /* by sb_sample_choose */
} sb_unit;

/* A matrix as a model uses it: a unit, or a piece of a stack. */
typedef struct sb_member {
    /* "layers.3.mlp.experts.5.gate_proj": the same name whether experts are stacked or not */
    char *plain;
    char *name; /* the name with its prefix, for messages */
    sb_unit *unit;
    sb_seen *seen;
    sb_matrix matrix; /* bytes in the mapped file */
} sb_member;

typedef struct sb_units {
    sb_unit *rows; /* sorted by name */
    size_t count;
    sb_member *members; /* members of all readable units, sorted by plain */
    size_t member_count;
    /* all that the configuration implies, with experts both stacked and one by one; sorted by
     * name */
    sb_expected *expected;
    size_t expected_count;
    /* "model.language_model.", "model.", "language_model.model."; "" if unknown, and for a drafter
     */
    const char *prefix;
    int is_drafter; /* all tensors belong to the region of the text model */
} sb_units;

/* config may be NULL. drafter: NULL for a model; else only the tensors of this drafter are
 * expected, or nothing if config is NULL. Zero points whose version the tensors do not determine
 * are read as declared. With headers_only the zero points are not looked at. With `only`, makes
 * only those of its units that are chosen. */
sb_status sb_units_make(const sb_checkpoint *checkpoint, const sb_config *config,
                        const sb_eagle3_config *drafter, const sb_declared *declared,
                        int headers_only, const sb_units *only, sb_units *out, sb_error *err);
void sb_units_free(sb_units *units);

uint64_t sb_unit_bytes(const sb_unit *unit); /* of all its tensors */

/* A tensor as a matrix: its last dimension along the rows. 0 if it holds no floats. */
int sb_tensor_matrix(const sb_tensor *tensor, sb_matrix *out);

/* Look-up by full name, or by the plain name of a member. NULL: there is none. */
const sb_unit *sb_unit_named(const sb_units *units, const char *name);
const sb_member *sb_member_plain(const sb_units *units, const char *plain);
const sb_expected *sb_expected_named(const sb_units *units, const char *name);

/* The tensor that a finding names: the part if it exists, else the unit's codes
 * ("....weight_packed"). */
const char *sb_unit_tensor(const sb_unit *unit, sb_model_part part);

/* Whether a unit is a quantized layer that can be read. */
static inline int sb_unit_quantized(const sb_unit *unit)
{
    return !unit->tensor && !unit->status && unit->found.container != SB_CONTAINER_plain &&
           unit->found.container != SB_CONTAINER_COUNT;
}

#endif
