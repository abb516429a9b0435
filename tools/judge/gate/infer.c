/* infer.c - the tightest arithmetic under which an output passes. */
#include "tools/judge/gate/infer.h"

#include <string.h>

#include "ref/ops/knob.h"
#include "tools/judge/compare/verdict.h"

size_t sb_gate_points(const sb_gate_arith *ar, sb_gate_point *out)
{
    sb_knobs exact;
    size_t count = 0;
    sb_knobs_exact(&exact);
    for (int k = 0; k < SB_KNOB_COUNT; k++)
        if (ar->knobs.value[k] != exact.value[k])
            out[count++] =
                (sb_gate_point){sb_knob_name((sb_knob)k), sb_knob_value_name(ar->knobs.value[k]),
                                sb_knob_help((sb_knob)k)};
    return count;
}

static int passes(const sb_gate_result *r)
{
    return r->verdict != SB_VERDICT_FAIL && r->verdict != SB_VERDICT_MISTRUSTED;
}

/* V-114: "Without --arith the arithmetic is the first row of the table under which GOT passes" */
sb_status sb_gate_infer(const sb_gate_case *c, const sb_gate_got *got, size_t *row,
                        sb_gate_result *out, sb_error *err)
{
    size_t count = sb_gate_arith_count();
    memset(out, 0, sizeof *out);
    for (*row = 0; *row < count; (*row)++) {
        sb_gate_arith ar;
        sb_status status = sb_gate_arith_at(*row, &ar);
        if (!status)
            status = sb_gate_judge(c, &ar, got, out, err);
        if (status)
            return status;
        if (passes(out))
            return SB_OK;
    }
    return SB_OK;
}

sb_status sb_gate_reduce(const sb_gate_case *c, const sb_gate_got *got, sb_gate_arith *ar,
                         sb_gate_result *result, sb_error *err)
{
    sb_knobs exact;
    sb_knobs_exact(&exact);
    for (int k = SB_KNOB_COUNT - 1; k >= 0; k--) {
        sb_gate_arith less = *ar;
        sb_gate_result found;
        if (ar->knobs.value[k] == exact.value[k])
            continue;
        less.knobs.value[k] = exact.value[k];
        sb_status status = sb_gate_judge(c, &less, got, &found, err);
        if (status)
            return status;
        if (!passes(&found))
            continue;
        *ar = less;
        *result = found;
    }
    return SB_OK;
}
