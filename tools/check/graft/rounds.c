/* rounds.c - adds and removes rules until a document declares every layer as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/model/held.h"
#include "tools/check/graft/config.h"

enum { ROUNDS = 6, NAME = SB_MAX_TENSOR_NAME };

/* The declaration in one document alone. */
static sb_status declared_of(const sb_graft_doc *doc, int which, sb_declared **out, sb_error *err)
{
    char *text = sb_json_dumps(doc->root, 0);
    if (!text)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a configuration");
    const sb_declared_file file = {doc->path, text, strlen(text)};
    sb_status status = sb_declared_parse(which == SB_DOC_CONFIG ? &file : NULL,
                                         which == SB_DOC_HF_QUANT ? &file : NULL,
                                         which == SB_DOC_QUANTIZATION ? &file : NULL, out, err);
    free(text);
    return status;
}

/* --- declared and stored ---------------------------------------------------------------------- */

/* The declaration of a taken layer must equal that in the other folder, because it says more than
 * the tensors, for example about inputs. If nothing was declared there, the scales that the
 * declaration requires must exist. */
static int says_the_same(const sb_graft_config *c, const sb_graft_layer *l)
{
    const sb_declaration *d = &l->now;
    const sb_declaration theirs = sb_graft_theirs(c, l->name);
    int inputs = l->found.part[SB_PART_input_scale] || l->found.part[SB_PART_input_global_scale];
    if (d->answer != SB_DECLARED_YES || l->found.container == SB_CONTAINER_plain)
        return 1;
    if (theirs.answer == SB_DECLARED_YES && sb_declaration_agrees(&theirs, &l->found))
        return d->strategy == theirs.strategy && d->activation == theirs.activation &&
               d->group_size == theirs.group_size && d->block_rows == theirs.block_rows &&
               d->block_cols == theirs.block_cols && d->symmetric == theirs.symmetric &&
               d->act_order == theirs.act_order;
    /* W-16: blocks with renamed scales; their kinds do not tell blocks from channels */
    if (theirs.answer == SB_DECLARED_YES && l->found.container == SB_CONTAINER_fp8_block_ct)
        return d->strategy == SB_STRATEGY_BLOCK && d->block_rows == theirs.block_rows &&
               d->block_cols == theirs.block_cols;
    return inputs || (d->activation != SB_ACTIVATION_STATIC_TENSOR &&
                      d->activation != SB_ACTIVATION_NVFP4_LOCAL);
}

/* Taken layers need an answer, unless the dialect cannot give one. */
static int is_settled(const sb_graft_config *c, const sb_graft_layer *l, sb_dialect dialect)
{
    int open = l->now.answer == SB_DECLARED_UNKNOWN;
    if (l->hybrid)
        return l->now.answer == SB_DECLARED_NO;
    if (l->taken && l->found.zeros_open && l->now.packing == SB_PACKED_GPTQ_V2)
        return 0;
    if (open && l->taken && dialect != SB_DIALECT_awq)
        return 0;
    return sb_declaration_agrees(&l->now, &l->found) && (!l->taken || says_the_same(c, l));
}

/* W-5: "Engines ask about a stack by the names of its single experts". So the
 * declaration of single experts counts if that of the stack is not "yes". */
static sb_status look_at(sb_graft_layer *l, const sb_declared *declared, sb_error *err)
{
    char experts[NAME], one[NAME + 32];
    sb_declaration d;
    sb_status status = sb_declared_for(declared, l->name, &l->now, err);
    if (status || !l->taken || !l->found.experts || l->now.answer == SB_DECLARED_YES ||
        !sb_graft_experts(l->name, experts, sizeof experts))
        return status;
    snprintf(one, sizeof one, "%s.0.%s", experts,
             strstr(l->name, ".down_proj") ? "down_proj" : "gate_proj");
    status = sb_declared_for(declared, one, &d, err);
    if (!status && d.answer == SB_DECLARED_YES)
        l->now = d;
    return status;
}

sb_status sb_graft_look(sb_graft_config *c, const sb_declared *declared, size_t *open,
                        sb_error *err)
{
    sb_status status = SB_OK;
    *open = 0;
    for (size_t i = 0; i < c->layer_count && !status; i++) {
        sb_graft_layer *l = &c->layers[i];
        status = look_at(l, declared, err);
        *open += l->due &&
                 !is_settled(c, l, declared ? sb_declared_dialect(declared) : SB_DIALECT_COUNT);
    }
    return status;
}

/* True if all layers with this prefix have the same container and are all hybrid or all not. */
static int all_alike(const sb_graft_config *c, const char *begin)
{
    size_t n = strlen(begin);
    const sb_graft_layer *first = NULL;
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i];
        if (strncmp(l->name, begin, n) != 0)
            continue;
        first = first ? first : l;
        if (l->found.container != first->found.container || l->hybrid != first->hybrid)
            return 0;
    }
    return 1;
}

