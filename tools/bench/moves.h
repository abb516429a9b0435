/* moves.h - the ledger of a step: the bytes that each op must move, and its multiply-adds.
 *
 * Nothing runs and no weights are made: shapes come from a preset, bytes from the plan of a folder
 * of `samebit make` (docs/ledger.md). */
#ifndef SB_BENCH_MOVES_H
#define SB_BENCH_MOVES_H

#include "tools/check/floor/floor.h"
#include "tools/make/scheme.h"

typedef enum sb_moves_op {
#define SB_MOVES_OP(id, title, scope, class, calls, phases, in, out, macs) SB_MOVES_##id,
#include "tools/bench/moves.def"
#undef SB_MOVES_OP
    SB_MOVES_OPS
} sb_moves_op;

const char *sb_moves_op_id(sb_moves_op op);
const char *sb_moves_op_title(sb_moves_op op);
sb_floor_class sb_moves_op_class(sb_moves_op op);

/* A row of recipes.def. */
typedef struct sb_moves_recipe {
    const char *name, *format;
    sb_scheme further;
    unsigned modules;
    double kv_bytes;
    const char *words;
} sb_moves_recipe;

/* SB_ERR_USAGE lists all names. */
sb_status sb_moves_recipe_find(const char *name, const sb_moves_recipe **out, sb_error *err);

/* Bytes of the weights that an op reads in all layers; routed: the part of them in routed
 * experts. */
typedef struct sb_moves_weights {
    uint64_t stored, routed;
} sb_moves_weights;

/* All matrices of an op with one shape and one format. leads: the number of matrices that are the
 * first of their format in their layer and op. The others can share the launch of the first. */
typedef struct sb_moves_matrix {
    sb_moves_op op;
    int in_mtp, routed;
    uint32_t rows, cols, count, leads;
    sb_scheme scheme;
    uint32_t group; /* columns per scale, if the scheme has a choice */
} sb_moves_matrix;

enum { SB_MOVES_MATRICES = 64 };

typedef struct sb_moves_model {
    sb_config config;
    sb_moves_weights trunk[SB_MOVES_OPS], mtp[SB_MOVES_OPS];
    sb_moves_matrix matrix[SB_MOVES_MATRICES];
    uint32_t matrices;
    uint32_t layer;               /* during construction: layer of the last matrix */
    uint64_t begun[SB_MOVES_OPS]; /* formats seen in that layer: one bit each, per op */
} sb_moves_model;

sb_status sb_moves_model_of(const char *preset, const sb_moves_recipe *recipe, sb_moves_model *out,
                            sb_error *err);
/* The same with `layers` layers; 0: as the preset. */
sb_status sb_moves_model_cut(const char *preset, const sb_moves_recipe *recipe, unsigned layers,
                             sb_moves_model *out, sb_error *err);

/* An op in all layers. Members without a unit are bytes. */
typedef struct sb_moves_row {
    uint32_t calls, phases;
    double weights;
    double kept; /* states, keys and values, read and written */
    double activations;
    double macs; /* multiply-adds */
} sb_moves_row;

typedef struct sb_moves {
    sb_moves_row row[SB_MOVES_OPS];
    sb_moves_row total;
} sb_moves;

/* A step of `width` rows after options->context tokens. Also uses kv_bytes and state_bytes of
 * options. in_mtp: a step of the MTP head. */
void sb_moves_compute(const sb_moves_model *model, const sb_floor_options *options, int in_mtp,
                      uint32_t width, sb_moves *out);

/* The number of occurrences of the op in a step: layers of its kind, or 1. */
uint32_t sb_moves_times(const sb_config *config, int in_mtp, sb_moves_op op);

/* Bytes that memory must move: all except activations. */
double sb_moves_bytes(const sb_moves_row *row);

/* B-13: seconds of a step */
double sb_moves_seconds(const sb_moves *step, double bandwidth, double latency);

/* A round of `draft` proposed tokens, in seconds of plain steps of one token. */
typedef struct sb_moves_round {
    double verify, drafts;
    double experts;    /* the part of verify for experts beyond those of one token */
    double break_even; /* as in sb_floor */
} sb_moves_round;

void sb_moves_round_of(const sb_moves_model *model, const sb_floor_options *options, uint32_t draft,
                       double latency, sb_moves_round *out);

#endif
