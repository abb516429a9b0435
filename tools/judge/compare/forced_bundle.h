/* forced_bundle.h - calls kept until their results are judged; for forced_bundle*.c only. */
#ifndef SB_COMPARE_FORCED_BUNDLE_H
#define SB_COMPARE_FORCED_BUNDLE_H

#include "tools/judge/compare/bundle.h"
#include "tools/judge/compare/forced_parts.h"

struct forced_kept {
    sb_op_call call;
    sb_any_args args;
    float *copy[SB_OP_INPUTS]; /* copies of inputs that will be overwritten */
};

/* Sets *k to a copy of the call. Copies the inputs that the op overwrites; all: copies every input.
 */
sb_status forced_keep_call(struct forced_kept *k, const sb_op_call *call, int all);
void forced_clear_kept(struct forced_kept *k);

/* Writes the bundle of the first failure and notes it in the verdicts. Fills in place and
 * arithmetic, which `from` lacks. */
sb_status forced_write_bundle(sb_forced *f, const sb_place *place, const struct forced_kept *k,
                              const sb_bundle_source *from, sb_error *err);

#endif
