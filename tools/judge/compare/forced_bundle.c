/* forced_bundle.c - the calls that make the current tap, kept until it is judged. If one fails, its
 * bundle is written from them. */
#include "tools/judge/compare/forced_bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

void forced_clear_kept(struct forced_kept *k)
{
    for (size_t i = 0; i < SB_OP_INPUTS; i++)
        free(k->copy[i]);
    *k = (struct forced_kept){.copy = {NULL}};
}

void forced_drop_kept(sb_forced *f)
{
    for (size_t i = 0; i < f->kept_count; i++)
        forced_clear_kept(&f->kept_calls[i]);
    free(f->kept_calls);
    f->kept_calls = NULL;
    f->kept_count = 0;
}

static int overwritten(const sb_op_values *v, const float *input)
{
    for (size_t i = 0; i < v->outputs; i++)
        if (v->out[i].data == input)
            return 1;
    return v->state.data == input;
}

/* Replaces the argument that points to an input. */
static void replace(struct forced_kept *k, const float *old, float *copy)
{
    const sb_arg_list list = sb_args_of(k->call.op);
    for (size_t i = 0; i < list.count; i++) {
        const float **member = sb_arg_at(&k->args, &list.args[i]);
        if (sb_arg_is_read(&list.args[i]) && *member == old)
            *member = copy;
    }
}

sb_status forced_keep_call(struct forced_kept *k, const sb_op_call *call, int all)
{
    *k = (struct forced_kept){.call = *call};
    sb_args_copy(call->op, call->args, &k->args);
    sb_op_values v = sb_op_values_of(call->op, call->args);
    for (size_t i = 0; i < v.inputs; i++) {
        const sb_op_value *in = &v.in[i];
        if (!in->data || in->rows == 0 || (!all && !overwritten(&v, in->data)))
            continue;
        size_t count = (in->rows - 1) * in->stride + in->cols;
        k->copy[i] = sb_alloc(count, sizeof(float));
        if (!k->copy[i])
            return SB_ERR_MEMORY;
        memcpy(k->copy[i], in->data, count * sizeof(float));
        replace(k, in->data, k->copy[i]);
    }
    return SB_OK;
}

sb_status forced_keep(sb_forced *f, const sb_op_call *call)
{
    if (!f->options.bundle)
        return SB_OK;
    sb_status status = forced_keep_state(f, call);
    if (f->replay || status)
        return status;
    const sb_op_call *last = f->kept_count ? &f->kept_calls[f->kept_count - 1].call : NULL;
    if (!last || !call->single || last->name != call->name || last->layer != call->layer)
        forced_drop_kept(f);
    struct forced_kept *more = sb_realloc(f->kept_calls, f->kept_count + 1, sizeof *f->kept_calls);
    if (!more)
        return SB_ERR_MEMORY;
    f->kept_calls = more;
    return forced_keep_call(&more[f->kept_count++], call, 0);
}

/* The kept call whose output contains an element, and that output. Compares with the address of the
 * original array, even if an input of the same array was replaced by a copy. */
static const struct forced_kept *find(const sb_forced *f, const float *p, sb_op_value *out)
{
    for (size_t i = 0; i < f->kept_count; i++) {
        const struct forced_kept *k = &f->kept_calls[i];
        sb_op_values v = sb_op_values_of(k->call.op, &k->args);
        for (size_t j = 0; j < v.outputs && j < SB_OP_OUTPUTS; j++) {
            *out = v.out[j];
            if (k->call.op == SB_OP_rope) /* rope works in place, and is the only op of its tap */
                out->data = (float *)(uintptr_t)sb_known_find(&f->known, p)->base;
            if (out->data && p >= out->data && p < out->data + out->rows * out->cols)
                return k;
        }
    }
    return NULL;
}

void forced_no_bundle(const sb_forced *f, const sb_place *place, const char *why)
{
    snprintf(f->options.verdicts->unbundled, sizeof f->options.verdicts->unbundled, "%.90s %.200s",
             place->name, why);
}

sb_status forced_write_bundle(sb_forced *f, const sb_place *place, const struct forced_kept *k,
                              const sb_bundle_source *from, sb_error *err)
{
    sb_op_call call = k->call;
    sb_bundle_source source = *from;
    call.args = &k->args;
    source.call = &call;
    source.place = place;
    source.arithmetic = f->options.arithmetic->name;
    sb_status status = sb_bundle_write(f->options.bundle, &source, err);
    if (!status) {
        memcpy(f->options.verdicts->bundled, place->words, sizeof place->words);
        f->options.verdicts->unbundled[0] = '\0';
    }
    return status;
}

sb_status forced_bundle(sb_forced *f, const sb_place *place, const sb_known *from,
                        const float *expected, const float *recorded, sb_error *err)
{
    sb_op_value out;
    const struct forced_kept *k = find(f, expected, &out);
    if (!k) {
        forced_no_bundle(f, place, "comes from a call that is no longer in memory");
        return SB_OK;
    }
    size_t count = out.rows * out.cols, at = (size_t)(expected - out.data);
    size_t first = (size_t)(out.data - from->base);
    double *bound = sb_alloc(count, sizeof *bound);
    if (!bound)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a bundle");
    for (size_t i = 0; i < count && first + i < from->count; i++)
        bound[i] =
            SB_BOUND_SLACK * sb_ball_distance(from->ours[first + i], from->theirs[first + i]);
    const sb_bundle_source source = {.output = out.name,
                                     .rows = out.rows,
                                     .cols = out.cols,
                                     .row = at / out.cols,
                                     .column = at % out.cols,
                                     .expected = out.data,
                                     .recorded = recorded - at,
                                     .bound = bound};
    sb_status status = forced_write_bundle(f, place, k, &source, err);
    free(bound);
    return status;
}

sb_status forced_bundle_choice(sb_forced *f, const sb_place *place, const sb_router_args *a,
                               const float *recorded, const double *bound, sb_error *err)
{
    const struct forced_kept *k = f->kept_count ? &f->kept_calls[f->kept_count - 1] : NULL;
    size_t count = a->rows * a->kept;
    float *ids = sb_alloc(2 * count, sizeof *ids);
    if (!k || k->call.op != SB_OP_router || !ids) {
        free(ids);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a bundle");
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = (float)a->ids[i];
    memcpy(ids + count, recorded, count * sizeof *ids);
    sb_bundle_align("ids", ids, ids + count, a->rows, a->kept);
    const sb_bundle_source source = {.output = "ids",
                                     .rows = a->rows,
                                     .cols = a->kept,
                                     .expected = ids,
                                     .recorded = ids + count,
                                     .bound = bound};
    sb_status status = forced_write_bundle(f, place, k, &source, err);
    free(ids);
    return status;
}
