/* coverage.c - check 5: the number of modules of each class, and the expected number. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/identities.h"
#include "tools/check/judge/structure.h"

/* Classes of roles, in the order of messages. */
static const struct {
    const char *name;
    sb_role first, last; /* rows of tensors.def, both included */
} classes[] = {
    {"embedding", SB_ROLE_embed_tokens, SB_ROLE_embed_tokens},
    {"head", SB_ROLE_lm_head, SB_ROLE_lm_head},
    {"norms of layers", SB_ROLE_input_layernorm, SB_ROLE_post_attention_layernorm},
    {"linear attention, large", SB_ROLE_in_proj_qkv, SB_ROLE_in_proj_z},
    {"linear attention, small", SB_ROLE_in_proj_b, SB_ROLE_in_proj_a},
    {"linear attention, fused", SB_ROLE_in_proj_qkvz, SB_ROLE_in_proj_ba},
    {"linear attention, vectors", SB_ROLE_conv1d, SB_ROLE_linear_norm},
    {"linear attention, out_proj", SB_ROLE_linear_out_proj, SB_ROLE_linear_out_proj},
    {"attention q, k, v", SB_ROLE_q_proj, SB_ROLE_v_proj},
    {"attention norms", SB_ROLE_q_norm, SB_ROLE_k_norm},
    {"attention o_proj", SB_ROLE_o_proj, SB_ROLE_o_proj},
    {"routers", SB_ROLE_router, SB_ROLE_router},
    {"routed experts, gate_proj", SB_ROLE_expert_gate, SB_ROLE_expert_gate},
    {"routed experts, up_proj", SB_ROLE_expert_up, SB_ROLE_expert_up},
    {"routed experts, down_proj", SB_ROLE_expert_down, SB_ROLE_expert_down},
    {"shared experts", SB_ROLE_shared_gate_proj, SB_ROLE_shared_down_proj},
    {"gates of shared experts", SB_ROLE_shared_expert_gate, SB_ROLE_shared_expert_gate},
    {"dense MLPs", SB_ROLE_gate_proj, SB_ROLE_down_proj},
    {"final norm", SB_ROLE_final_norm, SB_ROLE_final_norm},
    {"fc and norms of the MTP head", SB_ROLE_mtp_fc, SB_ROLE_mtp_norm},
};

enum { CLASSES = sizeof classes / sizeof *classes };

/* Counts of one class: modules by presence, and readable modules by container. */
typedef struct count {
    uint64_t expected, presence[3];
    const char *absent; /* the first absent module */
    uint64_t stored[SB_CONTAINER_COUNT];
} count;

static int class_of(sb_role role)
{
    for (int i = 0; i < CLASSES; i++)
        if (role >= classes[i].first && role <= classes[i].last)
            return i;
    return -1;
}

/* Counts a unit by class and container. gate_up_proj counts twice, as gate_proj and as up_proj. */
static void count_unit(const sb_unit *unit, count *counts)
{
    const sb_expected *x = unit->expected;
    sb_container c = unit->found.container;
    if (!x || unit->tensor || unit->status || c == SB_CONTAINER_COUNT)
        return;
    if (x->role == SB_ROLE_experts_gate_up) {
        counts[class_of(SB_ROLE_expert_gate)].stored[c] += unit->found.experts;
        counts[class_of(SB_ROLE_expert_up)].stored[c] += unit->found.experts;
    } else if (x->role == SB_ROLE_experts_down) {
        counts[class_of(SB_ROLE_expert_down)].stored[c] += unit->found.experts;
    } else if (class_of(x->role) >= 0) {
        counts[class_of(x->role)].stored[c]++;
    }
}

/* Counts all units: counts[0] is for the text model, counts[1] for the MTP head. */
static void count_all(const sb_check *check, count counts[2][CLASSES])
{
    const sb_units *u = &check->self.units;
    for (size_t i = 0; i < u->expected_count; i++) {
        const sb_expected *x = &u->expected[i];
        int class = class_of(x->role);
        if (class < 0 || sb_is_stack(x))
            continue;
        count *c = &counts[strncmp(x->name, "mtp.", 4) == 0][class];
        sb_presence presence = sb_presence_of(check, x);
        c->expected++;
        c->presence[presence]++;
        if (presence == SB_ABSENT && !c->absent)
            c->absent = x->name;
    }
    for (size_t i = 0; i < u->count; i++)
        count_unit(&u->rows[i], counts[u->rows[i].region == SB_REGION_mtp]);
}

/* V-5: "Modules in files that are not here do not count as missing" */
static void tell_class(sb_check *check, int mtp, int class, const count *c)
{
    const char *of = mtp ? "MTP head, " : "";
    char text[400] = "";
    unsigned kinds = 0;
    size_t used = 0;
    if (c->presence[SB_ABSENT])
        sb_check_find(check, 5, SB_LEVEL_error, c->absent,
                      "%s%s: %" PRIu64 " of %" PRIu64
                      " modules that config.json implies are present, %" PRIu64
                      " are missing, this one first",
                      of, classes[class].name, c->expected - c->presence[SB_ABSENT], c->expected,
                      c->presence[SB_ABSENT]);
    for (unsigned k = 0; k < SB_CONTAINER_COUNT && used + 40 < sizeof text; k++)
        if (c->stored[k])
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64 " %s",
                                     kinds++ ? ", " : "", c->stored[k],
                                     sb_container_name((sb_container)k));
    if (kinds > 1)
        sb_check_find(check, 5, SB_LEVEL_info, "", "%s%s: %s: the recipe differs between layers",
                      of, classes[class].name, text);
}

/* The number of quantized matrices; those of a stack count one by one. */
static uint64_t quantized(const sb_units *u)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < u->member_count; i++)
        sum += sb_unit_quantized(u->members[i].unit) ? 1 : 0;
    return sum;
}

/* 1 if some layers are refused because of their container; check 4 reports that. */
static int some_unread(const sb_units *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].status == SB_ERR_UNSUPPORTED)
            return 1;
    return 0;
}

/* V-5: "A declared quantization without any quantized layer is an ERROR" */
static void tell_total(sb_check *check, uint64_t layers)
{
    char identity[400];
    const sb_declared *declared = check->self.declared;
    sb_count_identity(check, identity, sizeof identity);
    sb_check_find(check, 5, SB_LEVEL_info, "", "%zu tensors, %" PRIu64 " quantized matrices%s%s",
                  sb_checkpoint_count(check->self.checkpoint), layers, *identity ? ": " : "",
                  identity);
    if (declared && layers == 0 && !sb_is_fragment(check) && sb_is_whole(check) &&
        !some_unread(&check->self.units))
        sb_check_find(check, 5, SB_LEVEL_error, "", "%s is declared, but no matrix is quantized",
                      sb_dialect_name(sb_declared_dialect(declared)));
}

void sb_check_coverage(sb_check *check)
{
    static const count none;
    count counts[2][CLASSES];
    int sides = sb_has_mtp(&check->self.units) ? 2 : 1;
    if (!check->self.has_config || check->self.is_drafter) /* check 4 knows what a drafter needs */
        return;
    for (int class = 0; class < CLASSES; class ++)
        counts[0][class] = counts[1][class] = none;
    count_all(check, counts);
    for (int side = !sb_has_text_model(check); side < sides && !sb_is_fragment(check); side++)
        for (int class = 0; class < CLASSES; class ++)
            tell_class(check, side, class, &counts[side][class]);
    tell_total(check, quantized(&check->self.units));
}
