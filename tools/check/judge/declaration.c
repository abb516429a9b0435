/* declaration.c - check 9: compares what is declared for a module with its tensors. */
#include <stdio.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/model/held.h"
#include "tools/check/judge/contradictions.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/structure.h"

/* A disagreement: its level and its text. */
typedef struct verdict {
    sb_level level;
    const char *key;  /* NULL: no disagreement */
    const char *what; /* the text that follows the declaration in the message */
} verdict;

/* V-9: "Floats that the configuration targets are an ERROR, with three exceptions": modules that no
 * engine quantizes in this dialect, and the MTP head's fc. */
static verdict targeted(const sb_check *check, const sb_unit *unit)
{
    sb_dialect dialect = sb_declared_dialect(check->self.declared);
    if (sb_ends(unit->kind, "mlp.gate") || sb_ends(unit->kind, "shared_expert_gate"))
        return (verdict){.key = NULL};
    if (dialect == SB_DIALECT_fp8 && strcmp(unit->kind, "lm_head") == 0)
        return (verdict){SB_LEVEL_info, "lm_head is not FP8",
                         "engines read lm_head as floats in this dialect, whatever is declared"};
    if (strcmp(unit->kind, "mtp.fc") == 0)
        return (verdict){SB_LEVEL_warn, "mtp.fc is not excluded",
                         "vLLM reads mtp.fc as floats; other engines look for scales"};
    return (verdict){SB_LEVEL_error, "floats, but declared quantized",
                     "engines look for scales that are not there: a failed load, or random "
                     "weights"};
}

/* V-9: "FP8 blocks beside a declaration of integers are an INFO" */
static verdict ignored(const sb_check *check, const sb_unit *unit)
{
    sb_dialect dialect =
        check->self.declared ? sb_declared_dialect(check->self.declared) : SB_DIALECT_COUNT;
    if (sb_container_has_grid(unit->found.container) &&
        (dialect == SB_DIALECT_auto_round || dialect == SB_DIALECT_gptq))
        return (verdict){
            SB_LEVEL_info, "FP8 beside declared integers",
            "only engines that look for weight_scale_inv read both; other engines drop the scales"};
    return (verdict){SB_LEVEL_error, "quantized, but not declared",
                     "engines read the codes as floats, or fail to load"};
}

static verdict judge_unit(const sb_check *check, const sb_unit *unit, const sb_declaration *d)
{
    const sb_found *f = &unit->found;
    sb_container c = f->container;
    if (!sb_declared_kind_agrees(d, f)) {
        if (d->answer == SB_DECLARED_NO)
            return ignored(check, unit);
        return c == SB_CONTAINER_plain
                   ? targeted(check, unit)
                   : (verdict){SB_LEVEL_error, "quantized in another way than declared",
                               "engines unpack the codes as declared"};
    }
    /* check 8 reports wrong groups of GPTQ and AWQ, check 32 wrong blocks of FP8 */
    int told = c == SB_CONTAINER_int_gptq || c == SB_CONTAINER_int_awq || sb_container_has_grid(c);
    if (d->answer == SB_DECLARED_YES && !told && !sb_declared_blocks_agree(d, &f->matrix))
        return (verdict){SB_LEVEL_error, "groups of another size than declared",
                         "engines use the scales of other columns"};
    return (verdict){.key = NULL};
}

/* V-9: "where vLLM decides by another rule than the producer, it is a WARN" */
static void tell_vllm(sb_check *check, sb_groups *groups, const sb_unit *unit,
                      const sb_declaration *d)
{
    char key[SB_MAX_TENSOR_NAME + 64];
    if (!d->vllm_rule || unit->found.container == SB_CONTAINER_plain)
        return;
    snprintf(key, sizeof key, "%s: vLLM decides otherwise", unit->kind);
    sb_group_find(groups, check, 9, SB_LEVEL_warn, sb_unit_tensor(unit, SB_PART_COUNT), key,
                  "is stored as %s, as %s declares; vLLM follows %s and decides otherwise",
                  sb_container_name(unit->found.container), d->rule, d->vllm_rule);
}

/* 0 if the rules cannot be followed, which is reported once. */
static int check_unit(sb_check *check, sb_groups *groups, const sb_unit *unit)
{
    sb_declaration d = {0};
    sb_declared_text text;
    sb_error why;
    char key[SB_MAX_TENSOR_NAME + 64];
    /* W-7: "The checkpoint's declaration is not compared with modules that were laid over" */
    if (sb_found_origin(check->self.checkpoint, &unit->found))
        return 1;
    if (sb_declared_for(check->self.declared, unit->name, &d, &why)) {
        sb_check_find(check, 9, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT), "%s",
                      why.text);
        return 0;
    }
    tell_vllm(check, groups, unit, &d);
    verdict v = judge_unit(check, unit, &d);
    if (!v.key) {
        if (unit->found.container != SB_CONTAINER_plain)
            sb_check_stored(check, groups, unit, &d);
        return 1;
    }
    snprintf(key, sizeof key, "%s: %s", unit->kind, v.key);
    sb_group_find(groups, check, 9, v.level, sb_unit_tensor(unit, SB_PART_COUNT), key,
                  "is stored as %s; declared: %s (%s); %s",
                  sb_container_name(unit->found.container), sb_declaration_text(&d, &text), d.rule,
                  v.what);
    return 1;
}

/* V-9: "Both directions are looked at, layer by layer" */
void sb_check_declaration(sb_check *check)
{
    const sb_units *u = &check->self.units;
    sb_groups groups = {0};
    sb_check_config_self(check);
    if (check->self.has_config)
        sb_check_stored_layers(check);
    if (!check->self.has_config || !check->self.has_declared)
        return;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        if (unit->tensor || unit->status || unit->found.container == SB_CONTAINER_COUNT ||
            (!unit->expected && unit->region != SB_REGION_vision))
            continue; /* check 3 reports names that no engine loads */
        if (!check_unit(check, &groups, unit))
            break;
    }
    sb_groups_end(&groups, check);
    sb_tell_contradictions(check);
}
