/* forced_values.c - T-91: which values were judged, alone or inside a segment, and where a segment
 * begins and ends. */
#include "tools/judge/compare/forced_parts.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/mem.h"

struct forced_value {
    char name[96]; /* the tap */
    uint32_t layer;
    sb_op op;
    sb_way way;
};

static const char *where_of(const sb_forced *f, const forced_value *v)
{
    const sb_config *c = &f->model->config;
    if (strncmp(v->name, "mtp.", 4) == 0)
        return "MTP head";
    if (forced_is_drafter(v->name))
        return "drafter";
    if (v->layer >= c->layers)
        return "outside the layers";
    return c->layer_is_full[v->layer] ? "full attention" : "linear attention";
}

/* The name within the layer: behind "layers.N." or "mtp.layers.N.". */
static const char *within_layer(const char *name)
{
    unsigned layer;
    int length = 0;
    if (sscanf(name, "layers.%u.%n", &layer, &length) == 1 && length)
        return name + length;
    if (sscanf(name, "mtp.layers.%u.%n", &layer, &length) == 1 && length)
        return name + length;
    if (sscanf(name, "drafter.layers.%u.%n", &layer, &length) == 1 && length)
        return name + length;
    return name;
}

sb_status forced_add_value(sb_forced *f, const char *name, sb_op op, uint32_t layer, sb_way way,
                           uint32_t *number)
{
    forced_value *more = sb_grow(f->values, f->value_count, &f->value_room, sizeof *more);
    if (!more)
        return SB_ERR_MEMORY;
    f->values = more;
    *number = (uint32_t)f->value_count;
    f->values[f->value_count] = (forced_value){.layer = layer, .op = op, .way = way};
    snprintf(f->values[f->value_count].name, sizeof more->name, "%s", name);
    f->value_count++;
    return SB_OK;
}

void forced_set_way(sb_forced *f, uint32_t number, sb_way way)
{
    f->values[number].way = way;
}

void forced_reach(sb_forced *f, const sb_marks *waiting)
{
    for (size_t i = 0; i < waiting->count; i++)
        f->values[waiting->ids[i]].way = SB_WAY_inside;
}

const char *forced_value_name(const sb_forced *f, uint32_t number)
{
    return number < f->value_count ? f->values[number].name : "";
}

sb_status forced_end_values(sb_forced *f)
{
    int good = 1;
    for (size_t i = 0; i < f->value_count; i++) {
        const forced_value *v = &f->values[i];
        good = good && sb_verdicts_count(f->options.verdicts, within_layer(v->name), where_of(f, v),
                                         v->op, v->way);
    }
    f->value_count = 0;
    return good ? SB_OK : SB_ERR_MEMORY;
}

const float *forced_origin(const sb_forced *f, const sb_op_call *call, const sb_op_value *in)
{
    const sb_attention_args *a = call->args;
    if (strcmp(in->name, "shared_logit") == 0)
        return f->shared_logits ? f->shared_logits + call->row : NULL;
    if (call->op != SB_OP_attention || strcmp(in->name, "q") == 0)
        return in->data;
    return strcmp(in->name, "keys") == 0 ? a->keys + a->first * in->cols : f->cached_values;
}

sb_status forced_trace_back(const sb_forced *f, const sb_op_call *call, sb_known *made)
{
    sb_op_values v = sb_op_values_of(call->op, call->args);
    uint32_t first = SB_NO_VALUE, last = SB_NO_VALUE;
    sb_status status = SB_OK;
    for (size_t i = 0; i < v.inputs && !status; i++) {
        const sb_known *in =
            v.in[i].ids ? NULL : sb_known_find(&f->known, forced_origin(f, call, &v.in[i]));
        if (!in || in->source == SB_NO_VALUE)
            continue;
        status = sb_marks_join(&made->waiting, &in->waiting);
        if (in->waiting.count && in->source < first)
            first = in->source;
        if (last == SB_NO_VALUE || in->source > last)
            last = in->source;
    }
    made->source = made->waiting.count ? first : last;
    return status;
}
