/* names.h - the names of a trace's arrays: taps, and pieces of states. */
#ifndef SB_TRACE_NAMES_H
#define SB_TRACE_NAMES_H

#include "ref/model/config.h"
#include "ref/ops/op.h"

typedef enum sb_tap_where {
    SB_TAP_call,
    SB_TAP_layer,
    SB_TAP_linear,
    SB_TAP_full,
    SB_TAP_gated,
    SB_TAP_moe,
    SB_TAP_shared,
    SB_TAP_dense,
    SB_TAP_head,
    SB_TAP_draft,
    SB_TAP_drafter
} sb_tap_where;

typedef struct sb_tap_name {
    sb_tap_where where;
    const char *name;  /* within the layer: "linear_attn.g" */
    const char *words; /* the width of a row: "nV" */
    sb_op op;          /* the op that made it; for log-probabilities, the op of the logits */
    int is_head;       /* of the MTP head: axis 0 is its entries */
    int is_drafter;    /* of an EAGLE-3 drafter: axis 0 is its entries */
    int in_layer;
    unsigned layer; /* of the trunk; 0 in the head */
} sb_tap_name;

/* 1, and sets *out, if a full name ("layers.3.linear_attn.g") is that of a tap. */
int sb_tap_find(const char *full, sb_tap_name *out);

/* 1 if the tap's values are ids: whole numbers. */
int sb_tap_is_ids(const char *full);

/* 1 if the tap is what a drafter gives: its logits, or the ids of its choice (level 2). */
int sb_tap_is_of_drafts(const char *full);

/* 1 if the tap's rows are those of logits_rows: logits and all arrays of log-probabilities. */
int sb_tap_is_of_logits(const char *full);

/* T-92: 0 for "embed", 1 .. layers for the outputs of the layers, layers + 1 for "norm"; -1 for any
 * other tap. */
long sb_tap_hidden(const char *full, uint32_t layers);

/* The width of a row of a tap in a model, 0 if any width is allowed, as for the taps of a drafter,
 * whose widths are its own; *exists: the model has the tap. */
uint32_t sb_tap_width(const sb_tap_name *tap, const sb_config *config, int *exists);

/* Row i of the list of taps; 0 after its end. */
int sb_tap_row(size_t i, sb_tap_name *out);

/* "state.7.layers.0.linear_attn.conv_state" is a piece of sequence 7; *piece points after the
 * number and its dot. 0 if the name is not that of a state. */
int sb_state_piece_name(const char *full, uint32_t *sequence, const char **piece);

#endif
