/* fp8_groups.c - checks 28 to 31: judges FP8 and MXFP8 matrices after all of them were scanned
 * (scan_fp8.c), so that each is compared with what is usual in the checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/block_votes.h"
#include "tools/check/scan/follow.h"
#include "tools/check/scan/producer.h"
#include "tools/check/scan/recipe.h"
#include "tools/check/scan/rows.h"

/* What is usual in the checkpoint. */
typedef struct usual {
    sb_check *check;
    sb_producer producer;
    uint64_t live, low; /* live units, and those whose largest code is too small */
    uint64_t powers,
        /* live units of matrices whose scales are all powers of two, and those of them with code
         * 448 */
        full_powers;
    uint64_t matrices, all_powers;
    uint64_t rounded; /* matrices whose scales were probably rounded afterwards */
    uint64_t cut;     /* matrices without a full code whose units all have the same largest code */
    unsigned cut_top;
    uint64_t compared; /* matrices compared with an original */
    /* of these, matrices with more than one far code in 64, but no large error */
    uint64_t many_far;
    /* votes of members in AutoRound's layers: 1 if all codes are nearest ones */
    sb_block_votes near;
    uint64_t some_low;      /* matrices with a unit whose largest code is slightly too small */
    unsigned recipe;        /* sb_recipe */
    int has_middle, middle; /* median over matrices of the mean exponent of their scales */
} usual;

static int is_fp8(const sb_member *m)
{
    return m->seen->done && sb_container_is_fp8(m->unit->found.container);
}

static const char *scale_name(const sb_member *m)
{
    return sb_tensor_with(m, m->matrix.quant.scales);
}

static const char *code_name(const sb_member *m)
{
    return sb_tensor_with(m, m->matrix.data);
}

static unsigned scale_bytes(const sb_member *m)
{
    return (unsigned)sb_format_bytes(m->matrix.quant.scale_format);
}

#define PLACES(u, m, which, byte, bytes)                                                           \
    sb_show_places((u)->check, (m), &(m)->seen->fp8.which, (byte), (bytes), &(sb_places_text){{0}})

/* --- 28 --------------------------------------------------------------------------------------- */

/* V-28: "The E4M3 codes 0x7f and 0xff are not numbers" */
static void judge_codes(const usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    if (s->nan.count)
        sb_check_find(u->check, 28, SB_LEVEL_fatal, code_name(m),
                      "%s%" PRIu64 " codes are NaN, expected numbers: %s", SB_PIECE(m),
                      s->nan.count, PLACES(u, m, nan, sb_code_byte, 1));
}

/* --- 29 --------------------------------------------------------------------------------------- */

/* V-29: "the scales of all live units of a matrix are above 1" */
static int is_inverse(const sb_seen_fp8 *s)
{
    return s->live > 0 && s->least > 1;
}

static int mean_exponent(const sb_seen_fp8 *s)
{
    return s->live ? (int)(s->exponents / (int64_t)s->live) : 0;
}

/* V-29: "ModelOpt's scale of a whole matrix, times 448, must be within two steps of binary32 of a
 * BF16 number" */
static int is_off_lattice(const sb_member *m)
{
    float scale, amax;
    if (m->unit->found.container != SB_CONTAINER_fp8_tensor ||
        m->matrix.quant.scale_format != SB_FORMAT_f32 || !m->seen->fp8.live)
        return 0;
    memcpy(&scale, &m->seen->fp8.least, sizeof scale);
    amax = (float)(448.0 * (double)scale);
    uint32_t low = sb_bits_f32(amax) & 0xffffu;
    return low > 2 && low < 0xfffe;
}

/* V-29: "low scales are one WARN for the checkpoint" */
static int is_low(const usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    return s->live && (s->least < (float)(1e-6 / 448) ||
                       (u->has_middle && mean_exponent(s) - u->middle <= -10));
}

static void judge_size(const usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    int mean = mean_exponent(s), apart = mean - u->middle;
    if (s->high_scale.count)
        sb_check_find(u->check, 29, SB_LEVEL_error, scale_name(m),
                      "%s%" PRIu64
                      " scales give a largest weight above 1e3 (scales are %g to %g): %s",
                      SB_PIECE(m), s->high_scale.count, (double)s->least, (double)s->most,
                      PLACES(u, m, high_scale, sb_scale_byte, scale_bytes(m)));
    else if (s->live && u->has_middle && apart >= 10)
        sb_check_find(u->check, 29, SB_LEVEL_error, scale_name(m),
                      "%sscales of %g to %g are 2^%d times those of the other matrices",
                      SB_PIECE(m), (double)s->least, (double)s->most, apart);
    else if (s->live > 1 && sb_bits_f32(s->most) >> 23 > (uint32_t)(mean + 127 + 10) &&
             !is_low(u, m))
        sb_check_find(u->check, 29, SB_LEVEL_warn, scale_name(m),
                      "%sthe largest scale is %g, but the average scale is 2^%d", SB_PIECE(m),
                      (double)s->most, mean);
}

