/* step.h - the ledger of a step: what each op that it calls must move and multiply.
 *
 * Nothing runs, and no weight is made: shapes come from a preset, bytes from the plan of the folder
 * that `samebit make` would write (docs/ledger.md). */
#ifndef SB_BENCH_STEP_H
#define SB_BENCH_STEP_H

#include "tools/floor/floor.h"
#include "tools/make/scheme.h"

typedef enum sb_step_op {
#define SB_STEP_OP(id, title, scope, class, calls, phases, in, out, macs) SB_STEP_##id,
#include "tools/bench/step.def"
#undef SB_STEP_OP
    SB_STEP_OPS
} sb_step_op;

const char *sb_step_op_id(sb_step_op op);
const char *sb_step_op_title(sb_step_op op);
sb_floor_class sb_step_op_class(sb_step_op op);

/* A row of recipes.def. */
typedef struct sb_step_recipe {
    const char *name, *format;
    sb_scheme further;
    unsigned modules;
    double kv_bytes;
    const char *words;
} sb_step_recipe;

/* SB_ERR_USAGE names all that there are. */
sb_status sb_step_recipe_find(const char *name, const sb_step_recipe **out, sb_error *err);

/* Bytes of the weights that an op reads, in all layers together; routed: those of them that belong
 * to one expert each. */
typedef struct sb_step_weights {
    uint64_t stored, routed;
} sb_step_weights;

/* All matrices of an op with one shape and one format. leads: how many of them are the first of
 * their layer, op and format; others may share its launch. */
typedef struct sb_step_matrix {
    sb_step_op op;
    int in_mtp, routed;
    uint32_t rows, cols, count, leads;
    sb_scheme scheme;
    uint32_t group; /* columns that share a scale, where the scheme has a choice */
} sb_step_matrix;

enum { SB_STEP_MATRICES = 64 };

typedef struct sb_step_model {
    sb_config config;
    sb_step_weights trunk[SB_STEP_OPS], mtp[SB_STEP_OPS];
    sb_step_matrix matrix[SB_STEP_MATRICES];
    uint32_t matrices;
    uint32_t layer;              /* while it is made: of the last matrix, */
    uint64_t begun[SB_STEP_OPS]; /* and the formats that its layer has, a bit for each */
} sb_step_model;

sb_status sb_step_model_of(const char *preset, const sb_step_recipe *recipe, sb_step_model *out,
                           sb_error *err);
/* The same of so many layers; 0: of the preset's. */
sb_status sb_step_model_cut(const char *preset, const sb_step_recipe *recipe, unsigned layers,
                            sb_step_model *out, sb_error *err);

/* All layers of a kind together. Bytes: */
typedef struct sb_step_row {
    uint32_t calls, phases;
    double weights;
    double kept; /* of state, convolution, keys and values, read and written */
    double activations;
    double macs; /* multiply-adds */
} sb_step_row;

typedef struct sb_step {
    sb_step_row row[SB_STEP_OPS];
    sb_step_row total;
} sb_step;

/* A step of `width` rows behind options->context tokens; of options, kv_bytes and state_bytes count
 * as well. in_mtp: of the MTP head. */
void sb_step_compute(const sb_step_model *model, const sb_floor_options *options, int in_mtp,
                     uint32_t width, sb_step *out);

/* In how many places of a step the op is: layers of its kind, or 1. */
uint32_t sb_step_times(const sb_config *config, int in_mtp, sb_step_op op);

/* Bytes that memory must move: all but activations. */
double sb_step_bytes(const sb_step_row *row);

/* B-13: seconds of a step */
double sb_step_seconds(const sb_step *step, double bandwidth, double latency);

/* A round of `draft` proposed tokens, in seconds of plain steps of one token. */
typedef struct sb_step_round {
    double verify, drafts;
    double experts;    /* of verify: what more experts than those of one token cost */
    double break_even; /* as in sb_floor */
} sb_step_round;

void sb_step_round_of(const sb_step_model *model, const sb_floor_options *options, uint32_t draft,
                      double latency, sb_step_round *out);

#endif
