#include "tools/judge/fault/site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/args.h"
#include "ref/ops/values.h"
#include "ref/state/piece.h"

/* --- words ------------------------------------------------------------------------------------ */

static int read_kind(const char *name, unsigned *kinds)
{
    for (int kind = SB_CALL_prompt; kind <= SB_CALL_draft; kind++)
        if (strcmp(sb_call_kind_name((sb_call_kind)kind), name) == 0) {
            *kinds |= 1U << kind;
            return 1;
        }
    return 0;
}

static int read_word(const char *word, sb_site *s)
{
    char name[48];
    if (sscanf(word, "tap=%47s", s->tap) == 1)
        return 1;
    if (sscanf(word, "kind=%47s", name) == 1)
        return read_kind(name, &s->kinds);
    return sscanf(word, "layer=%" SCNu32, &s->layer) == 1 ||
           sscanf(word, "part=%zu/%zu", &s->part, &s->parts) == 2 ||
           sscanf(word, "token=%" SCNu64, &s->token) == 1 ||
           sscanf(word, "expert=%" SCNu64, &s->expert) == 1 ||
           sscanf(word, "round=%" SCNu64, &s->round) == 1;
}

sb_status sb_site_read(const char *words, sb_site *out, sb_error *err)
{
    char copy[120], *next = NULL;
    *out = (sb_site){
        .layer = SB_EVERY_LAYER, .token = SB_NOWHERE, .expert = SB_NOWHERE, .round = SB_NOWHERE};
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, " ", &next); w; w = strtok_r(NULL, " ", &next))
        if (!read_word(w, out))
            return sb_fail(err, SB_ERR_USAGE, "\"%s\" is not a site of a fault", w);
    return SB_OK;
}

static void add_word(char *words, size_t size, const char *name, const char *value)
{
    size_t used = strlen(words);
    snprintf(words + used, size - used, "%s%s=%s", used ? " " : "", name, value);
}

static void add_number(char *words, size_t size, const char *name, uint64_t value)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, value);
    if (value != SB_NOWHERE)
        add_word(words, size, name, number);
}

void sb_site_write(const sb_site *s, char *words, size_t size)
{
    char part[48];
    words[0] = '\0';
    if (s->layer < SB_EVERY_LAYER)
        add_number(words, size, "layer", s->layer);
    if (*s->tap)
        add_word(words, size, "tap", s->tap);
    snprintf(part, sizeof part, "%zu/%zu", s->part, s->parts);
    if (s->parts)
        add_word(words, size, "part", part);
    for (int kind = SB_CALL_prompt; kind <= SB_CALL_draft; kind++)
        if (s->kinds >> kind & 1)
            add_word(words, size, "kind", sb_call_kind_name((sb_call_kind)kind));
    add_number(words, size, "token", s->token);
    add_number(words, size, "expert", s->expert);
    add_number(words, size, "round", s->round);
}

/* --- ops -------------------------------------------------------------------------------------- */

/* An array that an op writes. `rows`: rows of the call that it holds; 0: the state after all rows.
 */
typedef struct written {
    void *now, *before, *right; /* 4-byte values; before: the values before the op ran */
    size_t count, rows, each;   /* each: groups in a row; each group has all parts */
} written;

enum { WRITTEN = SB_OP_OUTPUTS + 2 };

static size_t rows_of(const sb_op_call *call)
{
    return call->single ? 1 : call->rows;
}

/* Lists the outputs, the state, and the states after each row. */
static size_t written_by(const sb_op_call *call, written list[WRITTEN])
{
    const sb_op_values v = sb_op_values_of(call->op, call->args);
    const sb_arg *trail = sb_arg_find(call->op, "trail");
    size_t n = 0;
    for (size_t i = 0; i < v.outputs; i++) {
        const sb_op_value *o = &v.out[i];
        list[n++] = (written){.now = o->ids ? (void *)o->ids : (void *)o->data,
                              .count = o->rows * o->cols,
                              .rows = rows_of(call),
                              .each = 1};
    }
    if (!v.state.data)
        return n;
    /* in conv every column has all channels; in the delta rule the heads follow each other */
    size_t count = v.state.rows * v.state.cols, each = call->op == SB_OP_conv ? v.state.rows : 1;
    list[n++] = (written){.now = v.state.data, .count = count, .each = each};
    sb_any_args args;
    sb_args_copy(call->op, call->args, &args);
    float *at = trail ? *(float **)sb_arg_at(&args, trail) : NULL;
    if (at)
        list[n++] = (written){
            .now = at, .count = count * rows_of(call), .rows = rows_of(call), .each = each};
    return n;
}

/* True if value i of an array is inside the site. */
static int is_of(const sb_site *s, const sb_op_call *call, const written *w, size_t i)
{
    size_t rows = w->rows ? w->rows : 1, width = w->count / rows, row = i / width;
    size_t group = width / w->each, at = i % width % group;
    uint64_t position = call->position + (call->single ? call->row : row);
    if (s->token != SB_NOWHERE && (!w->rows || position != s->token))
        return 0;
    return !s->parts || at * s->parts / group == s->part;
}

static sb_status run_fault(sb_sited *sited, const sb_op_call *call)
{
    sb_op_call changed = *call;
    sited->ran++;
    if (!sited->table)
        return sb_plant_hook(&sited->plant, call);
    changed.table = sited->table;
    return sb_op_run(&changed);
}

