/* forbidden.c - check 11: tensors that engines read as floats, whatever the file says. */
#include <stdio.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/dtype.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/structure.h"

/* Endings of kinds, each starting at a dot. */
static const struct {
    const char *end;
    sb_level level; /* of the finding, if such a tensor is quantized */
} rules[] = {
    {"mlp.gate", SB_LEVEL_error},     {"shared_expert_gate", SB_LEVEL_error},
    {"embed_tokens", SB_LEVEL_error}, {"conv1d", SB_LEVEL_error},
    {"A_log", SB_LEVEL_error},        {"dt_bias", SB_LEVEL_error},
    {"lm_head", SB_LEVEL_info},       {"mtp.fc", SB_LEVEL_info},
    {"in_proj_a", SB_LEVEL_info},     {"in_proj_b", SB_LEVEL_info},
    {"in_proj_ba", SB_LEVEL_info},
};

static int ends_kind(const char *kind, size_t n, const char *end)
{
    size_t tail = strlen(end);
    return n >= tail && strncmp(kind + n - tail, end, tail) == 0 &&
           (n == tail || kind[n - tail - 1] == '.');
}

/* "q_norm", "input_layernorm", "norm", "pre_fc_norm_hidden". */
static int is_norm(const char *kind, size_t n)
{
    size_t last = n;
    while (last > 0 && kind[last - 1] != '.')
        last--;
    for (size_t i = last; i + 4 <= n; i++)
        if (strncmp(kind + i, "norm", 4) == 0)
            return 1;
    return 0;
}

/* 1 and the level if there is a rule for this kind of unit. */
static int rule_of(const sb_unit *unit, sb_level *level)
{
    static const char weight[] = ".weight";
    size_t n = strlen(unit->kind), tail = sizeof weight - 1;
    if (unit->tensor && n > tail && strcmp(unit->kind + n - tail, weight) == 0)
        n -= tail;
    *level = SB_LEVEL_error;
    if (is_norm(unit->kind, n))
        return 1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (ends_kind(unit->kind, n, rules[i].end)) {
            *level = rules[i].level;
            return 1;
        }
    return 0;
}

/* "A quantized convolution has FP8 codes and one scale for the tensor or for each channel" */
static int is_fp8_conv(const sb_unit *unit)
{
    const sb_container c = unit->found.container;
    return !unit->tensor && !unit->status && sb_ends(unit->kind, "linear_attn.conv1d") &&
           (c == SB_CONTAINER_fp8_tensor || c == SB_CONTAINER_fp8_channel);
}

static int is_float(const sb_tensor *t)
{
    return t->dtype == SB_DTYPE_BF16 || t->dtype == SB_DTYPE_F16 || t->dtype == SB_DTYPE_F32;
}

/* The tensor that shows that a unit is not stored as floats; NULL: the unit is stored as floats. */
static const sb_tensor *quantized_part(const sb_unit *unit)
{
    if (unit->tensor)
        return is_float(unit->tensor) ? NULL : unit->tensor;
    const sb_tensor *other = NULL;
    for (unsigned p = 0; p < SB_PART_COUNT; p++) {
        const sb_tensor *t = unit->found.part[p];
        if (t && (p != SB_PART_weight || !is_float(t)))
            other = other ? other : t;
    }
    return other;
}

/* V-11: "Norms, routers, gates, convolutions, A_log, dt_bias and the embedding must be floats" */
void sb_check_forbidden(sb_check *check)
{
    const sb_units *u = &check->self.units;
    sb_groups groups = {0};
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        const sb_tensor *t;
        sb_level level;
        if (unit->region == SB_REGION_vision || !rule_of(unit, &level))
            continue;
        if ((t = quantized_part(unit)) == NULL)
            continue;
        if (is_fp8_conv(unit))
            level = SB_LEVEL_info;
        if (level == SB_LEVEL_info)
            sb_group_find(
                &groups, check, 11, level, sb_unit_tensor(unit, SB_PART_COUNT), unit->kind,
                "is quantized (%s has dtype %s): this is rare, but engines read it",
                strrchr(t->name, '.') ? strrchr(t->name, '.') + 1 : "it", sb_dtype_name(t->dtype));
        else
            sb_group_find(&groups, check, 11, level, sb_unit_tensor(unit, SB_PART_COUNT),
                          unit->kind, "is quantized (%s has dtype %s), expected BF16, F16 or F32",
                          strrchr(t->name, '.') ? strrchr(t->name, '.') + 1 : "it",
                          sb_dtype_name(t->dtype));
    }
    sb_groups_end(&groups, check);
}
