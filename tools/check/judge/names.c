/* names.c - check 3: every name has a place in the architecture, or a reason why it has none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/drafter.h"
#include "tools/check/judge/structure.h"

/* A guess at the intended name: static text, and the part of the name that it is about. */
typedef struct reason {
    const char *key;
    char text[400];
} reason;

/* The part of the name, starting after a dot, that begins with `with`; NULL: none. */
static const char *part_from(const char *name, const char *with)
{
    for (const char *at = name; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL)
        if (sb_starts(at, with))
            return at;
    return NULL;
}

/* 1 if the configuration implies a tensor or a layer of this name. */
static int is_known(const sb_units *units, const char *name)
{
    char full[SB_MAX_TENSOR_NAME + 32], layer[SB_MAX_TENSOR_NAME];
    if (sb_expected_named(units, name))
        return 1;
    snprintf(full, sizeof full, "%s.weight", name);
    if (sb_expected_named(units, full))
        return 1;
    if (!sb_layer_of(name, layer, sizeof layer))
        return 0;
    snprintf(full, sizeof full, "%s.weight", layer);
    return sb_expected_named(units, full) != NULL;
}

static int is_doubled(const sb_unit *unit)
{
    const sb_expected *x = unit->expected;
    return sb_ends(unit->name, ".weight.weight") ||
           (x && !unit->tensor && x->rank < 3 && strlen(x->name) == strlen(unit->name));
}

/* "layers.03.x" to "layers.3.x"; 1 if zeros were removed. */
static int without_zeros(const char *name, char *out, size_t size)
{
    int changed = 0, start = 1;
    size_t used = 0;
    for (; *name && used + 1 < size; name++) {
        int zero = start && *name == '0' && name[1] >= '0' && name[1] <= '9';
        changed |= zero;
        if (!zero)
            out[used++] = *name;
        start = zero || *name == '.';
    }
    out[used] = '\0';
    return changed;
}

static int why_zeros(const sb_units *units, const char *name, reason *why)
{
    char plain[SB_MAX_TENSOR_NAME + 16];
    if (!without_zeros(name, plain, sizeof plain) || !is_known(units, plain))
        return 0;
    why->key = "leading zeros";
    snprintf(why->text, sizeof why->text, "numbers have no leading zeros, probably meant: %s",
             SB_SHOW(plain));
    return 1;
}

static int why_prefix(const sb_units *units, const char *name, reason *why)
{
    static const struct {
        const char *from;
        int bare; /* has no prefix */
    } marks[] = {{"mtp.", 1}, {"layers.", 0}, {"embed_tokens", 0}, {"lm_head", 1}, {"norm.", 0}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char full[SB_MAX_TENSOR_NAME + 64];
        const char *at = part_from(name, marks[i].from);
        if (!at || at == name + strlen(units->prefix) * !marks[i].bare)
            continue;
        if (i > 1 && part_from(name, "layers."))
            continue;
        snprintf(full, sizeof full, "%s%s", marks[i].bare ? "" : units->prefix, at);
        if (!is_known(units, full))
            continue;
        why->key = i == 0 ? "prefix of the MTP head" : "prefix";
        snprintf(why->text, sizeof why->text, "the prefix is wrong, probably meant: %s%s%s",
                 marks[i].bare || *units->prefix ? "" : "model.language_model. or model. before ",
                 SB_SHOW(full), i == 0 ? "; engines look for the head only under mtp." : "");
        return 1;
    }
    return 0;
}

/* The number after a part such as "layers."; returns 0 if there is none. */
static int number_after(const char *name, const char *part, unsigned long *out, const char **rest)
{
    const char *at = part_from(name, part);
    char *end;
    if (!at)
        return 0;
    at += strlen(part);
    if (*at < '0' || *at > '9')
        return 0;
    *out = strtoul(at, &end, 10);
    *rest = end;
    return 1;
}

static int why_number(const sb_config *c, const sb_unit *unit, reason *why)
{
    unsigned long layer, expert;
    const char *rest;
    int mtp = unit->region == SB_REGION_mtp;
    uint32_t layers = mtp ? c->mtp_layers : c->layers;
    if (!number_after(unit->name, "layers.", &layer, &rest))
        return 0;
    if (layer >= layers) {
        why->key = "layer beyond the last";
        snprintf(why->text, sizeof why->text,
                 "is of layer %lu, but config.json declares %u layers, 0 to %d", layer,
                 (unsigned)layers, (int)layers - 1);
        return 1;
    }
    if (number_after(unit->name, "experts.", &expert, &rest) && expert >= c->experts) {
        why->key = "expert beyond the last";
        snprintf(why->text, sizeof why->text,
                 "is of expert %lu, but config.json declares %u experts, counted from 0", expert,
                 (unsigned)c->experts);
        return 1;
    }
    int full = mtp || c->layer_is_full[layer];
    number_after(unit->name, "layers.", &layer, &rest);
    if (!sb_starts(rest, full ? ".linear_attn." : ".self_attn."))
        return 0;
    why->key = "attention of the other type";
    snprintf(why->text, sizeof why->text, "layer %lu has %s attention according to config.json",
             layer, full ? "full" : "linear");
    return 1;
}