static void tell_low(const usual *u, const sb_units *units)
{
    const sb_member *first = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < units->member_count; i++)
        if (is_fp8(&units->members[i]) && is_low(u, &units->members[i]) && count++ == 0)
            first = &units->members[i];
    if (first)
        sb_check_find(u->check, 29, SB_LEVEL_warn, count == 1 ? scale_name(first) : "",
                      "%" PRIu64 " FP8 matrices have scales for a largest weight below 1e-6, or "
                      "1000 times smaller than in other matrices, as dead rows and "
                      "experts have. The first is %s, its least scale %g",
                      count, SB_SHOW(scale_name(first)), (double)first->seen->fp8.least);
}

static void judge_scales(const usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    if (s->bad_scale.count)
        sb_check_find(u->check, 29, SB_LEVEL_fatal, scale_name(m),
                      "%s%" PRIu64 " scales are negative, infinite or NaN, expected positive "
                      "numbers: %s",
                      SB_PIECE(m), s->bad_scale.count,
                      PLACES(u, m, bad_scale, sb_scale_byte, scale_bytes(m)));
    if (s->lost.count)
        sb_check_find(u->check, 29, SB_LEVEL_error, scale_name(m),
                      "%s%" PRIu64 " scales are 0, and their codes are not: %s", SB_PIECE(m),
                      s->lost.count, PLACES(u, m, lost, sb_scale_byte, scale_bytes(m)));
    if (s->dead.count && s->live && s->dead_least >= s->least / 4)
        sb_check_find(u->check, 29, SB_LEVEL_error, code_name(m),
                      "%s%" PRIu64 " units (weights that share a scale) have only zero codes, but "
                      "a scale that zeros do not get: %s",
                      SB_PIECE(m), s->dead.count,
                      PLACES(u, m, dead, sb_scale_byte, scale_bytes(m)));
    if (is_inverse(s))
        sb_check_find(u->check, 29, SB_LEVEL_fatal, scale_name(m),
                      "%severy scale is above 1 (%g to %g): the inverse was stored, expected "
                      "multipliers of about largest weight / 448",
                      SB_PIECE(m), (double)s->least, (double)s->most);
    else
        judge_size(u, m);
    if (u->producer == SB_PRODUCER_modelopt && is_off_lattice(m))
        sb_check_find(
            u->check, 29, SB_LEVEL_warn, scale_name(m),
            "%s448 times the scale %.9g is not a BF16 number, expected the largest of BF16 weights",
            SB_PIECE(m), (double)s->least);
}

/* --- 30 --------------------------------------------------------------------------------------- */

static sb_level max_level(const usual *u, const sb_member *m)
{
    int known =
        u->producer == SB_PRODUCER_compressed_tensors || u->producer == SB_PRODUCER_modelopt;
    return known && m->unit->found.container != SB_CONTAINER_mxfp8 ? SB_LEVEL_error : SB_LEVEL_warn;
}

/* 1 if a layer that engines fuse with this one has the same scale and the full code. */
static int partner_is_full(const usual *u, const sb_member *m)
{
    static const char *const partners[][3] = {{"q_proj", "k_proj", "v_proj"},
                                              {"gate_proj", "up_proj", NULL},
                                              {"in_proj_qkv", "in_proj_z", NULL}};
    const char *dot = strrchr(m->plain, '.'), *last = dot ? dot + 1 : m->plain;
    char name[SB_MAX_TENSOR_NAME + 64];
    for (size_t i = 0; i < 3; i++) {
        int mine = 0;
        for (size_t j = 0; j < 3; j++)
            mine |= partners[i][j] && strcmp(last, partners[i][j]) == 0;
        for (size_t j = 0; j < 3 && mine && partners[i][j]; j++) {
            snprintf(name, sizeof name, "%.*s%s", (int)(last - m->plain), m->plain, partners[i][j]);
            const sb_member *p = sb_member_plain(&u->check->self.units, name);
            if (p && p != m && is_fp8(p) && p->seen->fp8.top == 0x7e &&
                sb_bits_f32(p->seen->fp8.most) == sb_bits_f32(m->seen->fp8.most))
                return 1;
        }
    }
    return 0;
}

