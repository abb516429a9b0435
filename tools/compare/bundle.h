/* bundle.h - a replay bundle: one op of one call as a safetensors file that stands alone.
 *
 * D-20: "the tensors expected, recorded and bound (F32, F32, F64) of one output of one op" - and
 * what the op read (inputs, its part of the parameters as they are stored, the incoming state,
 * knobs): docs/bundle.md. */
#ifndef SB_COMPARE_BUNDLE_H
#define SB_COMPARE_BUNDLE_H

#include "ref/base/status.h"
#include "ref/container/safetensors.h"
#include "ref/ops/args.h"
#include "ref/ops/values.h"
#include "ref/run/hook.h"
#include "tools/compare/verdict.h"

/* One output of one op: rows of cols. */
typedef struct sb_bundle_source {
    const sb_op_call *call; /* args as they were before the op ran */
    const sb_place *place;  /* of the failure; element[0] counts from column `column` of the tap */
    const char *arithmetic; /* name of the engine's */
    const char *output;     /* its name in the argument struct */
    size_t rows, cols, row, column; /* of the output; and the element that failed */
    const float *expected, *recorded;
    const double *bound;
} sb_bundle_source;

/* Of linear and embed only the failing row, and the rows of the weight around the element. */
sb_status sb_bundle_write(const char *path, const sb_bundle_source *from, sb_error *err);

typedef struct sb_bundle {
    sb_op op;
    char op_name[24], name[96], words[SB_WORDS], arithmetic[32], output[24];
    uint64_t token, sequence;
    uint32_t layer;
    sb_knobs knobs;
    size_t rows, cols;
    float *expected, *recorded;
    double *bound;
    float *out; /* (rows, cols) what sb_bundle_run left */
    sb_any_args args;
    void **blocks;
    size_t block_count;
    sb_matrix matrices[SB_OP_PARAMS]; /* whose bytes are those of the file */
    size_t matrix_count;
    sb_safetensors *file;
} sb_bundle;

/* Any file: what does not fit together is refused with the place. */
sb_status sb_bundle_open(const char *path, sb_bundle **out, sb_error *err);

/* The same of bytes that live as long as the bundle; path is what messages call them. */
sb_status sb_bundle_parse(const unsigned char *bytes, size_t size, const char *path,
                          sb_bundle **out, sb_error *err);
void sb_bundle_free(sb_bundle *bundle);

/* Runs the op of the table on the bundle's inputs, once: in place is in place. hook: stands around
 * the op, or NULL. */
sb_status sb_bundle_run(sb_bundle *bundle, const sb_op_table *table, sb_op_hook hook,
                        void *hook_ctx);

/* Experts that both chose come to stand in the slots of the reference: their order is the engine's
 * affair. Only of the output ids. */
void sb_bundle_align(const char *output, const float *expected, float *found, size_t rows,
                     size_t cols);

#endif
