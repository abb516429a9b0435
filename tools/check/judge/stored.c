/* stored.c - check 9: compares the declarations of a module, except its kind, with its tensors. */
#include <inttypes.h>
#include <stdio.h>

#include "ref/model/held.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/structure.h"

static uint64_t ceil_div(uint64_t n, uint64_t by)
{
    return by ? (n + by - 1) / by : 0;
}

/* The number of rows in the grid of scales of a matrix. scale_cols: the number of columns. */
static uint64_t scale_rows(const sb_matrix *m)
{
    return ceil_div(m->rows, m->quant.block_rows);
}

static uint64_t scale_cols(const sb_matrix *m)
{
    return ceil_div(m->cols, m->quant.block_cols);
}

/* 0 for configurations, such as AutoRound's, that do not distinguish one scale from a scale per
 * row. */
static int names_strategies(const sb_check *check)
{
    sb_dialect dialect = sb_declared_dialect(check->self.declared);
    return dialect != SB_DIALECT_auto_round && dialect != SB_DIALECT_gptq &&
           dialect != SB_DIALECT_awq;
}

/* V-9: "One scale where a scale per row is declared, or the reverse" */
static int other_strategy(const sb_check *check, const sb_unit *unit, const sb_declaration *d)
{
    const sb_matrix *m = &unit->found.matrix;
    uint64_t rows = scale_rows(m), cols = scale_cols(m);
    if (d->answer != SB_DECLARED_YES || !names_strategies(check) || !rows || !cols ||
        (d->family != SB_FAMILY_FP8 && d->family != SB_FAMILY_INT))
        return 0;
    if (d->strategy == SB_STRATEGY_TENSOR)
        return rows != 1 || cols != 1;
    return d->strategy == SB_STRATEGY_CHANNEL && (rows != m->rows || cols != 1);
}

static void tell_strategy(sb_check *check, sb_groups *groups, const sb_unit *unit,
                          const sb_declaration *d)
{
    char key[SB_MAX_TENSOR_NAME + 64];
    sb_declared_text text;
    const sb_matrix *m = &unit->found.matrix;
    snprintf(key, sizeof key, "%s: scales of another shape than declared", unit->kind);
    sb_group_find(groups, check, 9, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_weight_scale), key,
                  "has scales [%" PRIu64 ", %" PRIu64
                  "] for %u rows, expected [%u, 1] as declared: %s (%s); engines fail to load it, "
                  "or use a scale for other rows",
                  scale_rows(m), scale_cols(m), (unsigned)m->rows,
                  d->strategy == SB_STRATEGY_TENSOR ? 1u : (unsigned)m->rows,
                  sb_declaration_text(d, &text), d->rule);
}

/* V-9: "a scale of the inputs where the declaration has none is a WARN" - except for ModelOpt,
 * which exports an input scale with every layer that it calibrated. */
static void tell_input(sb_check *check, sb_groups *groups, const sb_unit *unit,
                       const sb_declaration *d)
{
    char key[SB_MAX_TENSOR_NAME + 64];
    sb_declared_text text;
    const sb_found *f = &unit->found;
    sb_model_part part =
        f->part[SB_PART_input_global_scale] ? SB_PART_input_global_scale : SB_PART_input_scale;
    if (d->answer != SB_DECLARED_YES || !f->part[part] || d->packing == SB_PACKED_MODELOPT ||
        d->activation == SB_ACTIVATION_STATIC_TENSOR || d->activation == SB_ACTIVATION_NVFP4_LOCAL)
        return;
    snprintf(key, sizeof key, "%s: undeclared input scale", unit->kind);
    sb_group_find(groups, check, 9, SB_LEVEL_warn, sb_unit_tensor(unit, part), key,
                  "is stored, but no input scales are declared: %s (%s); engines that follow the "
                  "declaration do not use this scale",
                  sb_declaration_text(d, &text), d->rule);
}

void sb_check_stored(sb_check *check, sb_groups *groups, const sb_unit *unit,
                     const sb_declaration *declaration)
{
    if (other_strategy(check, unit, declaration))
        tell_strategy(check, groups, unit, declaration);
    tell_input(check, groups, unit, declaration);
}

/* V-9: "layer_types that differ from a full_attention_interval beside them" */
static void tell_interval(sb_check *check, const sb_config *c)
{
    if (c->other_interval)
        sb_check_find(check, 9, SB_LEVEL_warn, "",
                      "config.json: layer %" PRIu32
                      " has %s attention by layer_types, but full_attention_interval %" PRIu64
                      " makes it %s: transformers and vLLM follow the list, SGLang and llama.cpp "
                      "the interval",
                      c->other_layer, c->layer_is_full[c->other_layer] ? "full" : "linear",
                      c->other_interval, c->layer_is_full[c->other_layer] ? "linear" : "full");
}

/* V-9: "an mrope_section whose sum is not half of the rotary dimensions" */
static void tell_sections(sb_check *check, const sb_config *c)
{
    const uint32_t *s = c->mrope_section;
    uint64_t sum = (uint64_t)s[0] + s[1] + s[2];
    if (!c->has_mrope || 2 * sum == c->rotary_dim)
        return;
    sb_check_find(check, 9, SB_LEVEL_warn, "",
                  "config.json: mrope_section [%" PRIu32 ", %" PRIu32 ", %" PRIu32
                  "] is for %" PRIu64 " rotary dimensions, but head_dim %" PRIu32
                  " and partial_rotary_factor give %" PRIu32
                  ": one of the three keys is wrong; if it is mrope_section, text is not affected",
                  s[0], s[1], s[2], 2 * sum, c->head_dim, c->rotary_dim);
}

void sb_check_stored_layers(sb_check *check)
{
    tell_interval(check, &check->self.config);
    tell_sections(check, &check->self.config);
}