/* V-30: "scales that were rounded to powers of two while the codes stayed" */
static int was_rounded(const usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    if (!s->live || s->live_powers != s->live || s->full_powers != s->live_powers)
        return 0;
    if (m->unit->found.container == SB_CONTAINER_mxfp8 || s->live >= 6)
        return s->live >= 6;
    return u->powers >= 6 && 4 * u->full_powers >= 3 * u->powers && 2 * u->all_powers > u->matrices;
}

/* V-30: "GPTQ computes each code from weights that it has changed" */
static int misses_by_habit(const usual *u, const sb_member *m)
{
    if (m->seen->fp8.top < 0x78 || (u->recipe & ~(unsigned)SB_RECIPE_tuned) == SB_RECIPE_there)
        return m->seen->fp8.top >= 0x78 && (u->recipe & SB_RECIPE_tuned);
    return u->producer == SB_PRODUCER_compressed_tensors && u->some_low >= 3 &&
           4 * u->some_low >= u->matrices;
}

static void judge_max(const usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    int amax = 2 * u->low <= u->live; /* V-30: "at least half of all units" */
    if (2 * u->rounded <= u->matrices && was_rounded(u, m))
        sb_check_find(u->check, 30, SB_LEVEL_error, scale_name(m),
                      "%sall %" PRIu32 " scales are powers of two and every unit has code 0x7e: "
                      "the scales were rounded and the codes were not computed again",
                      SB_PIECE(m), s->live);
    if (!s->low.count || !amax || misses_by_habit(u, m))
        return;
    if (m->unit->found.container == SB_CONTAINER_fp8_tensor && partner_is_full(u, m))
        return;
    sb_check_find(u->check, 30, max_level(u, m), code_name(m),
                  "%s%" PRIu64 " of %" PRIu32
                  " units (weights that share a scale) have no code as large as their scale allows "
                  "(largest code of all: 0x%02x, expected 0x7e%s): %s",
                  SB_PIECE(m), s->low.count, s->live, s->top,
                  s->live_powers ? ", or 0x76 and more with scales that are powers of two" : "",
                  PLACES(u, m, low, sb_scale_byte, scale_bytes(m)));
}

/* Reports all matrices whose codes usually miss the end of the range, in one finding. */
static void tell_misses(const usual *u, const sb_units *units)
{
    const sb_member *first = NULL;
    uint64_t count = 0, low = 0;
    for (size_t i = 0; i < units->member_count; i++) {
        const sb_member *m = &units->members[i];
        if (!is_fp8(m) || !m->seen->fp8.low.count || !misses_by_habit(u, m))
            continue;
        first = count++ ? first : m;
        low += m->seen->fp8.low.count;
    }
    if (first && 2 * u->low <= u->live)
        sb_check_find(u->check, 30, SB_LEVEL_info, code_name(first),
                      "%" PRIu64 " units (weights that share a scale) of %" PRIu64
                      " matrices, this one first, have no code as large as their scale allows: "
                      "codes were not rounded to nearest (GPTQ)",
                      low, count);
}

/* Reports rounded scales in one finding, if most matrices have them. */
static void tell_rounded(const usual *u)
{
    if (2 * u->rounded > u->matrices)
        sb_check_find(u->check, 30, SB_LEVEL_error, "",
                      "the scales of %" PRIu64 " of %" PRIu64
                      " FP8 matrices are powers of two, and every unit has code 0x7e: the scales "
                      "were rounded and the codes were not computed again",
                      u->rounded, u->matrices);
}

/* V-30: "nine in ten matrices may end at the same smaller code" */
static void judge_cut(const usual *u)
{
    if (2 * u->low <= u->live || !u->matrices)
        return;
    int known =
        u->producer == SB_PRODUCER_compressed_tensors || u->producer == SB_PRODUCER_modelopt;
    if (u->cut * 10 >= u->matrices * 9)
        sb_check_find(
            u->check, 30, known ? SB_LEVEL_error : SB_LEVEL_warn, "",
            "the largest FP8 code of %" PRIu64 " of %" PRIu64 " matrices is 0x%02x, "
            "expected 0x7e (448)%s",
            u->cut, u->matrices, u->cut_top,
            u->cut_top == 0x77 ? ": weights were clipped at 240, the limit of another E4M3" : "");
    else
        sb_check_find(u->check, 30, SB_LEVEL_info, "",
                      "%" PRIu64 " of %" PRIu64
                      " FP8 units (weights that share a scale) have no code of the largest "
                      "magnitude: the scales were not made from the largest weight",
                      u->low, u->live);
}