static int is_plain(const sb_graft_layer *l)
{
    return l->found.container == SB_CONTAINER_plain || l->hybrid;
}

/* W-5: "one rule for the whole head, one for all experts of a layer, else the full name" */
static sb_status exclude(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *l, int round,
                         char said[NAME + 1], sb_error *err)
{
    char group[NAME + 1];
    int experts = sb_graft_experts(l->name, group, NAME);
    if (experts)
        strcat(group, ".");
    sb_name_kind kind = SB_NAME_exact;
    if (round == 0 && doc->dialect != SB_DIALECT_fp8 && strncmp(l->name, "mtp.", 4) == 0 &&
        all_alike(c, "mtp.")) {
        kind = SB_NAME_head;
        strcpy(group, "mtp.");
    } else if (round <= 1 && experts && all_alike(c, group)) {
        kind = SB_NAME_experts;
    }
    if (kind == SB_NAME_exact)
        return sb_graft_exclude(c, doc, l->name, kind, err);
    if (strcmp(group, said) == 0)
        return SB_OK;
    strcpy(said, group); /* both have the same size */
    if (kind == SB_NAME_experts)
        group[strlen(group) - 1] = '\0';
    return sb_graft_exclude(c, doc, group, kind, err);
}

static sb_status include(sb_graft_config *c, sb_graft_doc *doc, sb_graft_layer *l, int round,
                         sb_error *err)
{
    char experts[NAME + 1];
    int done, whole = 0;
    if (!sb_graft_can(c, doc, l)) {
        l->hybrid = 1;
        return SB_OK;
    }
    if (l->now.answer == SB_DECLARED_NO && sb_graft_drop_rule(c, doc, l->now.rule))
        return SB_OK;
    if (round <= 1 && sb_graft_experts(l->name, experts, NAME)) {
        strcat(experts, ".");
        whole = all_alike(c, experts);
    }
    sb_status status = sb_graft_include(c, doc, l, whole, &done, err);
    l->hybrid |= !status && !done;
    return status;
}

/* One round: adds a rule for each layer with a wrong declaration. Removed rules may have covered
 * other layers, so there are several rounds. */
static sb_status change(sb_graft_config *c, sb_graft_doc *doc, int round, sb_error *err)
{
    char said[NAME + 1] = "";
    sb_status status = SB_OK;
    for (size_t i = 0; i < c->layer_count && !status; i++) {
        sb_graft_layer *l = &c->layers[i];
        if (!l->due || is_settled(c, l, doc->dialect))
            continue;
        if (!is_plain(l))
            status = include(c, doc, l, round, err);
    }
    for (size_t i = 0; i < c->layer_count && !status; i++) {
        sb_graft_layer *l = &c->layers[i];
        if (l->due && is_plain(l) && !is_settled(c, l, doc->dialect))
            status = exclude(c, doc, l, round, said, err);
    }
    sb_graft_compact(doc);
    return status;
}

sb_status sb_graft_not_said(const sb_graft_config *c, const sb_graft_doc *doc, sb_error *err)
{
    sb_declared_text room;
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i];
        if (l->due && !is_settled(c, l, doc->dialect))
            return sb_fail(err, SB_ERR_UNSUPPORTED,
                           "%s: layer %s would be stored as %s, but declared as: %s (%s); the "
                           "graft was not made",
                           SB_SHOW(doc->path), SB_SHOW(l->name),
                           sb_container_name(l->found.container),
                           sb_declaration_text(&l->now, &room), l->now.rule);
    }
    return SB_OK;
}

sb_status sb_graft_edit(sb_graft_config *c, int which, sb_error *err)
{
    sb_graft_doc *doc = &c->doc[which];
    sb_declared *declared = NULL;
    size_t open = 1;
    sb_status status = SB_OK;
    for (int round = 0; round < ROUNDS && open && !status; round++) {
        status = declared_of(doc, which, &declared, err);
        if (status)
            break;
        if (!declared)
            return SB_OK;
        doc->dialect = sb_declared_dialect(declared);
        for (size_t i = 0; i < c->layer_count && round == 0; i++)
            c->layers[i].due = 1;
        status = sb_graft_look(c, declared, &open, err);
        for (size_t i = 0; i < c->layer_count && round == 0 && !c->adopted; i++)
            c->layers[i].due = c->layers[i].taken || is_settled(c, &c->layers[i], doc->dialect);
        if (!status && round == 0)
            open = 1;
        if (!status && open)
            status =
                round + 1 < ROUNDS ? change(c, doc, round, err) : sb_graft_not_said(c, doc, err);
        sb_declared_free(declared);
        declared = NULL;
    }
    return status;
}
