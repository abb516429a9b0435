/* power.c - mistakes that the inputs of a case could have revealed: plants each mistake and judges
 * the result.
 *
 * V-115: "Inputs that would have shown no mistake of the op's own are no evidence" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/backend.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/fault/mistakes.h"
#include "tools/judge/fault/op_faults.h"
#include "tools/judge/gate/element.h"
#include "tools/judge/gate/gate.h"

/* Output values of profile `exact` under the arithmetic's knobs, without or with a mistake. */
typedef struct values {
    float *out[SB_GATE_OUTPUTS];
} values;

static void release(values *v)
{
    for (size_t i = 0; i < SB_GATE_OUTPUTS; i++)
        free(v->out[i]);
}

static sb_status room(const sb_gate_case *c, values *v)
{
    int bad = 0;
    memset(v, 0, sizeof *v);
    for (size_t i = 0; i < c->outputs; i++) {
        v->out[i] = sb_alloc(c->output[i].count, sizeof(float));
        bad |= !v->out[i];
    }
    return bad ? SB_ERR_MEMORY : SB_OK;
}

typedef struct trial {
    const sb_gate_case *c;
    const sb_gate_arith *ar;
    const sb_gate_got *got;         /* the judged outputs, in their types; NULL: all, as F32 */
    double *bound[SB_GATE_OUTPUTS]; /* NULL: choices, or all bits have to match */
    values right, wrong;
    sb_gate_power *power;
} trial;

static int is_judged(const trial *t, size_t output)
{
    return !t->got || t->got[output].data;
}

/* True if one element fails with the mistake. */
static int fails(const trial *t, size_t output, size_t i)
{
    const sb_gate_output *o = &t->c->output[output];
    float x = t->wrong.out[output][i];
    sb_dtype dtype = t->got ? t->got[output].dtype : SB_DTYPE_F32;
    if (o->kind == SB_GATE_CHOICES)
        return x != o->exact[i] && (t->ar->exact || !t->c->op->open ||
                                    !t->c->op->open(t->c, t->ar, output, i, (double)x));
    if (!t->bound[output])
        return sb_element_bits_of(dtype, x) != sb_element_bits_of(dtype, o->exact[i]);
    double found = sb_element_round(dtype, (double)x);
    return !sb_element_inside(dtype, found, o->real[i], t->bound[output][i]);
}

