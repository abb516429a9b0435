/* call_experts.c - the ops of the kept experts: together if the backend can do so and no hook has
 * to see them, otherwise one row and slot after the other. */
#include <stdatomic.h>

#include "ref/base/threads.h"
#include "ref/run/call.h"

/* Runs the op for row i / kept and slot i mod kept. */
static void run_expert(sb_call *call, const sb_expert_linear_args *all, size_t i, const char *tap)
{
    const sb_matrix *w = sb_expert_weight(all, all->ids[i]);
    const sb_linear_args args = {.weight = w,
                                 .kind = all->kind,
                                 .in = all->in + i / all->each * w->cols,
                                 .rows = 1,
                                 .out = all->out + i * w->rows};
    sb_run_op(call, SB_OP_linear, &args, &(const sb_at){i / all->kept, i % all->kept},
              SB_MADE({.tap = tap}));
}

/* True if the backend ran all experts together. The reference's `experts` always computes the
 * reference's `linear`. So a table that has this `experts`, but another `linear`, does not run them
 * together. */
static int ran_together(sb_call *call, const sb_expert_linear_args *args, size_t n, const char *tap)
{
    const sb_backend *ref = sb_backend_ref(), *by = call->backend;
    if (!by->experts || (call->hook && !call->hook_skips_experts) ||
        (by->experts == ref->experts && by->ops.linear != ref->ops.linear))
        return 0;
    if (call->err)
        call->err->text[0] = '\0';
    const sb_status status = by->experts(call->knobs, args, n);
    if (status && status != SB_ERR_UNSUPPORTED)
        sb_call_fail(call, SB_OP_linear, tap, status);
    return status != SB_ERR_UNSUPPORTED;
}

void sb_run_experts(sb_call *call, const sb_expert_linear_args *args, size_t n,
                    const char *const *taps)
{
    if (call->status)
        return;
    const int all = n > 1 && ran_together(call, args, n, taps[0]);
    for (size_t p = 0; p < n && !call->status; p++) {
        const sb_expert_linear_args *a = &args[p];
        const size_t pairs = a->rows * a->kept;
        const int together = all || ran_together(call, a, 1, taps[p]);
        for (size_t i = 0; i < pairs && !together; i++)
            run_expert(call, a, i, taps[p]);
        sb_run_tap(call, taps[p], a->out, a->rows, a->kept * a->weight->rows);
    }
}

/* Returns the arguments of row t. */
static sb_moe_combine_args combine_args(const sb_moe_combine_args *first, const float *logits,
                                        size_t t)
{
    sb_moe_combine_args row = *first;
    row.expert_out += t * row.kept * row.n;
    row.weights += t * row.kept;
    row.ids += t * row.kept;
    row.shared_out += t * row.n;
    row.shared_logit = logits[t];
    row.out += t * row.n;
    return row;
}

typedef struct combining {
    const sb_knobs *knobs;
    const sb_moe_combine_args *first;
    const float *logits;
    atomic_int failed;
} combining;

static void combine_row(void *ctx, size_t t, size_t worker)
{
    combining *j = ctx;
    const sb_moe_combine_args args = combine_args(j->first, j->logits, t);
    (void)worker;
    if (sb_backend_ref()->ops.moe_combine(j->knobs, &args))
        atomic_store(&j->failed, 1);
}

/* True if all rows were computed. After a failure the caller computes them again, one by one. */
static int combined_together(const sb_call *call, const sb_moe_combine_args *first,
                             const float *logits)
{
    combining j = {.knobs = call->knobs, .first = first, .logits = logits};
    if (call->hook || call->backend->ops.moe_combine != sb_backend_ref()->ops.moe_combine ||
        !sb_worth_threads((double)call->rows * (double)first->n * SB_COST_rounded))
        return 0;
    sb_parallel_for(call->rows, 1, combine_row, &j);
    return !j.failed;
}

void sb_run_combine(sb_call *call, const sb_moe_combine_args *first, const float *shared_logit,
                    const char *tap)
{
    if (call->status)
        return;
    const int done = combined_together(call, first, shared_logit);
    for (size_t t = 0; t < call->rows && !done; t++) {
        const sb_moe_combine_args row = combine_args(first, shared_logit, t);
        sb_run_op(call, SB_OP_moe_combine, &row, &(const sb_at){t, 0}, SB_MADE({.tap = tap}));
    }
    sb_run_tap(call, tap, first->out, call->rows, first->n);
}
