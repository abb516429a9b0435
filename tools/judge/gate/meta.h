/* meta.h - the metamorphic gate: a kernel's results must not depend on its surroundings.
 *
 * There are no expected values and no tolerances. The kernel runs one case repeatedly: unchanged,
 * with other bytes around its memory, each row alone, the rows in another order, in batches of
 * other widths, in two calls. Each row's result must have the same bits every time. */
#ifndef SB_GATE_META_H
#define SB_GATE_META_H

#include "tools/judge/compare/verdict.h"
#include "tools/judge/gate/gate.h"

/* Where the kernel writes one output: dense, of the shape of c->output[i]. */
typedef struct sb_gate_target {
    sb_dtype dtype;
    unsigned char *data;
    uint64_t bytes;
} sb_gate_target;

/* Reads the inputs of the case and writes every element of out[0 .. c->outputs). The outputs in the
 * case have shapes, but no values. A status other than SB_OK ends the gate. */
typedef sb_status (*sb_gate_kernel)(void *ctx, const sb_gate_case *c, const sb_gate_target *out);

typedef struct sb_gate_meta_options {
    sb_gate_kernel kernel;
    void *ctx;
    sb_dtype dtype[SB_GATE_OUTPUTS]; /* types of the outputs; 0: F32, for choices U32 */
    unsigned repeats;                /* 0: 100 */
} sb_gate_meta_options;

typedef enum sb_gate_meta_kind {
    SB_GATE_META_repeated,
    SB_GATE_META_surroundings,
    SB_GATE_META_alone,
    SB_GATE_META_permuted,
    SB_GATE_META_width,
    SB_GATE_META_split,
    SB_GATE_METAS
} sb_gate_meta_kind;
const char *sb_gate_meta_name(sb_gate_meta_kind kind);

typedef struct sb_gate_meta_row {
    sb_verdict verdict; /* IDENTICAL, FAIL, or SKIPPED: the op does not promise it */
    size_t calls, elements;
    char words[400]; /* the first difference, axes by name; or why it was skipped */
} sb_gate_meta_row;

typedef struct sb_gate_meta {
    sb_verdict verdict; /* IDENTICAL, FAIL, or MISTRUSTED: every element is the same */
    sb_gate_meta_row row[SB_GATE_METAS];
    char words[400];
} sb_gate_meta;

/* V-118: "Every element that two calls share has the same bits in both" */
sb_status sb_gate_meta_run(const sb_gate_case *c, const sb_gate_meta_options *options,
                           sb_gate_meta *out, sb_error *err);

/* The same through files, for a program that cannot be called. sb_gate_meta_write creates a folder
 * with the inputs of every variant. sb_gate_meta_judge compares the `out` tensors of the files with
 * the same names in the folder `got`. */
sb_status sb_gate_meta_write(const sb_gate_case *c, const char *folder, size_t *files,
                             sb_error *err);
sb_status sb_gate_meta_judge(const char *folder, const char *got, sb_gate_meta *out, sb_error *err);

#endif
