#include "tools/check/mtp/mtp_parts.h"

#include <stdio.h>
#include <string.h>

int sb_mtp_declared(const sb_check *check)
{
    return check->self.has_config && check->self.config.mtp_declared &&
           check->self.config.mtp_layers > 0;
}

static int is_head(const char *name)
{
    return strncmp(name, "mtp.", 4) == 0;
}

/* 1 if the name exists as a tensor, as a stack of experts, or as a layer in any container. */
static int is_there(const sb_units *units, const char *name)
{
    char layer[SB_NAME_MAX];
    size_t n = strlen(name), suffix = strlen(".weight");
    if (sb_unit_named(units, name))
        return 1;
    if (n <= suffix || strcmp(name + n - suffix, ".weight") != 0)
        return 0;
    snprintf(layer, sizeof layer, "%.*s", (int)(n - suffix), name);
    return sb_unit_named(units, layer) != NULL;
}

typedef struct counter {
    const sb_units *units;
    sb_mtp_census *census;
} counter;

static sb_status count_one(void *ctx, const sb_expected *x, sb_error *err)
{
    counter *c = ctx;
    sb_mtp_census *s = c->census;
    int there = is_there(c->units, x->name), head = is_head(x->name);
    (void)err;
    s->model_implied++;
    s->model_found += there != 0;
    if (!head)
        return SB_OK;
    s->implied++;
    const unsigned part = sb_mtp_part_of(x->name);
    if (part < SB_MTP_PARTS)
        s->parts[part]++;
    s->found += there != 0;
    if (there)
        return SB_OK;
    int expert = x->expert != SB_NO_EXPERT || x->role == SB_ROLE_experts_gate_up ||
                 x->role == SB_ROLE_experts_down;
    s->missing_experts += expert != 0;
    if (!s->first_missing[0])
        snprintf(s->first_missing, sizeof s->first_missing, "%s", x->name);
    return SB_OK;
}

static int has_stack(const sb_units *units, const char *before)
{
    char name[SB_NAME_MAX];
    static const char *const lasts[] = {"gate_up_proj", "down_proj"};
    for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++) {
        snprintf(name, sizeof name, "%slayers.0.mlp.experts.%s", before, lasts[i]);
        if (sb_unit_named(units, name))
            return 1;
    }
    return 0;
}

static void count_names(const sb_check *check, sb_mtp_census *out)
{
    const sb_checkpoint *c = check->self.checkpoint;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const char *name = sb_checkpoint_at(c, i)->name;
        if (is_head(name)) {
            out->tensors++;
        } else if (strstr(name, ".mtp.")) {
            if (!out->misplaced++)
                out->first_misplaced = name;
        }
    }
}

sb_status sb_mtp_census_take(const sb_check *check, sb_mtp_census *out, sb_error *err)
{
    const sb_units *units = &check->self.units;
    *out = (sb_mtp_census){.declared = sb_mtp_declared(check)};
    count_names(check, out);
    out->stacked = has_stack(units, "mtp.");
    if (!check->self.has_config)
        return SB_OK;
    sb_config config = check->self.config;
    sb_storage storage = {units->prefix, has_stack(units, units->prefix), out->stacked, 1};
    counter count = {units, out};
    config.mtp_layers = config.mtp_layers ? config.mtp_layers : 1;
    return sb_each_tensor(&config, &storage, count_one, &count, err);
}

/* V-10: "17 tensors and the experts" - counts the layers that an exporter quantizes, times the
 * tensors of each, plus the tensors that stay as they were. */
sb_mtp_fingerprint sb_mtp_fingerprint_of(const sb_config *config, uint64_t tensors, int *exact)
{
    uint64_t experts = 3 * (uint64_t)config->experts;
    int moe = config->experts > 0;
    /* quantized: attention, MLP; rest: norms and gates */
    uint64_t all = moe ? experts + 7 : 7, rest = moe ? 10 : 8;
    /* the same without the shared expert */
    uint64_t tuned = moe ? experts + 4 : 7, untuned = moe ? 13 : 8;
    const sb_mtp_fingerprint known[] = {
        {moe ? 19 : 15, "floats as published"},
        {all + rest, "floats, one tensor per expert"},
        {2 * all + rest, "FP8 blocks or channels"},
        {3 * all + rest, "three tensors per layer: FP8 with input scales, NVFP4 without"},
        {4 * all + rest, "four tensors per layer: NVFP4 with input scales"},
        {3 * tuned + untuned, "INT4 of AutoRound, shared expert in floats"},
        {4 * tuned + untuned, "INT4 of AutoRound with g_idx, shared expert in floats"},
    };
    size_t best = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t off =
            known[i].tensors > tensors ? known[i].tensors - tensors : tensors - known[i].tensors;
        uint64_t least = known[best].tensors > tensors ? known[best].tensors - tensors
                                                       : tensors - known[best].tensors;
        if (off < least)
            best = i;
    }
    *exact = known[best].tensors == tensors;
    return known[best];
}
