/* fp4_inputs.c - the scales of activations, for any format that has them. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/check/scan/fp4.h"

static int has_input(const sb_member *m)
{
    return m->matrix.quant.input.kind != SB_NO_FACTOR;
}

static float input_of(const sb_member *m)
{
    return m->matrix.quant.input.value;
}

static int is_number(const sb_member *m)
{
    float v = input_of(m);
    return v >= FLT_MIN && v <= FLT_MAX;
}

static int has_number(const sb_member *m)
{
    return has_input(m) && is_number(m);
}

static const char *tensor_of(const sb_member *m)
{
    int ct = m->unit->found.part[SB_PART_input_global_scale] != NULL;
    return sb_unit_tensor(m->unit, ct ? SB_PART_input_global_scale : SB_PART_input_scale);
}

/* The largest activation that the scale implies: 6 * 448 times the scale for FP4, 448 times for
 * FP8. */
static double implied(const sb_member *m)
{
    double v = (double)input_of(m);
    double largest = m->matrix.format == SB_FORMAT_e2m1 ? 2688 : 448;
    return m->matrix.quant.input.kind == SB_DIVISOR ? largest / v : largest * v;
}

/* --- one by one ------------------------------------------------------------------------------- */

/* V-27: "finite, above zero, and not subnormal" */
static void check_value(sb_check *check, const sb_member *m)
{
    double v = (double)input_of(m);
    if (!is_number(m))
        sb_check_find(check, 27, SB_LEVEL_error, tensor_of(m),
                      "%s: the input scale is %g, expected a positive number", SB_SHOW(m->name), v);
    else if (v != 1 && !(implied(m) >= 1e-3 && implied(m) <= 1e5))
        sb_check_find(check, 27, SB_LEVEL_warn, tensor_of(m),
                      "%s: the input scale %g would mean a largest activation of %.4g, expected "
                      "0.001 to 100000",
                      SB_SHOW(m->name), v, implied(m));
}

/* --- presence --------------------------------------------------------------------------------- */

/* 1 if the configuration wants an input scale in the file, or says nothing. */
static int wants_input(const sb_check *check, const sb_member *m, int *known)
{
    sb_declaration d;
    sb_error err;
    *known = check->self.declared &&
             sb_declared_for(check->self.declared, m->name, &d, &err) == SB_OK &&
             d.answer == SB_DECLARED_YES;
    return !*known || d.activation == SB_ACTIVATION_STATIC_TENSOR ||
           d.activation == SB_ACTIVATION_NVFP4_LOCAL;
}

/* number of missing scales that are reported one by one; the others are counted */
enum { LINES = 32 };

static int same_class(const sb_member *a, const sb_member *b)
{
    return a->unit->found.container == b->unit->found.container &&
           strcmp(a->unit->kind, b->unit->kind) == 0;
}

/* For a class of members: how many have a scale and how many do not. */
typedef struct presence {
    uint32_t with, without;
    const sb_member *first; /* first member of the class */
} presence;

enum { CLASSES = 96 };

typedef struct classes {
    presence rows[CLASSES];
    size_t count;
} classes;

static presence *class_of(classes *c, const sb_member *m)
{
    for (size_t i = 0; i < c->count; i++)
        if (same_class(c->rows[i].first, m))
            return &c->rows[i];
    if (c->count < CLASSES)
        c->rows[c->count++].first = m;
    return &c->rows[c->count - 1];
}

static int can_have_input(const sb_member *m)
{
    return m->seen->done && m->matrix.quant.scales != NULL &&
           (m->matrix.format == SB_FORMAT_e2m1 || m->matrix.format == SB_FORMAT_e4m3);
}

/* V-27: "all matrices of a kind have one, or none" */
static void tell_missing(sb_check *check, const sb_member *m, const presence *p, uint32_t *lines)
{
    int known, wanted = wants_input(check, m, &known);
    sb_level level = wanted ? SB_LEVEL_error : SB_LEVEL_info;
    if (++*lines <= LINES)
        sb_check_find(
            check, 27, level, m->unit->name,
            "%s has no input scale, but %" PRIu32 " others of its kind have one%s",
            SB_SHOW(m->name), p->with,
            wanted ? ""
                   : "; none is declared, and engines that quantize weights only do not need it");
}

