/* forced_bundle_state.c - the last call that made each state, kept until the state is judged. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/forced_bundle.h"

static struct forced_kept **slot_of(forced_memory *m, sb_op op)
{
    return &m->made[op == SB_OP_conv ? 0 : 1];
}

void forced_drop_states(forced_memory *m)
{
    for (size_t i = 0; i < 2; i++) {
        if (m->made[i])
            forced_clear_kept(m->made[i]);
        free(m->made[i]);
        m->made[i] = NULL;
    }
}

sb_status forced_keep_state(sb_forced *f, const sb_op_call *call)
{
    if (!sb_op_values_of(call->op, call->args).state.data || call->layer == SB_NO_LAYER)
        return SB_OK;
    struct forced_kept **slot = slot_of(forced_memory_of(f, call->layer), call->op);
    if (*slot)
        forced_clear_kept(*slot);
    else
        *slot = sb_alloc(1, sizeof **slot);
    return *slot ? forced_keep_call(*slot, call, 1) : SB_ERR_MEMORY;
}

static void *member_of(struct forced_kept *k, const char *name)
{
    return sb_arg_at(&k->args, sb_arg_find(k->call.op, name));
}

static float *without_trail(struct forced_kept *k)
{
    float **trail = member_of(k, "trail"), *old = *trail;
    *trail = NULL;
    return old;
}

/* True if the first `rows` rows of the call leave the expected state. */
static int gives(const struct forced_kept *k, size_t rows, const float *expected)
{
    struct forced_kept again = *k;
    *(size_t *)member_of(&again, "rows") = rows;
    again.call.args = &again.args;
    sb_op_values v = sb_op_values_of(k->call.op, &again.args);
    size_t count = v.state.rows * v.state.cols;
    float *state = sb_alloc(count, sizeof *state);
    float *out = sb_alloc(v.out[0].rows * v.out[0].cols, sizeof *out);
    int same = 0;
    if (state && out) {
        memcpy(state, v.state.data, count * sizeof *state);
        *(float **)member_of(&again, "state") = state;
        *(float **)member_of(&again, "out") = out;
        same = !sb_op_run(&again.call) && memcmp(state, expected, count * sizeof *state) == 0;
    }
    free(state);
    free(out);
    return same;
}

/* Cuts a verify to its kept rows, which made the state. */
static int cut_rows(struct forced_kept *k, const float *expected)
{
    size_t *rows = member_of(k, "rows");
    int verify = without_trail(k) != NULL;
    for (size_t n = *rows; n > 0; n = verify ? n - 1 : 0)
        if (gives(k, n, expected)) {
            *rows = n;
            return 1;
        }
    return 0;
}

sb_status forced_bundle_state(sb_forced *f, const sb_place *place, sb_op op, size_t at,
                              const float *expected, const float *recorded, const double *apart,
                              sb_error *err)
{
    struct forced_kept *k = *slot_of(forced_memory_of(f, place->layer), op);
    if (!k || !cut_rows(k, expected)) {
        forced_no_bundle(f, place, "was not written by a single call of an op");
        return SB_OK;
    }
    sb_op_value state = sb_op_values_of(k->call.op, &k->args).state;
    size_t count = state.rows * state.cols;
    double *bound = sb_alloc(count, sizeof *bound);
    if (!bound)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a bundle");
    for (size_t i = 0; apart && i < count; i++)
        bound[i] = SB_BOUND_SLACK * apart[i];
    const sb_bundle_source source = {.output = "state",
                                     .rows = state.rows,
                                     .cols = state.cols,
                                     .row = at / state.cols,
                                     .column = at % state.cols,
                                     .expected = expected,
                                     .recorded = recorded,
                                     .bound = bound};
    sb_status status = forced_write_bundle(f, place, k, &source, err);
    free(bound);
    return status;
}
