/* bundle.h - a replay bundle: one op of one call as a safetensors file that stands alone.
 *
 * D-20: "the tensors expected, recorded and bound (F32, F32, F64) of one output of one op" - and
 * everything that the op read: inputs, its part of the parameters as stored, the incoming state,
 * knobs. See docs/bundle.md. */
#ifndef SB_COMPARE_BUNDLE_H
#define SB_COMPARE_BUNDLE_H

#include "ref/base/status.h"
#include "ref/container/safetensors.h"
#include "ref/ops/args.h"
#include "ref/ops/values.h"
#include "ref/run/hook.h"
#include "tools/judge/compare/verdict.h"

/* One output of one op: rows of cols. */
typedef struct sb_bundle_source {
    const sb_op_call *call; /* args as they were before the op ran */
    const sb_place *place;  /* the failure; element[0] counts from column `column` of the tap */
    const char *arithmetic; /* name of the engine's arithmetic */
    const char *output;     /* name of the output in the argument struct */
    size_t rows, cols, row, column; /* size of the output; the element that failed */
    const float *expected, *recorded;
    const double *bound;
} sb_bundle_source;

/* For linear and embed the file has only the failing row, and the rows of the weight around the
 * element. */
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
    float *out; /* (rows, cols) result of sb_bundle_run */
    sb_any_args args;
    void **blocks;
    size_t block_count;
    sb_matrix matrices[SB_OP_PARAMS]; /* they point into the bytes of the file */
    size_t matrix_count;
    sb_safetensors *file;
} sb_bundle;

/* Accepts any file as input. Inconsistent contents are an error that names the place. */
sb_status sb_bundle_open(const char *path, sb_bundle **out, sb_error *err);

/* The same for bytes in memory, which have to live as long as the bundle. path: their name in
 * messages. */
sb_status sb_bundle_parse(const unsigned char *bytes, size_t size, const char *path,
                          sb_bundle **out, sb_error *err);
void sb_bundle_free(sb_bundle *bundle);

/* Runs the op of the table on the bundle's inputs. Call only once: ops that work in place overwrite
 * their inputs. hook: called in place of the op, which the hook runs; or NULL. */
sb_status sb_bundle_run(sb_bundle *bundle, const sb_op_table *table, sb_op_hook hook,
                        void *hook_ctx);

/* Moves experts that both sides chose into the slots of the reference, since the engine may order
 * its experts freely. Changes only the output "ids". */
void sb_bundle_align(const char *output, const float *expected, float *found, size_t rows,
                     size_t cols);

#endif
