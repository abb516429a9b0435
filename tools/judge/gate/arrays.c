/* arrays.c - the arrays of a case, from its op's list. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/gate/whole.h"

static unsigned rank_of(const sb_gate_member *m)
{
    unsigned rank = 1;
    for (const char *at = m->axes; (at = strchr(at, ',')); at++)
        rank++;
    return rank;
}

static size_t count_of(const sb_gate_member *m)
{
    size_t count = 1;
    for (unsigned d = 0; d < rank_of(m); d++)
        count *= (size_t)m->shape[d];
    return count;
}

/* is_there: the list has an input i. is_own: the list describes the input, so `add` does not make
 * it. */
static int is_there(const sb_gate_list *list, size_t i)
{
    return i < SB_GATE_MEMBERS && list->input[i].name;
}

static int is_own(const sb_gate_member *m)
{
    return *m->name != 0;
}

static void free_values(float *const values[SB_GATE_MEMBERS])
{
    for (size_t i = 0; i < SB_GATE_MEMBERS; i++)
        free(values[i]);
}

/* --- outputs ---------------------------------------------------------------------------------- */

static sb_status expect(sb_gate_case *c, const sb_gate_member *m)
{
    sb_gate_output *y = &c->output[c->outputs];
    uint64_t bytes = 0;
    *y = (sb_gate_output){.name = m->name,
                          .kind = m->choices ? SB_GATE_CHOICES : SB_GATE_VALUES,
                          .distinct = m->distinct,
                          .axes = m->axes,
                          .rank = rank_of(m)};
    if (sb_dtype_bytes(SB_DTYPE_F64, y->rank, m->shape, &bytes, NULL))
        return SB_ERR_MEMORY;
    memcpy(y->shape, m->shape, sizeof y->shape);
    y->count = count_of(m);
    y->real = sb_alloc(y->count, sizeof *y->real);
    y->exact = sb_alloc(y->count, sizeof *y->exact);
    c->outputs++;
    return y->real && y->exact ? SB_OK : SB_ERR_MEMORY;
}

static sb_status expect_all(sb_gate_case *c, const sb_gate_list *list)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < SB_GATE_OUTPUTS && list->output[i].name && !status; i++)
        status = expect(c, &list->output[i]);
    return status;
}

/* --- inputs that are drawn -------------------------------------------------------------------- */

static sb_status draw_all(const sb_gate_case *c, const sb_gate_list *list, float *x[])
{
    for (size_t i = 0; is_there(list, i); i++) {
        const sb_gate_member *m = &list->input[i];
        if (!is_own(m))
            continue;
        const size_t cols = (size_t)m->shape[rank_of(m) - 1];
        x[i] = sb_alloc(count_of(m), sizeof *x[i]);
        if (!x[i])
            return SB_ERR_MEMORY;
        sb_gate_draw_in(c, m->normal ? SB_GATE_REGIME_normal : c->regime, m->name, m->role,
                        count_of(m) / cols, cols, x[i]);
    }
    if (c->op->adapt)
        c->op->adapt(c, x);
    return SB_OK;
}

static sb_status add_all(sb_gate_case *c, const sb_gate_list *list, float *const x[], sb_error *err)
{
    sb_status status = SB_OK;
    int more = c->op->add != NULL;
    for (size_t i = 0; is_there(list, i) && !status; i++) {
        const sb_gate_member *m = &list->input[i];
        if (!is_own(m)) {
            more = 0;
            status = c->op->add(c, err);
        } else if (m->typing >= SB_GATE_F32_MADE)
            status = sb_gate_add_singles(c, m->name, m->axes, rank_of(m), m->shape, x[i]);
        else
            status = sb_gate_add_values(c, m->name, m->axes, rank_of(m), m->shape, x[i]);
    }
    return more && !status ? c->op->add(c, err) : status;
}

sb_status sb_gate_make(sb_gate_case *c, sb_error *err)
{
    float *x[SB_GATE_MEMBERS] = {NULL};
    sb_status status = c->op->check ? c->op->check(c, err) : SB_OK;
    if (status)
        return status;
    const sb_gate_list list = c->op->list(c);
    status = draw_all(c, &list, x);
    if (!status)
        status = add_all(c, &list, x, err);
    free_values(x);
    return status ? status : expect_all(c, &list);
}

/* --- inputs of a file ------------------------------------------------------------------------- */

static sb_status need(const sb_gate_case *c, const sb_gate_member *m, sb_error *err)
{
    sb_status status = sb_gate_need(c, m->name, rank_of(m), m->shape, err);
    if (!status && m->typing == SB_GATE_TYPED)
        status = sb_gate_need_type(c, m->name, c->input, err);
    if (!status && m->typing == SB_GATE_F32)
        status = sb_gate_need_type(c, m->name, SB_DTYPE_F32, err);
    if (!status && m->typing != SB_GATE_TYPED)
        status = sb_gate_need_finite(c, m->name, m->finite ? (size_t)m->finite : count_of(m), err);
    return status;
}

sb_status sb_gate_declare(sb_gate_case *c, sb_error *err)
{
    sb_status status = c->op->check ? c->op->check(c, err) : SB_OK;
    if (status)
        return status;
    const sb_gate_list list = c->op->list(c);
    for (size_t i = 0; is_there(&list, i) && !status; i++)
        if (is_own(&list.input[i]))
            status = need(c, &list.input[i], err);
    if (!status && c->op->need)
        status = c->op->need(c, err);
    return status ? status : expect_all(c, &list);
}

/* --- values computed from the inputs ---------------------------------------------------------- */

static sb_status open_values(const sb_gate_case *c, float *in[])
{
    const sb_gate_list list = c->op->list(c);
    sb_status status = SB_OK;
    for (size_t i = 0; is_there(&list, i) && !status; i++)
        if (is_own(&list.input[i])) {
            in[i] = sb_gate_values(c, list.input[i].name);
            status = in[i] ? SB_OK : SB_ERR_MEMORY;
        }
    return status;
}

sb_status sb_gate_exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                        float *const out[])
{
    float *in[SB_GATE_MEMBERS] = {NULL};
    sb_status status = open_values(c, in);
    if (!status)
        status = c->op->exact(c, in, knobs, ops, out);
    free_values(in);
    return status;
}

sb_status sb_gate_real(const sb_gate_case *c, sb_dd *const out[])
{
    float *in[SB_GATE_MEMBERS] = {NULL};
    sb_status status = open_values(c, in);
    if (!status)
        status = c->op->real(c, in, out);
    free_values(in);
    return status;
}

sb_status sb_gate_balls(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    float *in[SB_GATE_MEMBERS] = {NULL};
    sb_status status = open_values(c, in);
    if (!status)
        status = c->op->bound(c, in, ar, out);
    free_values(in);
    return status;
}
