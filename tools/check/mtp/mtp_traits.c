#include <string.h>

#include "tools/check/mtp/mtp_parts.h"

/* In the order of the report: the name of a part, and a text that the names of its units contain.
 * sb_mtp_part_of tries the texts in another order. */
static const struct {
    const char *name, *holds;
} parts[SB_MTP_PARTS] = {
    {"fc", "mtp.fc"},
    {"attention", "_proj"}, /* projections that do not belong to an MLP */
    {"router", ".mlp.gate"},
    {"shared_expert_gate", ".shared_expert_gate"},
    {"shared_expert", ".shared_expert."},
    {"experts", ".experts."},
    {"dense", ".mlp."},
    {"norms", "norm"},
};

enum { FC, ATTENTION, ROUTER, SHARED_GATE, SHARED, EXPERTS, DENSE, NORMS };

static int is_projection_of_mlp(const char *name)
{
    return strstr(name, ".mlp.") != NULL && strstr(name, "_proj") != NULL;
}

unsigned sb_mtp_part_of(const char *name)
{
    static const unsigned order[] = {FC, SHARED_GATE, SHARED, EXPERTS, NORMS};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (strstr(name, parts[order[i]].holds))
            return order[i];
    if (is_projection_of_mlp(name))
        return DENSE;
    if (strstr(name, parts[ROUTER].holds))
        return ROUTER;
    return strstr(name, parts[ATTENTION].holds) ? ATTENTION : SB_MTP_PARTS;
}

static sb_container container_of(const sb_unit *unit)
{
    return unit->tensor ? SB_CONTAINER_plain : unit->found.container;
}

static void add_to_part(const sb_unit *unit, sb_mtp_part *part)
{
    sb_container container = container_of(unit);
    if (part->modules++ == 0)
        part->container = container;
    else if (container != part->container)
        part->mixed = 1;
    part->stacked |= unit->found.experts > 0;
}

static void look_at_head(const sb_unit *unit, sb_mtp_audit *audit, sb_mtp_traits *t,
                         sb_container *first)
{
    unsigned p = sb_mtp_part_of(unit->name);
    sb_container container = container_of(unit);
    if (p == SB_MTP_PARTS)
        return;
    add_to_part(unit, &audit->parts[p]);
    t->head_plain = t->head_plain && container == SB_CONTAINER_plain;
    if (p != SHARED && p != EXPERTS)
        return;
    t->uniform = t->uniform && (*first == SB_CONTAINER_COUNT || container == *first);
    *first = container;
}

static void look_at_trunk(const sb_unit *unit, sb_mtp_traits *t)
{
    sb_container container = container_of(unit);
    if (unit->tensor || container == SB_CONTAINER_COUNT)
        return;
    t->quantized |= container != SB_CONTAINER_plain;
    if (strstr(unit->name, ".linear_attn.in_proj_"))
        t->linear_attention_plain = t->linear_attention_plain && container == SB_CONTAINER_plain;
    if (is_projection_of_mlp(unit->name) && !strstr(unit->name, ".shared_expert"))
        t->trunk = container;
}

/* Whether the configuration excludes a module of the head, and whether the rule names the
 * module. */
static sb_status ask(const sb_check *check, const char *module, int *excluded, int *by_name,
                     sb_error *err)
{
    sb_declaration answer;
    const char *last = strrchr(module, '.');
    sb_status status = sb_declared_for(check->self.declared, module, &answer, err);
    if (status == SB_ERR_MEMORY)
        return status;
    *excluded = !status && answer.answer != SB_DECLARED_YES;
    *by_name = !status && answer.answer == SB_DECLARED_NO && strstr(answer.rule, last + 1) != NULL;
    return SB_OK;
}

static sb_status look_at_declaration(const sb_check *check, sb_mtp_traits *t, sb_error *err)
{
    int by_name;
    t->dialect = SB_DIALECT_COUNT;
    t->fc_excluded = t->experts_excluded = 1;
    if (!check->self.declared)
        return SB_OK;
    t->dialect = sb_declared_dialect(check->self.declared);
    sb_status status = ask(check, "mtp.fc", &t->fc_excluded, &by_name, err);
    if (!status)
        status =
            ask(check, "mtp.layers.0.mlp.experts.0.down_proj", &t->experts_excluded, &by_name, err);
    int excluded;
    if (!status)
        status = ask(check, "mtp.layers.0.self_attn.q_proj", &excluded, &t->by_projection, err);
    return status;
}

sb_status sb_mtp_traits_of(const sb_check *check, sb_mtp_audit *audit, sb_mtp_traits *out,
                           sb_error *err)
{
    const sb_units *u = &check->self.units;
    const sb_config *config = &check->self.config;
    sb_container first = SB_CONTAINER_COUNT;
    *out = (sb_mtp_traits){
        .head_plain = 1, .uniform = 1, .linear_attention_plain = 1, .trunk = SB_CONTAINER_COUNT};
    for (unsigned p = 0; p < SB_MTP_PARTS; p++)
        audit->parts[p] = (sb_mtp_part){.name = parts[p].name, .container = SB_CONTAINER_COUNT};
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].region == SB_REGION_mtp)
            look_at_head(&u->rows[i], audit, out, &first);
        else if (u->rows[i].region == SB_REGION_trunk)
            look_at_trunk(&u->rows[i], out);
    out->present = audit->tensors > 0;
    out->moe = check->self.has_config ? config->experts > 0 : audit->parts[EXPERTS].modules > 0;
    out->stacked = audit->parts[EXPERTS].stacked;
    out->attention_plain = audit->parts[ATTENTION].container == SB_CONTAINER_plain;
    out->fc_plain = audit->parts[FC].container == SB_CONTAINER_plain;
    out->head_experts = audit->parts[EXPERTS].container;
    out->shared_is_routed =
        check->self.has_config && config->shared_intermediate == config->moe_intermediate;
    return look_at_declaration(check, out, err);
}

static const sb_loader_fault faults[] = {
#define SB_LOADER_FAULT(engine, versions, reference, dated, verified, fits, what, layout)          \
    {engine, versions, reference, dated, verified, what, layout},
#include "tools/check/mtp/loader_faults.def"
#undef SB_LOADER_FAULT
};

static int is_of(const sb_mtp_engine *engine, const sb_loader_fault *fault)
{
    for (size_t i = 0; engine && i < 2; i++)
        if (engine->in[i] && strcmp(engine->in[i], fault->engine) == 0)
            return 1;
    return !engine;
}

void sb_mtp_fill_faults(const sb_mtp_traits *t, sb_mtp_audit *audit)
{
    const int fits[] = {
#define SB_LOADER_FAULT(engine, versions, reference, dated, verified, condition, what, layout)     \
    (condition),
#include "tools/check/mtp/loader_faults.def"
#undef SB_LOADER_FAULT
    };
    _Static_assert(sizeof faults / sizeof *faults <= SB_MTP_MAX_FAULTS, "room for all faults");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (fits[i] && is_of(audit->engine, &faults[i]))
            audit->faults[audit->fault_count++] = &faults[i];
}
