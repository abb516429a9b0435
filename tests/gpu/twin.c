#include "tests/gpu/twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/ops/values.h"
#include "tools/cli/npy.h"

/* What both backends have written to a part. */
typedef struct part {
    twin_part of;
    uint32_t *before, *by_first; /* copies */
} part;

static void add(twin_part *parts, size_t *count, const char *name, void *at, size_t n, int is_float)
{
    if (at && n)
        parts[(*count)++] = (twin_part){name, at, n, is_float};
}

size_t twin_parts(sb_op op, const void *args, twin_part parts[TWIN_PARTS])
{
    const sb_op_values v = sb_op_values_of(op, args);
    size_t count = 0;
    for (size_t i = 0; i < v.outputs; i++)
        add(parts, &count, v.out[i].name, v.out[i].data ? (void *)v.out[i].data : v.out[i].ids,
            v.out[i].rows * v.out[i].cols, v.out[i].data != NULL);
    const size_t state = v.state.rows * v.state.cols;
    add(parts, &count, "state", v.state.data, state, 1);
    if (op == SB_OP_conv) {
        const sb_conv_args *a = args;
        add(parts, &count, "trail", a->trail, a->rows * state, 1);
    } else if (op == SB_OP_delta_rule || op == SB_OP_delta_rule_chunk) {
        const sb_delta_rule_args *a = args;
        add(parts, &count, "trail", a->trail, a->rows * state, 1);
    }
    return count;
}

static int same(const part *p, size_t i, uint32_t second)
{
    const float a = sb_f32_from_bits(p->by_first[i]), b = sb_f32_from_bits(second);
    return p->by_first[i] == second || (p->of.is_float && a != a && b != b);
}

static void note(twin *t, const sb_op_call *call, const char *words)
{
    if (t->differ++ == 0)
        snprintf(t->words, sizeof t->words, "%s, layer %d, %s (%s, %zu rows from %llu): %s",
                 sb_op_name((size_t)call->op), call->layer == SB_NO_LAYER ? -1 : (int)call->layer,
                 call->name, sb_call_kind_name(call->kind), call->rows,
                 (unsigned long long)call->position, words);
}

static void compare(twin *t, const sb_op_call *call, const part *p)
{
    const uint32_t *second = p->of.at;
    char words[200];
    for (size_t i = 0; i < p->of.count; i++)
        if (!same(p, i, second[i])) {
            snprintf(words, sizeof words, "%s[%zu] is %08x on %s and %08x on %s", p->of.name, i,
                     (unsigned)p->by_first[i], t->first->name, (unsigned)second[i],
                     t->second->name);
            note(t, call, words);
        }
    t->elements += p->of.count;
}

/* --- evidence --------------------------------------------------------------------------------- */
static sb_status save(const char *folder, const char *name, const char *of, const void *values,
                      size_t rows, size_t cols, size_t stride, sb_error *err)
{
    char path[512];
    sb_npy *npy = NULL;
    snprintf(path, sizeof path, "%s/%s.%s.npy", folder, name, of);
    sb_status status = sb_npy_begin(path, rows, cols, &npy, err);
    for (size_t r = 0; r < rows && !status; r++)
        status = sb_npy_append(npy, (const float *)values + r * stride, cols, err);
    if (!status)
        status = sb_npy_commit(npy, err);
    sb_npy_free(npy);
    return status;
}

/* Saves the inputs as they were before the op, and what both backends have written. A state is
 * among the parts. The bits of ids are saved as if they were floats. */
