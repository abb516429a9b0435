/* explain_place.c - where a mistake may be made, by the elements that failed. */
#include <stdio.h>
#include <string.h>

#include "tools/judge/compare/explain_parts.h"

sb_site explain_everywhere(void)
{
    return (sb_site){
        .layer = SB_EVERY_LAYER, .token = SB_NOWHERE, .expert = SB_NOWHERE, .round = SB_NOWHERE};
}

/* The name of a tap within its layer, which is the name of its op's call. */
static const char *within_layer(const char *name)
{
    const char *at = strstr(name, "layers.");
    if (!at)
        return name;
    const char *dot = strchr(at + strlen("layers."), '.');
    return dot ? dot + 1 : name;
}

/* True for ops of which a layer has several, each with one output. */
static int has_taps(sb_op op)
{
    return op == SB_OP_linear || op == SB_OP_rmsnorm || op == SB_OP_rope || op == SB_OP_add ||
           op == SB_OP_swiglu;
}

/* The kinds of the calls up to the failure. */
static unsigned kinds_of(const sb_keep *keep)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < keep->failed; i++)
        for (size_t r = 0; r < keep->steps[i].row_count; r++)
            kinds |= 1U << keep->steps[i].rows[r].kind;
    return kinds;
}

/* The expert of the first failed element, by the recorded choice of its token. */
static uint64_t expert_of(const explain_search *s, const sb_failing *f)
{
    char name[sizeof f->name + 16];
    const char *at = strstr(f->name, "experts.");
    const size_t k = s->model->config.experts_per_token;
    if (!at || f->state || !k || f->columns < k)
        return SB_NOWHERE;
    snprintf(name, sizeof name, "%.*srouter_ids", (int)(at - f->name), f->name);
    size_t slot = (size_t)(f->column[0] / (f->columns / k));
    for (size_t i = 0; i < s->keep->failed; i++) {
        const sb_step *step = &s->keep->steps[i];
        const sb_step_value *ids = sb_step_find(&step->taps, name);
        for (size_t r = 0; r < step->row_count && ids && ids->data && ids->cols == k; r++)
            if (step->rows[r].position == f->token[0] && r < ids->rows && slot < k &&
                ids->data[r * k + slot] >= 0)
                return (uint64_t)ids->data[r * k + slot];
    }
    return SB_NOWHERE;
}

typedef struct list {
    sb_site *out;
    size_t count;
} list;

static void add(list *l, sb_site place)
{
    if (l->count < EXPLAIN_PLACES)
        l->out[l->count++] = place;
}

/* Adds a place in its narrower forms: in the kinds of calls that failed, or for one token. */
static void add_forms(list *l, sb_site place, const sb_failing *f, int few, int one)
{
    add(l, place);
    sb_site narrow = place;
    narrow.kinds = f->kinds;
    if (few)
        add(l, narrow);
    narrow = place;
    narrow.token = f->token[0];
    if (one)
        add(l, narrow);
}

/* True if the op failed at one tap of this layer alone. */
static int is_alone(const sb_failing *f, const sb_verdicts *v)
{
    for (size_t i = 0; i < v->failing_count; i++)
        if (v->failing[i].op == f->op && v->failing[i].layer == f->layer &&
            strcmp(v->failing[i].name, f->name) != 0)
            return 0;
    return 1;
}

size_t explain_places(const explain_search *s, const sb_failing *f, const sb_verdicts *seen,
                      sb_site out[EXPLAIN_PLACES])
{
    const sb_config *c = &s->model->config;
    const size_t parts[] = {c->heads,    c->lin_v_heads, 8, c->experts_per_token,
                            c->kv_heads, c->lin_k_heads, 3, 2};
    list l = {.out = out};
    sb_site place = explain_everywhere();
    place.layer = f->layer;
    if (has_taps(f->op) && !f->state && is_alone(f, seen))
        snprintf(place.tap, sizeof place.tap, "%.47s", within_layer(f->name));
    const int few = (kinds_of(s->keep) & ~f->kinds) != 0;
    const int one = f->token[0] == f->token[1] && f->layer != c->layers && !f->state &&
                    strncmp(f->name, "mtp.", 4) != 0;
    add_forms(&l, place, f, few, one);
    const int divided = f->columns && !(f->state && f->op == SB_OP_conv);
    for (size_t i = 0; divided && i < sizeof parts / sizeof *parts; i++) {
        int known = parts[i] < 2;
        for (size_t j = 0; j < i; j++)
            known |= parts[j] == parts[i];
        uint64_t first = f->column[0] * parts[i] / f->columns;
        if (known || first != f->column[1] * parts[i] / f->columns)
            continue;
        sb_site in_part = place;
        in_part.part = (size_t)first;
        in_part.parts = parts[i];
        add_forms(&l, in_part, f, few, one);
    }
    place.expert = expert_of(s, f);
    if (place.expert != SB_NOWHERE)
        add_forms(&l, place, f, few, one);
    return l.count;
}

sb_site explain_narrowed(const sb_site *place, const sb_failing *f, const sb_verdicts *v)
{
    sb_site narrow = *place;
    for (size_t i = 0; i < v->failing_count; i++) {
        const sb_failing *other = &v->failing[i];
        if (other->op != f->op || other->state != f->state)
            continue;
        if (other->layer != f->layer)
            narrow.layer = SB_EVERY_LAYER;
        if (strcmp(within_layer(other->name), within_layer(f->name)) != 0)
            narrow.tap[0] = '\0';
    }
    return narrow;
}
