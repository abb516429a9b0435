#include "tools/check/judge/absent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/model/layers.h"
#include "tools/check/judge/drafter.h"
#include "tools/check/judge/structure.h"

/* The stack that would contain expert x: "...mlp.experts.gate_up_proj"; "" for other tensors. */
static const char *stack_name(const sb_expected *x, char *name, size_t size)
{
    size_t n = x->expert == SB_NO_EXPERT ? 0 : sb_experts_prefix(x);
    snprintf(name, size, "%.*s%s", (int)n, x->name,
             !n                               ? ""
             : x->role == SB_ROLE_expert_down ? "down_proj"
                                              : "gate_up_proj");
    return name;
}

sb_presence sb_presence_of(const sb_check *check, const sb_expected *x)
{
    const sb_units *units = &check->self.units;
    char stack[SB_NAME_MAX + 16], module[SB_NAME_MAX];
    size_t n = strlen(x->name), tail = strlen(".weight");
    if (sb_unit_of(units, x) ||
        (*stack_name(x, stack, sizeof stack) && sb_unit_named(units, stack)))
        return SB_HERE;
    int suffix = n > tail && strcmp(x->name + n - tail, ".weight") == 0;
    snprintf(module, sizeof module, "%.*s", (int)(suffix ? n - tail : n), x->name);
    return sb_elsewhere(check, module) || (*stack && sb_elsewhere(check, stack)) ? SB_ELSEWHERE
                                                                                 : SB_ABSENT;
}

int sb_has_mtp(const sb_units *units)
{
    for (size_t i = 0; i < units->count; i++)
        if (units->rows[i].region == SB_REGION_mtp)
            return 1;
    return 0;
}

int sb_has_text_model(const sb_check *check)
{
    return *check->self.units.prefix != '\0';
}

/* The modules of one layer of the text model. */
typedef struct layer_count {
    uint32_t expected, absent;
} layer_count;

static int is_mtp(const sb_expected *x)
{
    return strncmp(x->name, "mtp.", 4) == 0;
}

/* The counts of x's layer; NULL if x is not in a layer of the text model. */
static layer_count *count_of(const sb_check *check, layer_count *counts, const sb_expected *x)
{
    return is_mtp(x) || x->layer >= check->self.config.layers ? NULL : &counts[x->layer];
}

static void count_layers(const sb_check *check, layer_count *counts)
{
    const sb_units *units = &check->self.units;
    for (size_t i = 0; i < units->expected_count; i++) {
        const sb_expected *x = &units->expected[i];
        layer_count *c = count_of(check, counts, x);
        if (!c || sb_is_stack(x))
            continue;
        c->expected++;
        c->absent += sb_presence_of(check, x) == SB_ABSENT;
    }
}

/* V-4: "A layer without any tensor is one finding" */
static void tell_layers(sb_check *check, const layer_count *counts)
{
    for (uint32_t i = 0; i < check->self.config.layers; i++) {
        char name[SB_NAME_MAX];
        snprintf(name, sizeof name, "%slayers.%u", check->self.units.prefix, (unsigned)i);
        if (counts[i].expected && counts[i].absent == counts[i].expected)
            sb_check_find(check, 4, SB_LEVEL_fatal, name,
                          "is missing with all of its %u modules: config.json declares %u layers",
                          (unsigned)counts[i].expected, (unsigned)check->self.config.layers);
    }
}

/* V-4: "A module that the configuration implies and no tensor belongs to is FATAL" */
static void tell_modules(sb_check *check, sb_groups *groups, layer_count *counts)
{
    const sb_units *units = &check->self.units;
    int head = sb_has_mtp(units);
    for (size_t i = 0; i < units->expected_count; i++) {
        const sb_expected *x = &units->expected[i];
        const layer_count *c = count_of(check, counts, x);
        char key[SB_NAME_MAX + 32], kind[SB_NAME_MAX];
        /* a missing stack is reported through its missing experts */
        if (sb_is_stack(x) || (is_mtp(x) && !head) || (c && c->absent == c->expected) ||
            sb_presence_of(check, x) != SB_ABSENT)
            continue;
        snprintf(key, sizeof key, "%s: missing", sb_layer_kind(x->name, kind, sizeof kind));
        sb_group_find(groups, check, 4, is_mtp(x) ? SB_LEVEL_error : SB_LEVEL_fatal, x->name, key,
                      "is missing: config.json implies it, and no tensor stores it in any format");
    }
}

void sb_tell_absent(sb_check *check, sb_groups *groups)
{
    if (!check->self.has_config)
        return;
    if (check->self.is_drafter) {
        sb_drafter_absent(check, groups);
        return;
    }
    if (!sb_has_text_model(check)) {
        if (sb_is_whole(check))
            sb_check_find(check, 4, SB_LEVEL_fatal, "",
                          "there is no tensor of the text model: no name begins with "
                          "model.language_model., language_model.model. or model.");
        return;
    }
    layer_count *counts = sb_alloc((size_t)check->self.config.layers, sizeof *counts);
    if (!counts) {
        check->findings.lost = 1;
        return;
    }
    count_layers(check, counts);
    tell_layers(check, counts);
    tell_modules(check, groups, counts);
    free(counts);
}
