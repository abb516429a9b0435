#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/check/scan/across.h"

static int is_kv_scale(const char *name)
{
    static const char *const suffixes[] = {".k_scale", ".v_scale", ".kv_scale",
                                           ".k_proj.output_scale", ".v_proj.output_scale"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (sb_ends(name, suffixes[i]))
            return 1;
    return 0;
}

/* V-47: "They may only be on full attention layers" */
static int has_cache(const sb_check *check, const sb_unit *unit)
{
    unsigned long layer;
    if (strstr(unit->name, ".self_attn.") == NULL)
        return 0;
    if (unit->region != SB_REGION_trunk || strncmp(unit->plain, "layers.", 7) != 0 ||
        !check->self.has_config)
        return 1;
    layer = strtoul(unit->plain + 7, NULL, 10);
    return layer < check->self.config.layers && check->self.config.layer_is_full[layer];
}

static void judge_value(sb_check *check, const sb_unit *unit, float scale)
{
    double amax = 448 * (double)scale;
    if (!sb_is_finite_f32(scale) || !(scale > 0))
        sb_check_find(check, 47, SB_LEVEL_error, unit->name,
                      "is %g, expected a positive finite multiplier: keys and values are divided "
                      "by it",
                      (double)scale);
    else if (scale == 1)
        sb_check_find(check, 47, SB_LEVEL_info, unit->name,
                      "is exactly 1: not calibrated, or clamped by its exporter");
    else if (amax < 0.1 || amax > 1e4)
        sb_check_find(check, 47, SB_LEVEL_warn, unit->name,
                      "is %g: the largest key or value would be %g, expected 0.1 to 10000",
                      (double)scale, amax);
}

/* V-47: "Scales of keys without values or values without keys" */
static void judge_pair(sb_check *check, const sb_unit *unit)
{
    char other[SB_MAX_TENSOR_NAME + 16];
    size_t n = strlen(unit->name);
    int key = sb_ends(unit->name, ".k_proj.k_scale");
    if (!key && !sb_ends(unit->name, ".v_proj.v_scale"))
        return;
    snprintf(other, sizeof other, "%.*s%s", (int)(n - strlen("k_proj.k_scale")), unit->name,
             key ? "v_proj.v_scale" : "k_proj.k_scale");
    if (!sb_unit_named(&check->self.units, other))
        sb_check_find(check, 47, SB_LEVEL_warn, unit->name,
                      "is present, but %s is missing: engines use 1 for it", SB_SHOW(other));
}

static void judge_none(sb_check *check)
{
    sb_declared_kv kv =
        check->self.declared ? sb_declared_kv_cache(check->self.declared) : SB_KV_NONE;
    if (kv == SB_KV_NONE)
        return;
    sb_check_find(check, 47, SB_LEVEL_info, "",
                  "an %s KV cache is declared, but no scales are stored: engines use 1",
                  sb_declared_kv_name(kv));
}

void sb_check_kv_scales(sb_check *check)
{
    size_t scales = 0;
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        uint64_t count;
        if (!unit->tensor || !is_kv_scale(unit->name))
            continue;
        scales++;
        if (!has_cache(check, unit)) {
            sb_check_find(
                check, 47, SB_LEVEL_warn, unit->name,
                "belongs to a layer without a KV cache, expected a layer of full attention");
            continue;
        }
        judge_pair(check, unit);
        float *values = sb_floats_of(unit->tensor, &count);
        if (count == 1)
            judge_value(check, unit, values[0]);
        else
            sb_check_find(check, 47, SB_LEVEL_warn, unit->name, "is not a single float");
        free(values);
    }
    if (!scales)
        judge_none(check);
}