static int why_suffix(const sb_units *units, const char *name, reason *why)
{
    char module[SB_MAX_TENSOR_NAME];
    const char *dot = strrchr(name, '.');
    if (!dot || (size_t)(dot - name) >= sizeof module)
        return 0;
    snprintf(module, sizeof module, "%.*s", (int)(dot - name), name);
    if (!is_known(units, module))
        return 0;
    why->key = "unknown part of a known module";
    snprintf(why->text, sizeof why->text, "the module %s is known, but it has no part \"%s\"",
             SB_SHOW(module), SB_SHOW(dot + 1));
    return 1;
}

/* V-3: "The message says what is probably meant" */
static void explain(const sb_check *check, const sb_unit *unit, reason *why)
{
    const sb_units *units = &check->self.units;
    const char *name = sb_unit_tensor(unit, SB_PART_COUNT);
    if (is_doubled(unit)) {
        why->key = "doubled suffix";
        snprintf(why->text, sizeof why->text, "ends in .weight twice");
        return;
    }
    if (unit->region == SB_REGION_vision) {
        why->key = "unknown in the vision tower";
        snprintf(why->text, sizeof why->text, "has no place in the vision tower");
        return;
    }
    const char *drafters = sb_drafter_unknown(check, name);
    if (drafters) {
        why->key = drafters;
        snprintf(why->text, sizeof why->text, "%s", drafters);
        return;
    }
    if (why_zeros(units, name, why) || why_prefix(units, name, why) ||
        why_number(&check->self.config, unit, why) || why_suffix(units, unit->name, why))
        return;
    why->key = "unknown name";
    snprintf(why->text, sizeof why->text,
             "has no place in the architecture that config.json describes");
}

/* Scales of the KV cache, which belong to k_proj and v_proj of full attention. */
static int is_kv_scale(const sb_units *units, const char *name)
{
    static const char *const tails[] = {
        "k_proj.k_scale", "k_scale", "attn.k_scale", "k_proj.output_scale",
        "v_proj.v_scale", "v_scale", "attn.v_scale", "v_proj.output_scale",
        "kv_scale",
    };
    const char *at = part_from(name, "self_attn.");
    for (size_t i = 0; at && i < sizeof tails / sizeof *tails; i++) {
        char k_proj[SB_MAX_TENSOR_NAME + 32];
        if (strcmp(at + strlen("self_attn."), tails[i]) != 0)
            continue;
        snprintf(k_proj, sizeof k_proj, "%.*sself_attn.k_proj.weight", (int)(at - name), name);
        return sb_expected_named(units, k_proj) != NULL;
    }
    return 0;
}

static int has_place(const sb_check *check, const sb_unit *unit)
{
    char full[SB_MAX_TENSOR_NAME + 16];
    if (is_doubled(unit))
        return 0;
    if (unit->expected || is_kv_scale(&check->self.units, unit->name))
        return 1;
    snprintf(full, sizeof full, "%s.weight", unit->name);
    return unit->region == SB_REGION_vision && sb_is_vision_name(unit->tensor ? unit->name : full);
}

/* V-3: "Tensors that engines leave unread without harm are a WARN" */
static const char *harmless(const sb_check *check, const sb_unit *unit)
{
    if (sb_ends(unit->name, "rotary_emb.inv_freq"))
        return "is a table that engines compute themselves; no engine reads it";
    if (check->self.config.tie_embeddings && sb_starts(unit->name, "lm_head"))
        return "is stored, but tie_word_embeddings is true: engines use the embedding instead";
    return NULL;
}

void sb_check_names(sb_check *check)
{
    const sb_units *units = &check->self.units;
    sb_groups groups = {0};
    for (size_t i = 0; i < units->count && check->self.has_config; i++) {
        const sb_unit *unit = &units->rows[i];
        const char *name = sb_unit_tensor(unit, SB_PART_COUNT);
        char key[SB_MAX_TENSOR_NAME + 64];
        reason why;
        if (has_place(check, unit) ||
            (unit->region == SB_REGION_mtp && check->self.config.mtp_layers == 0))
            continue; /* check 10 reports a head that config.json does not declare */
        if (harmless(check, unit)) {
            sb_group_find(&groups, check, 3, SB_LEVEL_warn, name, unit->kind, "%s",
                          harmless(check, unit));
            continue;
        }
        explain(check, unit, &why);
        snprintf(key, sizeof key, "%s: %s", unit->kind, why.key);
        sb_group_find(&groups, check, 3, SB_LEVEL_error, name, key, "%s", why.text);
    }
    sb_groups_end(&groups, check);
}