static void check_presence(sb_check *check)
{
    const sb_units *u = &check->self.units;
    classes c = {.count = 0};
    uint32_t lines = 0;
    int known;
    for (size_t i = 0; i < u->member_count; i++)
        if (can_have_input(&u->members[i])) {
            presence *p = class_of(&c, &u->members[i]);
            p->with += (uint32_t)has_input(&u->members[i]);
            p->without += (uint32_t)!has_input(&u->members[i]);
        }
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        presence *p = can_have_input(m) ? class_of(&c, m) : NULL;
        if (p && !has_input(m) && p->with >= p->without)
            tell_missing(check, m, p, &lines);
    }
    if (lines > LINES)
        sb_check_find(check, 27, SB_LEVEL_error, "",
                      "%" PRIu32 " more matrices have no input scale where others have one",
                      lines - LINES);
    for (size_t i = 0; i < c.count; i++) {
        const presence *p = &c.rows[i];
        if (p->without == 0 || p->with >= p->without || !wants_input(check, p->first, &known))
            continue;
        if (p->with || known)
            sb_check_find(check, 27, known && !p->with ? SB_LEVEL_error : SB_LEVEL_warn,
                          p->first->unit->name,
                          "%" PRIu32 " of %" PRIu32 " matrices of this kind have an input scale%s",
                          p->with, p->with + p->without, known ? ", expected all" : "");
    }
}

/* --- rules ------------------------------------------------------------------------------------ */

/* V-27: "2688 times the scale, for FP8 448 times the scale, is a BF16 number" */
static sb_answer ask_lattice(const sb_check *check, const sb_member *m, int six)
{
    double v = (double)input_of(m);
    (void)check, (void)six;
    return (sb_bits_f32(input_of(m)) & 0xffffu) == 0 || sb_near_bf16(2688 * v) ||
                   sb_near_bf16(448 * v) || sb_near_bf16(1 / v) || sb_near_bf16(2688 / v)
               ? SB_OBEYED
               : SB_BROKEN;
}

static void tell_lattice(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    (void)check;
    snprintf(text, size, "the input scale %.9g does not follow from a largest activation in BF16",
             (double)input_of(m));
}

/* The first of the matrices that are fused with m, if its input scale is comparable; NULL: there is
 * none, or m is the first. */
static const sb_member *partner(const sb_check *check, const sb_member *m)
{
    const sb_member *group[SB_FUSED_MOST];
    const char *last = strrchr(m->plain, '.');
    for (unsigned s = 0; s < SB_FUSED_SETS && last; s++)
        for (unsigned i = 1; i < SB_FUSED_MOST && sb_fused_sets[s][i]; i++) {
            if (strcmp(last + 1, sb_fused_sets[s][i]) != 0)
                continue;
            group[0] = sb_fused_sibling(&check->self.units, m, sb_fused_sets[s][0]);
            return group[0] && has_number(group[0]) &&
                           group[0]->matrix.quant.input.kind == m->matrix.quant.input.kind
                       ? group[0]
                       : NULL;
        }
    return NULL;
}

/* V-27: "layers that read the same activations have the same one" */
static sb_answer ask_fused(const sb_check *check, const sb_member *m, int six)
{
    const sb_member *p = partner(check, m);
    (void)six;
    if (!p)
        return SB_NOT_ASKED;
    return sb_bits_f32(input_of(p)) == sb_bits_f32(input_of(m)) ? SB_OBEYED : SB_BROKEN;
}

static void tell_fused(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    const sb_member *p = partner(check, m);
    snprintf(text, size, "the input scale is %.9g; %s reads the same input and has %.9g",
             (double)input_of(m), p ? SB_SHOW(p->name) : "", p ? (double)input_of(p) : 0.0);
}

/* The same projection of expert 0 of the layer; NULL: m belongs to expert 0, or there is none. */
static const sb_member *expert_zero(const sb_check *check, const sb_member *m)
{
    char plain[SB_MAX_TENSOR_NAME + 32];
    const char *experts = strstr(m->plain, ".experts.");
    if (!experts || m->matrix.quant.input.kind != SB_MULTIPLIER)
        return NULL;
    experts += strlen(".experts.");
    const char *rest = experts + strspn(experts, "0123456789");
    if (rest == experts)
        return NULL;
    snprintf(plain, sizeof plain, "%.*s0%s", (int)(experts - m->plain), m->plain, rest);
    const sb_member *zero = sb_member_plain(&check->self.units, plain);
    return zero && zero != m && has_number(zero) &&
                   zero->matrix.quant.input.kind == m->matrix.quant.input.kind
               ? zero
               : NULL;
}