/* Runs the op correctly, and then with the fault. */
static sb_status run_both(sb_sited *sited, const sb_op_call *call, written *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes = list[i].count * sizeof(float);
        list[i].before = sb_alloc(2, bytes);
        if (!list[i].before)
            return SB_ERR_MEMORY;
        list[i].right = (char *)list[i].before + bytes;
        memcpy(list[i].before, list[i].now, bytes);
    }
    sb_status status = sb_op_run(call);
    for (size_t i = 0; i < n; i++) {
        memcpy(list[i].right, list[i].now, list[i].count * sizeof(float));
        memcpy(list[i].now, list[i].before, list[i].count * sizeof(float));
    }
    return status ? status : run_fault(sited, call);
}

static sb_status run_at_site(sb_sited *sited, const sb_op_call *call)
{
    written list[WRITTEN] = {{.now = NULL}};
    size_t n = written_by(call, list);
    sb_status status = run_both(sited, call, list, n);
    for (size_t i = 0; i < n; i++) {
        for (size_t e = 0; e < list[i].count && !status; e++)
            if (!is_of(&sited->site, call, &list[i], e))
                memcpy((char *)list[i].now + e * 4, (char *)list[i].right + e * 4, 4);
        free(list[i].before);
    }
    return status;
}

/* Runs the router and keeps its choice for the ops of the experts. */
static sb_status route(sb_sited *sited, const sb_op_call *call)
{
    const sb_router_args *a = call->args;
    sb_status status = sb_op_run(call);
    uint32_t *ids = sb_realloc(sited->ids, a->rows * a->kept, sizeof *ids);
    if (!ids)
        return SB_ERR_MEMORY;
    memcpy(ids, a->ids, a->rows * a->kept * sizeof *ids);
    sited->ids = ids;
    sited->ids_count = a->rows * a->kept;
    sited->kept = a->kept;
    return status;
}

static int is_expert(const sb_sited *sited, const sb_op_call *call)
{
    size_t at = call->row * sited->kept + call->slot;
    return strncmp(call->name, "mlp.experts.", 12) == 0 && call->single && at < sited->ids_count &&
           sited->ids[at] == sited->site.expert;
}

static int has_token(const sb_site *s, const sb_op_call *call)
{
    if (s->token == SB_NOWHERE)
        return 1;
    return call->single ? call->position + call->row == s->token
                        : s->token >= call->position && s->token < call->position + call->rows;
}

int sb_sited_acts(const sb_sited *sited, const sb_op_call *call)
{
    const sb_site *s = &sited->site;
    if (call->op != (sited->table ? sited->op : sited->plant.fault->op))
        return 0;
    if ((s->layer != SB_EVERY_LAYER && s->layer != call->layer) ||
        (*s->tap && strcmp(s->tap, call->name) != 0))
        return 0;
    if ((s->kinds && !(s->kinds >> call->kind & 1)) || !has_token(s, call))
        return 0;
    return s->expert == SB_NOWHERE || is_expert(sited, call);
}

sb_status sb_sited_hook(void *ctx, const sb_op_call *call)
{
    sb_sited *sited = ctx;
    const sb_site *s = &sited->site;
    if (call->op == SB_OP_router && s->expert != SB_NOWHERE)
        return route(sited, call);
    if (!sb_sited_acts(sited, call))
        return sb_op_run(call);
    if (!s->parts && (s->token == SB_NOWHERE || call->single))
        return run_fault(sited, call);
    return run_at_site(sited, call);
}

sb_status sb_sited_again(sb_sited *sited, size_t n, const sb_op_call *call)
{
    sb_plant first = sited->plant;
    sited->plant = sited->again[n];
    sited->plant.fault = first.fault;
    sited->plant.layer = first.layer;
    sb_status status = sb_sited_hook(sited, call);
    sited->again[n] = sited->plant;
    sited->plant = first;
    return status;
}

void sb_sited_clear(sb_sited *sited)
{
    sb_plant_clear(&sited->plant);
    for (size_t i = 0; i < SB_SITED_AGAIN; i++)
        sb_plant_clear(&sited->again[i]);
    free(sited->ids);
    sited->ids = NULL;
}

/* --- states ----------------------------------------------------------------------------------- */

/* True if an element of a piece of the state is inside the site. */
static int holds(const sb_site *s, const sb_piece *p, size_t i)
{
    size_t count = (size_t)sb_piece_elements(p);
    size_t rows = p->kind == SB_PIECE_recurrent_state || p->rank < 2 ? 1 : (size_t)p->shape[0];
    size_t width = count / rows;
    int is_row = p->kind == SB_PIECE_keys || p->kind == SB_PIECE_values;
    if (s->layer != SB_EVERY_LAYER && s->layer != p->layer)
        return 0;
    if (s->token != SB_NOWHERE && (!is_row || i / width != s->token))
        return 0;
    return !s->parts || i % width * s->parts / width == s->part;
}

void sb_site_restore(const sb_site *site, const sb_state *before, sb_state *now)
{
    for (size_t i = 0; i < sb_state_pieces(now); i++) {
        sb_piece old = sb_state_piece(before, i), p = sb_state_piece(now, i);
        size_t count = (size_t)sb_piece_elements(&p);
        if (sb_piece_elements(&old) != count)
            continue;
        for (size_t e = 0; e < count; e++)
            if (!holds(site, &p, e))
                p.data[e] = old.data[e];
    }
}
