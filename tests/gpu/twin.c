#include "tests/gpu/twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/ops/values.h"

/* The arrays that an op writes: outputs, the state, the states after each row. */
typedef struct part {
    const char *name;
    void *at;
    size_t count;                /* elements of 4 bytes */
    uint32_t *before, *by_first; /* copies */
    int is_float;
} part;

enum { PARTS = SB_OP_OUTPUTS + 2 };

static void add(part *parts, size_t *count, const char *name, void *at, size_t n, int is_float)
{
    if (at && n)
        parts[(*count)++] = (part){.name = name, .at = at, .count = n, .is_float = is_float};
}

static size_t parts_of(sb_op op, const void *args, part parts[PARTS])
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
    return p->by_first[i] == second || (p->is_float && a != a && b != b);
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
    const uint32_t *second = p->at;
    char words[200];
    for (size_t i = 0; i < p->count; i++)
        if (!same(p, i, second[i])) {
            snprintf(words, sizeof words, "%s[%zu] is %08x on %s and %08x on %s", p->name, i,
                     (unsigned)p->by_first[i], t->first->name, (unsigned)second[i],
                     t->second->name);
            note(t, call, words);
        }
    t->elements += p->count;
}

static sb_status both(twin *t, const sb_op_call *call, const part *parts, size_t count)
{
    sb_op_call other = *call;
    char words[200];
    other.table = &t->second->ops;
    for (size_t i = 0; i < count; i++)
        memcpy(parts[i].before, parts[i].at, 4 * parts[i].count);
    const sb_status status = sb_op_run(call);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        memcpy(parts[i].by_first, parts[i].at, 4 * parts[i].count);
        memcpy(parts[i].at, parts[i].before, 4 * parts[i].count);
    }
    const sb_status second = sb_op_run(&other);
    t->calls[call->op]++;
    if (second) {
        const char *why = t->second->why ? t->second->why() : NULL;
        snprintf(words, sizeof words, "%s fails: %.150s", t->second->name, why ? why : "");
        note(t, call, words);
    }
    for (size_t i = 0; i < count; i++) {
        if (!second)
            compare(t, call, &parts[i]);
        memcpy(parts[i].at, parts[i].by_first, 4 * parts[i].count);
    }
    return SB_OK;
}

sb_status twin_hook(void *ctx, const sb_op_call *call)
{
    part parts[PARTS];
    const size_t count = parts_of(call->op, call->args, parts);
    sb_status status = SB_OK;
    for (size_t i = 0; i < count; i++) {
        parts[i].before = sb_alloc(parts[i].count, 4);
        parts[i].by_first = sb_alloc(parts[i].count, 4);
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