/* V-27: "in exports of ModelOpt the experts of a layer share one" */
static sb_answer ask_experts(const sb_check *check, const sb_member *m, int six)
{
    const sb_member *zero = expert_zero(check, m);
    (void)six;
    if (!zero)
        return SB_NOT_ASKED;
    return sb_bits_f32(input_of(zero)) == sb_bits_f32(input_of(m)) ? SB_OBEYED : SB_BROKEN;
}

static void tell_experts(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    const sb_member *zero = expert_zero(check, m);
    snprintf(text, size, "the input scale is %.9g, and that of expert 0 is %.9g",
             (double)input_of(m), zero ? (double)input_of(zero) : 0.0);
}

static const sb_rule rules[] = {
    {27, SB_LEVEL_warn, has_number, ask_lattice, tensor_of, tell_lattice, NULL},
    {27, SB_LEVEL_warn, has_number, ask_fused, tensor_of, tell_fused, NULL},
    {27, SB_LEVEL_warn, has_number, ask_experts, tensor_of, tell_experts, NULL},
};

/* --- all of them ------------------------------------------------------------------------------ */

/* The factor that inputs are divided by, whichever direction is stored. */
static double multiplier(const sb_member *m)
{
    double v = (double)input_of(m);
    return m->matrix.quant.input.kind == SB_DIVISOR ? 1 / v : v;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 1 for exactly one of the matrices that share an input scale, as experts and fused layers do. */
static int stands_alone(const sb_check *check, const sb_member *m)
{
    return m->seen->done && has_number(m) && !partner(check, m) && !expert_zero(check, m);
}

enum { FEW = 8 }; /* fewer inputs say nothing about a checkpoint */

/* In ascending order; NULL: too few, or memory ran out. */
static double *multipliers(const sb_check *check, size_t *count)
{
    const sb_units *u = &check->self.units;
    double *all = sb_alloc(u->member_count, sizeof *all);
    *count = 0;
    for (size_t i = 0; i < u->member_count && all; i++)
        if (stands_alone(check, &u->members[i]))
            all[(*count)++] = multiplier(&u->members[i]);
    if (!all || *count < FEW) {
        free(all);
        return NULL;
    }
    qsort(all, *count, sizeof *all, ascending);
    return all;
}

/* V-27: "above 1, and the reciprocal of the multiplier is within a factor of 8 of the median" */
static void tell_reciprocal(sb_check *check, const sb_member *m, double median)
{
    double v = multiplier(m);
    if (v > 1 && median < 0.125 && 1 / v <= 8 * median && 8 / v >= median)
        sb_check_find(
            check, 27, SB_LEVEL_warn, tensor_of(m),
            "%s: the input scale is %g; its reciprocal would be usual here: the median is %g",
            SB_SHOW(m->name), (double)input_of(m),
            m->matrix.quant.input.kind == SB_DIVISOR ? 1 / median : median);
}

static void check_all(sb_check *check)
{
    const sb_units *u = &check->self.units;
    size_t count;
    double *all = multipliers(check, &count);
    if (!all)
        return;
    double median = all[count / 2];
    /* V-27: "all of them are the same number" - 1 may be chosen on purpose */
    if (!(all[0] < all[count - 1]))
        sb_check_find(
            check, 27, median == 1 ? SB_LEVEL_info : SB_LEVEL_warn, "",
            "all %zu input scales are equal, %g as a multiplier: they were not calibrated", count,
            median);
    /* V-27: "a median multiplier above 1" */
    else if (median > 1)
        sb_check_find(check, 27, SB_LEVEL_error, "",
                      "the median of %zu input scales is %g as a multiplier, expected far below 1: "
                      "the reciprocals are stored",
                      count, median);
    for (size_t i = 0; i < u->member_count; i++)
        if (u->members[i].seen->done && has_number(&u->members[i]))
            tell_reciprocal(check, &u->members[i], median);
    free(all);
}

void sb_check_inputs(sb_check *check)
{
    const sb_units *u = &check->self.units;
    for (size_t i = 0; i < u->member_count; i++)
        if (u->members[i].seen->done && has_input(&u->members[i]))
            check_value(check, &u->members[i]);
    check_presence(check);
    check_all(check);
    sb_ask(check, rules, sizeof rules / sizeof *rules);
}