/* --- 31 --------------------------------------------------------------------------------------- */

static const char *signature(double ratio)
{
    return ratio > 10                       ? ", as with a reciprocal scale"
           : ratio > 1.9 && ratio < 2.1     ? ", as with the sign inverted"
           : ratio > 1.3 && ratio < 1.5     ? ", as with another or a permuted tensor"
           : ratio > 0.033 && ratio < 0.042 ? ", as after quantizing twice"
                                            : "";
}

/* V-31: "was rounded with compensation", by the recipe or, where there is none, by the codes */
static int is_tuned(const usual *u)
{
    if (u->recipe)
        return (u->recipe & SB_RECIPE_tuned) != 0;
    return u->producer == SB_PRODUCER_compressed_tensors && u->compared >= 3 &&
           2 * u->many_far > u->compared;
}

/* V-31: "No single code of these matrices is judged" - single codes and scales have no limits, but
 * the matrix as a whole has. */
static void judge_whole(const usual *u, const sb_member *m, double ratio)
{
    char text[256];
    sb_follow f;
    if (ratio <= 0.04 && !sb_follow_is_normed(u->check, m))
        return;
    f = sb_follow_of(u->check, m);
    if (!sb_follow_may_be(&f))
        sb_check_find(
            u->check, 31, SB_LEVEL_error, code_name(m),
            "%sthe relative error is %.4f, expected 0.0264, up to 0.05 if codes were tuned: %s",
            SB_PIECE(m), f.error, sb_follow_text(&f, text, sizeof text));
    else if (f.dead)
        sb_check_find(
            u->check, 31, SB_LEVEL_warn, code_name(m),
            "%s%" PRIu32
            " columns are zero here and not in the original: GPTQ writes such columns where the "
            "inputs were always zero; the relative error of the other columns is %.4f",
            SB_PIECE(m), f.dead, f.left);
    else if (f.left > 0.05)
        sb_check_find(u->check, 31, SB_LEVEL_warn, code_name(m),
                      "%sfar from its original: relative error %.4f, usually 0.0264", SB_PIECE(m),
                      f.left);
}

static int is_near(const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    return is_fp8(m) && s->compared ? s->far.count == 0 : -1;
}

/* V-31: "If more than half of the matrices of a decoder layer have such codes", and "up to a
 * relative error of 0.1": tuning moves codes by a step. */
static int layer_is_tuned(usual *u, const sb_member *m, double ratio)
{
    return u->producer == SB_PRODUCER_auto_round && ratio <= 0.1 &&
           !sb_block_agrees(&u->near, &u->check->self.units, m, is_near);
}

/* Writes a ratio. For a huge ratio, the last digits would show only rounding errors of binary32
 * sums. */
static const char *show_ratio(double ratio, char *text, size_t size)
{
    snprintf(text, size, ratio < 1e6 ? "%.4f" : "%.3g", ratio);
    return text;
}

static void tell_far(usual *u, const sb_member *m, double ratio)
{
    const sb_seen *seen = m->seen;
    char text[32];
    sb_check_find(
        u->check, 31, layer_is_tuned(u, m, ratio) ? SB_LEVEL_info : SB_LEVEL_error, code_name(m),
        "%s%" PRIu64 " of %" PRIu64 " codes are not nearest codes to the original's weights; the "
        "relative error is %s, expected 0.0264%s: %s",
        SB_PIECE(m), seen->fp8.far.count, seen->distance.count,
        show_ratio(ratio, text, sizeof text), signature(ratio), PLACES(u, m, far, sb_code_byte, 1));
}

