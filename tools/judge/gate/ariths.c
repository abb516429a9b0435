/* ariths.c - arithmetics of kernels: units and rounding points by name, the tightest first. */
#include "tools/judge/gate/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/ops/knob.h"

/* V-109: "35 u for 32 products where sums keep 23 bits, and 37 2^-13 where they keep 13" */
static const sb_atom fp8_wide = {.name = "fp8_mma",
                                 .what = "FP8 units that keep 23 bits",
                                 .terms = 32,
                                 .block = 32,
                                 .group = 1,
                                 .fraction = 24,
                                 .kept = 23,
                                 .addend = SB_ATOM_FIRST,
                                 .form = SB_ATOM_FP8,
                                 .evidence = SB_ATOM_PUBLISHED};
static const sb_atom fp8_narrow = {.name = "fp8_short",
                                   .what = "FP8 units that keep 13 bits",
                                   .terms = 32,
                                   .block = 32,
                                   .group = 1,
                                   .fraction = 13,
                                   .kept = 11,
                                   .addend = SB_ATOM_FIRST,
                                   .form = SB_ATOM_FP8,
                                   .evidence = SB_ATOM_PUBLISHED};

/* V-103: "the bound of ampere_f16 is at least that of each row whose form is HALF" */
#define SB_UNITS(id, codes8, codes4)                                                               \
    {                                                                                              \
        .name = id, .any_order = 1, .functions = &sb_functions_table[SB_FUNCTIONS_any],            \
        .underflow = 0x1p-126, .atom = &sb_atoms[SB_ATOM_ampere_f16], .fp8 = (codes8),             \
        .fp4 = (codes4)                                                                            \
    }
static const sb_arithmetic bf16_mma = SB_UNITS("bf16_mma", NULL, NULL);
static const sb_arithmetic fp8_mma = SB_UNITS("fp8_mma", &fp8_wide, NULL);
static const sb_arithmetic nvfp4_mma =
    SB_UNITS("nvfp4_mma", &fp8_wide, &sb_atoms[SB_ATOM_sm120_nvfp4]);
static const sb_arithmetic fp8_short =
    SB_UNITS("fp8_short", &fp8_narrow, &sb_atoms[SB_ATOM_sm120_nvfp4]);

/* The table: each unit with each set of rounding points; "exact" has only one row. */
static const struct {
    const char *name, *help;
    const sb_arithmetic *ar;
} units[] = {
    {"exact", "the same bits as profile exact, rounded once to the type of the output",
     &sb_arithmetic_reference},
    {"fp32", "binary32 in any order, fused or not, functions of any library",
     &sb_arithmetic_library},
    {"bf16_mma", "f16 and bf16 matrix units that add with 23 bits, in any order and any split",
     &bf16_mma},
    {"fp8_mma", "the same, and codes of quantized inputs on FP8 units that add with 23 bits",
     &fp8_mma},
    {"nvfp4_mma", "the same, and FP4 codes with their scales on FP4 units", &nvfp4_mma},
    {"fp8_short", "the same, and FP8 units that add with 13 bits (Ada, Hopper wgmma)", &fp8_short},
};
enum { UNITS = sizeof units / sizeof *units };

static const struct {
    const char *suffix, *help;
    sb_knob_value act;
} points[] = {
    {"", "binary32 between ops", SB_act_f32},
    {"+f16", "binary16 between ops and at the rounding points of profile hf", SB_act_f16},
    {"+bf16", "bfloat16 between ops and at the rounding points of profile hf", SB_act_bf16},
};
enum { POINTS = sizeof points / sizeof *points };

/* V-104: "add rounding points and change no form of a function" - the points where values are
 * rounded. */
static const sb_knob_value rounded[] = {
    SB_conv_sum_act,      SB_beta_act,           SB_swiglu_act,    SB_gated_norm_act,
    SB_rope_table_act,    SB_scores_act,         SB_attn_gate_act, SB_moe_sum_slots,
    SB_router_weight_act, SB_rope_pair_products,
};