static sb_status save_all(const twin *t, const sb_op_call *call, const part *parts, size_t count,
                          sb_error *err)
{
    const sb_op_values v = sb_op_values_of(call->op, call->args);
    sb_status status = SB_OK;
    for (size_t i = 0; i < v.inputs && !status; i++)
        if (v.in[i].data && v.in[i].data != v.state.data)
            status = save(t->evidence, "in", v.in[i].name, v.in[i].data, v.in[i].rows, v.in[i].cols,
                          v.in[i].stride, err);
    for (size_t i = 0; i < count && !status; i++) {
        const part *p = &parts[i];
        const size_t n = p->of.count;
        status = save(t->evidence, p->of.name, "before", p->before, 1, n, n, err);
        status = status ? status
                        : save(t->evidence, p->of.name, t->first->name, p->by_first, 1, n, n, err);
        status = status ? status
                        : save(t->evidence, p->of.name, t->second->name, p->of.at, 1, n, n, err);
    }
    return status;
}

/* --- both backends ---------------------------------------------------------------------------- */
static sb_status both(twin *t, const sb_op_call *call, const part *parts, size_t count)
{
    sb_op_call other = *call;
    char words[200];
    const uint64_t before = t->differ;
    other.table = &t->second->ops;
    for (size_t i = 0; i < count; i++)
        memcpy(parts[i].before, parts[i].of.at, 4 * parts[i].of.count);
    sb_status status = sb_op_run(call);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        memcpy(parts[i].by_first, parts[i].of.at, 4 * parts[i].of.count);
        memcpy(parts[i].of.at, parts[i].before, 4 * parts[i].of.count);
    }
    const sb_status second = sb_op_run(&other);
    t->calls[call->op]++;
    if (second) {
        const char *why = t->second->why ? t->second->why() : NULL;
        snprintf(words, sizeof words, "%s fails: %.150s", t->second->name, why ? why : "");
        note(t, call, words);
    }
    for (size_t i = 0; i < count && !second; i++)
        compare(t, call, &parts[i]);
    if (t->evidence && before == 0 && t->differ)
        status = save_all(t, call, parts, count, call->err);
    for (size_t i = 0; i < count; i++)
        memcpy(parts[i].of.at, parts[i].by_first, 4 * parts[i].of.count);
    return status;
}

sb_status twin_hook(void *ctx, const sb_op_call *call)
{
    part parts[TWIN_PARTS];
    twin_part of[TWIN_PARTS];
    const size_t count = twin_parts(call->op, call->args, of);
    sb_status status = SB_OK;
    for (size_t i = 0; i < count; i++) {
        parts[i].of = of[i];
        parts[i].before = sb_alloc(of[i].count, 4);
        parts[i].by_first = sb_alloc(of[i].count, 4);
        if (!parts[i].before || !parts[i].by_first)
            status = SB_ERR_MEMORY;
    }
    if (!status)
        status = both(ctx, call, parts, count);
    for (size_t i = 0; i < count; i++) {
        free(parts[i].before);
        free(parts[i].by_first);
    }
    return status;
}

/* --- the digests of one backend ----------------------------------------------------------------- */
/* Every NaN counts as the same number: which NaN an operation makes depends on the machine. */
static void hash_part(sb_hash *hash, const twin_part *p)
{
    const uint32_t *bits = p->at;
    const float nan = sb_f32_from_bits(0x7fc00000);
    for (size_t i = 0; i < p->count; i++) {
        const float x = sb_f32_from_bits(bits[i]);
        sb_hash_f32(hash, p->is_float && x != x ? &nan : &x, 1);
    }
}

sb_status told_hook(void *ctx, const sb_op_call *call)
{
    told *t = ctx;
    twin_part parts[TWIN_PARTS];
    const int layer = call->layer == SB_NO_LAYER ? -1 : (int)call->layer;
    fprintf(t->out, "%s %zu+%zu layer %d %s ", sb_call_kind_name(call->kind),
            (size_t)call->position, call->rows, layer, call->name);
    t->calls++;
    fflush(t->out);
    const sb_status status = sb_op_run(call);
    if (status)
        return status;
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return SB_ERR_MEMORY;
    const size_t count = twin_parts(call->op, call->args, parts);
    for (size_t i = 0; i < count; i++)
        hash_part(hash, &parts[i]);
    fprintf(t->out, "%.8s\n", sb_hash_end(hash).hex);
    sb_hash_free(hash);
    return SB_OK;
}