/* V-31: "a nearest code to t = w / S within |t| / 256" */
static void judge_nearest(usual *u, const sb_member *m)
{
    const sb_seen *seen = m->seen;
    const sb_seen_fp8 *s = &seen->fp8;
    char text[32];
    if (!s->compared || !seen->has_distance)
        return;
    double ratio = sb_distance_ratio(&seen->distance);
    int tuned = u->producer != SB_PRODUCER_auto_round && is_tuned(u);
    /* V-38: "the product is compared" - also for weights that were not changed */
    int smoothed = sb_follow_is_normed(u->check, m) ||
                   (s->far.count && (u->recipe & (SB_RECIPE_smoothed | SB_RECIPE_rotated)));
    if (smoothed || (tuned && s->far.count))
        judge_whole(u, m, ratio);
    else if (s->far.count)
        tell_far(u, m, ratio);
    else if (s->clipped.count)
        sb_check_find(u->check, 31, SB_LEVEL_error, code_name(m),
                      "%s%" PRIu64
                      " of the original's weights are beyond 1.1 times 448 times the scale, and "
                      "were clipped: the scale belongs to other weights: %s",
                      SB_PIECE(m), s->clipped.count, PLACES(u, m, clipped, sb_code_byte, 1));
    else if (ratio > 0.03 && s->low.count) /* without it, the weights have few different digits */
        sb_check_find(u->check, 31, SB_LEVEL_error, code_name(m),
                      "%sthe relative error is %s, expected 0.0264: the scales are far too "
                      "large for these weights",
                      SB_PIECE(m), show_ratio(ratio, text, sizeof text));
    else if (ratio < 0.015 && seen->distance.count >= 16384 && seen->distance.master2 > 0)
        sb_check_find(u->check, 31, SB_LEVEL_warn, code_name(m),
                      "%sthe relative error is %.4f, expected 0.0264: the original has hardly "
                      "more digits than FP8",
                      SB_PIECE(m), ratio);
}

/* V-31: "one INFO says so" */
static void tell_tuned(const usual *u)
{
    if (u->producer != SB_PRODUCER_auto_round && is_tuned(u) && u->many_far)
        sb_check_find(u->check, 31, SB_LEVEL_info, "",
                      "the codes of %" PRIu64 " of %" PRIu64
                      " FP8 matrices are not the nearest codes, as GPTQ writes them: each matrix "
                      "is judged as a whole",
                      u->many_far, u->compared);
}

/* --- all -------------------------------------------------------------------------------------- */

static int int_order(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void find_middle(usual *u, const sb_units *units)
{
    int *means = sb_alloc(units->member_count, sizeof *means);
    size_t count = 0;
    for (size_t i = 0; i < units->member_count && means; i++)
        if (is_fp8(&units->members[i]) && units->members[i].seen->fp8.live)
            means[count++] = mean_exponent(&units->members[i].seen->fp8);
    if (count >= 5) {
        qsort(means, count, sizeof *means, int_order);
        u->middle = means[count / 2];
        u->has_middle = 1;
    }
    free(means);
}

static void count_usual(usual *u, const sb_member *m)
{
    const sb_seen_fp8 *s = &m->seen->fp8;
    if (!s->live)
        return;
    u->matrices++;
    u->live += s->live;
    u->low += s->low.count;
    u->compared += s->compared;
    u->many_far += s->compared && s->far.count > m->seen->distance.count / 64 &&
                   sb_distance_ratio(&m->seen->distance) <= 0.06;
    u->some_low += s->low.count != 0 && s->top >= 0x78;
    if (s->live_powers == s->live) {
        u->all_powers++;
        u->powers += s->live_powers;
        u->full_powers += s->full_powers;
    }
    if (s->top != 0x7e && (u->cut == 0 || s->top == u->cut_top)) {
        u->cut++;
        u->cut_top = s->top;
    }
}

/* V-29: "all scales of a checkpoint are powers of two" */
static void tell_powers(const usual *u, uint64_t mx)
{
    if (u->all_powers == u->matrices && mx < u->matrices && u->powers >= 6)
        sb_check_find(u->check, 29, SB_LEVEL_info, "",
                      "the scales of all %" PRIu64 " FP8 matrices are powers of two: a UE8M0 "
                      "checkpoint",
                      u->matrices);
}

void sb_check_fp8_groups(sb_check *check)
{
    const sb_units *units = &check->self.units;
    usual u = {.check = check};
    uint64_t mx = 0, any = 0;
    for (size_t i = 0; i < units->member_count; i++)
        if (is_fp8(&units->members[i])) {
            any++;
            count_usual(&u, &units->members[i]);
            mx += units->members[i].unit->found.container == SB_CONTAINER_mxfp8;
        }
    if (!any)
        return;
    u.producer = sb_producer_of(check);
    u.recipe = sb_recipe_of(check);
    find_middle(&u, units);
    for (size_t i = 0; i < units->member_count; i++)
        u.rounded += is_fp8(&units->members[i]) && was_rounded(&u, &units->members[i]);
    for (size_t i = 0; i < units->member_count; i++) {
        const sb_member *m = &units->members[i];
        if (!is_fp8(m))
            continue;
        judge_codes(&u, m);
        judge_scales(&u, m);
        judge_max(&u, m);
        judge_nearest(&u, m);
    }
    tell_low(&u, units);
    tell_rounded(&u);
    tell_misses(&u, units);
    tell_tuned(&u);
    judge_cut(&u);
    tell_powers(&u, mx);
}