static void add_name(char *list, size_t size, const char *name)
{
    size_t used = strlen(list);
    if (used + strlen(name) + 3 < size)
        snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

static int conclude(trial *t, const char *name, int of_op)
{
    sb_gate_power *p = t->power;
    int caught = 0;
    for (size_t o = 0; o < t->c->outputs && !caught; o++)
        for (size_t i = 0; is_judged(t, o) && i < t->c->output[o].count && !caught; i++)
            caught = fails(t, o, i);
    p->planted++;
    p->caught += (size_t)caught;
    p->of_ops += (size_t)of_op;
    p->of_ops_caught += (size_t)(of_op && caught);
    add_name(caught ? p->shown : p->missed, caught ? sizeof p->shown : sizeof p->missed, name);
    return caught;
}

/* --- mistakes of the ops ---------------------------------------------------------------------- */

static int uses_op(const sb_gate_op *op, sb_op number)
{
    for (size_t i = 0; i < op->use_count; i++)
        if (op->uses[i] == number)
            return 1;
    return 0;
}

static sb_status plant_mistakes(trial *t)
{
    sb_status status = SB_OK;
    for (const sb_planted *m = sb_mistakes; m->name && !status; m++) {
        if (m->benign || !uses_op(t->c->op, m->op))
            continue;
        sb_op_table table = sb_backend_ref()->ops;
        m->plant(&table);
        status = sb_gate_exact(t->c, &t->ar->knobs, &table, t->wrong.out);
        if (!status)
            conclude(t, m->name, 1);
    }
    return status;
}

/* --- faults of the ops: one kind at a time, tools/judge/fault/lists/ops.def * ----------------- */

/* The fault that the table's functions make on this thread; a table has no context pointer. */
static _Thread_local sb_plant planted;

static sb_status run_fault(sb_op op, const sb_knobs *knobs, const void *args)
{
    const sb_op_call call = {.op = op,
                             .name = "",
                             .kind = SB_CALL_prompt,
                             .rows = 1,
                             .args = args,
                             .knobs = knobs,
                             .table = &sb_backend_ref()->ops};
    return planted.fault && planted.fault->op == op ? planted.fault->run(&planted, &call)
                                                    : sb_op_run(&call);
}

#define SB_OP(name, clause)                                                                        \
    static sb_status fault_##name(const sb_knobs *knobs, const sb_##name##_args *args)             \
    {                                                                                              \
        return run_fault(SB_OP_##name, knobs, args);                                               \
    }
#include "ref/ops/ops.def"
#undef SB_OP

static const sb_op_table faulty = {
#define SB_OP(name, clause) .name = fault_##name,
#include "ref/ops/ops.def"
#undef SB_OP
};

static sb_status plant_faults(trial *t)
{
    sb_status status = SB_OK;
    for (const sb_planted *f = sb_op_faults; f->name && !status; f++) {
        if (!f->run || !uses_op(t->c->op, f->op))
            continue;
        planted = (sb_plant){.fault = f, .layer = SB_EVERY_LAYER};
        status = sb_gate_exact(t->c, &t->ar->knobs, &faulty, t->wrong.out);
        sb_plant_clear(&planted);
        planted.fault = NULL;
        if (!status)
            conclude(t, f->name, 1);
    }
    return status;
}

/* --- slips with outputs ----------------------------------------------------------------------- */

/* Returns element i of the wrong output; width: elements per index of axis 0. */
typedef float slip_fn(const float *right, size_t count, size_t width, size_t i);

static float nothing_written(const float *right, size_t count, size_t width, size_t i)
{
    return (void)right, (void)count, (void)width, (void)i, 0.0f;
}

static float rows_moved(const float *right, size_t count, size_t width, size_t i)
{
    return right[(i + width) % count];
}

static float columns_moved(const float *right, size_t count, size_t width, size_t i)
{
    (void)count;
    return right[i - i % width + (i + 1) % width];
}

static float sign_lost(const float *right, size_t count, size_t width, size_t i)
{
    (void)count, (void)width;
    return right[i] < 0.0f ? -right[i] : right[i];
}

static float one_percent_more(const float *right, size_t count, size_t width, size_t i)
{
    (void)count, (void)width;
    return right[i] * 1.01f;
}

static float last_element_lost(const float *right, size_t count, size_t width, size_t i)
{
    (void)width;
    return i + 1 == count ? 0.0f : right[i];
}

/* of_values: leaves choices unchanged, because one percent more is no possible choice. */
static int plant_slip(trial *t, const char *name, slip_fn *slip, int of_values)
{
    for (size_t o = 0; o < t->c->outputs; o++) {
        const sb_gate_output *out = &t->c->output[o];
        size_t count = out->count;
        size_t width = out->rank && out->shape[0] ? count / (size_t)out->shape[0] : count;
        int spared = of_values && out->kind == SB_GATE_CHOICES;
        for (size_t i = 0; i < count; i++)
            t->wrong.out[o][i] =
                spared ? t->right.out[o][i] : slip(t->right.out[o], count, width ? width : 1, i);
    }
    return conclude(t, name, 0);
}

static void plant_slips(trial *t)
{
    t->power->zeros_pass = !plant_slip(t, "nothing_written", nothing_written, 0);
    plant_slip(t, "rows_moved", rows_moved, 0);
    plant_slip(t, "columns_moved", columns_moved, 0);
    plant_slip(t, "sign_lost", sign_lost, 0);
    plant_slip(t, "last_element_lost", last_element_lost, 0);
    if (t->c->outputs && t->c->output[0].kind == SB_GATE_VALUES)
        plant_slip(t, "one_percent_more", one_percent_more, 1);
}

/* --- all -------------------------------------------------------------------------------------- */

static sb_status bounds(trial *t, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t o = 0; o < t->c->outputs && !status; o++) {
        if (t->ar->exact || t->c->output[o].kind == SB_GATE_CHOICES || !is_judged(t, o))
            continue;
        t->bound[o] = sb_alloc(t->c->output[o].count, sizeof(double));
        status = t->bound[o] ? sb_gate_bound(t->c, t->ar, o, t->bound[o], err) : SB_ERR_MEMORY;
    }
    return status;
}

sb_status sb_gate_power_in(const sb_gate_case *c, const sb_gate_arith *ar, const sb_gate_got *got,
                           sb_gate_power *out, sb_error *err)
{
    trial t = {.c = c, .ar = ar, .power = out, .got = got};
    memset(out, 0, sizeof *out);
    sb_status status = bounds(&t, err);
    if (!status)
        status = room(c, &t.right);
    if (!status)
        status = room(c, &t.wrong);
    if (!status)
        status = sb_gate_exact(c, &ar->knobs, &sb_backend_ref()->ops, t.right.out);
    if (!status)
        status = plant_mistakes(&t);
    if (!status)
        status = plant_faults(&t);
    if (!status)
        plant_slips(&t);
    release(&t.right);
    release(&t.wrong);
    for (size_t o = 0; o < SB_GATE_OUTPUTS; o++)
        free(t.bound[o]);
    return status == SB_ERR_MEMORY ? sb_fail(err, status, "out of memory for planted mistakes")
                                   : status;
}

sb_status sb_gate_power_of(const sb_gate_case *c, const sb_gate_arith *ar, sb_gate_power *out,
                           sb_error *err)
{
    return sb_gate_power_in(c, ar, NULL, out, err);
}

void sb_gate_trust(const sb_gate_case *c, const sb_gate_power *power, sb_gate_result *r)
{
    size_t caught = power->of_ops ? power->of_ops_caught : power->caught;
    int zeros = power->zeros_pass && c->outputs && c->output[0].kind == SB_GATE_VALUES;
    if (r->verdict == SB_VERDICT_FAIL || r->verdict == SB_VERDICT_MISTRUSTED ||
        c->regime == SB_GATE_REGIME_zeros || (caught && !zeros))
        return;
    r->verdict = SB_VERDICT_MISTRUSTED;
    if (caught) {
        snprintf(r->words, sizeof r->words,
                 "on these inputs an output of zeros would pass: the output cannot be judged");
        return;
    }
    snprintf(
        r->words, sizeof r->words,
        "on these inputs none of %zu planted mistakes would be found: the output cannot be judged",
        power->of_ops ? power->of_ops : power->planted);
}