static void set_points(sb_gate_arith *out, sb_knob_value act)
{
    sb_knobs_exact(&out->knobs);
    if (act == SB_act_f32)
        return;
    out->knobs.value[SB_KNOB_act] = act;
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        out->knobs.value[sb_knob_of_value(rounded[i])] = rounded[i];
}

static void fill(sb_gate_arith *out, const char *unit, const sb_arithmetic *ar, size_t point)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s%s", unit, points[point].suffix);
    out->ar = *ar;
    out->exact = strcmp(unit, "exact") == 0;
    set_points(out, points[point].act);
}

size_t sb_gate_arith_count(void)
{
    return 1 + (UNITS - 1) * POINTS;
}

/* "exact", then all units without rounding points, with binary16, with bfloat16. */
static size_t unit_at(size_t i)
{
    return i ? 1 + (i - 1) % (UNITS - 1) : 0;
}

static size_t point_at(size_t i)
{
    return i ? (i - 1) / (UNITS - 1) : 0;
}

sb_status sb_gate_arith_at(size_t i, sb_gate_arith *out)
{
    fill(out, units[unit_at(i)].name, units[unit_at(i)].ar, point_at(i));
    return SB_OK;
}

const char *sb_gate_arith_help(size_t i)
{
    return point_at(i) ? points[point_at(i)].help : units[unit_at(i)].help;
}

static sb_status no_such(const char *name, sb_error *err)
{
    char text[400];
    size_t n = 0;
    for (size_t i = 0; i < UNITS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "", units[i].name);
    return sb_fail(err, SB_ERR_USAGE,
                   "arith is '%s', expected one of %s, or a row of 'samebit diff --arithmetic'. "
                   "All but exact may be followed by @ROWS (rows per chunk of the delta rule), "
                   ":FUNCTIONS (a row of 'samebit diff --functions'), and +bf16 or +f16",
                   SB_SHOW(name), text);
}

/* Cuts off "@128" at the end of a unit's name and returns its number, or 0. */
static uint64_t take_chunk(char *unit)
{
    char *at = strchr(unit, '@'), *end = NULL;
    if (!at || at[1] < '1' || at[1] > '9')
        return 0;
    uint64_t rows = strtoull(at + 1, &end, 10);
    if (*end)
        return 0;
    *at = '\0';
    return rows;
}

/* The arithmetic of a unit by name. */
static const sb_arithmetic *arithmetic_of(const char *unit)
{
    for (size_t i = 0; i < UNITS; i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].ar;
    return sb_arithmetic_of(unit);
}

/* "UNIT@ROWS:FUNCTIONS" and the suffix of a row of `points`. Only UNIT is mandatory. */
sb_status sb_gate_arith_of(const char *name, sb_gate_arith *out, sb_error *err)
{
    char unit[sizeof out->name] = "";
    size_t n = strlen(name), point = 0;
    for (size_t p = 1; p < POINTS; p++) {
        size_t tail = strlen(points[p].suffix);
        if (n > tail && strcmp(name + n - tail, points[p].suffix) == 0)
            point = p;
    }
    n -= strlen(points[point].suffix);
    if (n >= sizeof unit - sizeof "+bf16")
        return no_such(name, err);
    memcpy(unit, name, n);
    char *functions = strchr(unit, ':');
    if (functions)
        *functions++ = '\0';
    const sb_arithmetic *ar = arithmetic_of(unit);
    const uint64_t chunk = ar ? 0 : take_chunk(unit);
    if (chunk)
        ar = arithmetic_of(unit);
    if (!ar || ((point || functions || chunk) && strcmp(unit, "exact") == 0))
        return no_such(name, err);
    fill(out, unit, ar, point);
    snprintf(out->name, sizeof out->name, "%s", name);
    return sb_arithmetic_with(ar, functions, chunk, &out->ar, err);
}
