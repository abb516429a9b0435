#include "tools/check/scan/int_usual.h"

#include <inttypes.h>

#include "tools/check/scan/follow.h"
#include "tools/check/scan/ints.h"
#include "tools/check/scan/recipe.h"
#include "tools/check/scan/rows.h"

int sb_int_member(const sb_member *m)
{
    return m->seen->done && sb_container_family(m->unit->found.container) == SB_FAMILY_INT;
}

static void count_member(sb_int_usual *u, const sb_member *m)
{
    const sb_seen_int *s = &m->seen->ints;
    sb_region region = m->unit->region;
    u->matrices++;
    if (s->words && m->matrix.quant.zeros != SB_ZEROS_awq) {
        u->v1 += s->words_v1 == s->words;
        u->v2 += s->words_v2 == s->words;
        u->versions = u->v1 + u->v2;
    }
    u->groups += s->groups;
    u->negative += s->negative;
    u->live += s->live;
    u->inner += s->inner.count;
    u->compared[region] += s->compared && m->seen->has_distance;
    u->nearest[region] += s->compared && m->seen->has_distance && s->far.count == 0;
}

void sb_int_usual_make(sb_check *check, sb_int_usual *u)
{
    const sb_units *units = &check->self.units;
    *u = (sb_int_usual){.check = check};
    for (size_t i = 0; i < units->member_count; i++)
        if (sb_int_member(&units->members[i]))
            count_member(u, &units->members[i]);
    if (!u->matrices)
        return;
    u->producer = sb_producer_of(check);
    u->recipe = sb_recipe_of(check);
    u->tunes = u->producer == SB_PRODUCER_auto_round && sb_producer_tunes(check);
    u->strays = u->producer == SB_PRODUCER_auto_round && sb_producer_strays(check);
}

static const char *signature(double ratio)
{
    return ratio > 10                   ? ", as with a wrong scale"
           : ratio > 1.9 && ratio < 2.1 ? ", as with the sign inverted"
           : ratio > 1.2 && ratio < 1.6
               ? ", as with another or a permuted tensor (order of nibbles)"
               : "";
}

/* V-38: "at least half of the matrices" */
static int most(uint64_t some, uint64_t all)
{
    return 2 * some >= all;
}

static int is_near(const sb_member *m)
{
    const sb_seen *s = m->seen;
    return sb_int_member(m) && s->ints.compared && s->has_distance ? s->ints.far.count == 0 : -1;
}

static int is_inside(const sb_member *m)
{
    const sb_seen *s = m->seen;
    return sb_int_member(m) && s->ints.compared && s->has_distance ? s->ints.beyond.count == 0 : -1;
}

/* V-38: "in files of AutoRound a part is a decoder layer" */
static int rounds_to_nearest(sb_int_usual *u, const sb_member *m)
{
    sb_region region = m->unit->region;
    return u->tunes ? sb_block_agrees(&u->near, &u->check->self.units, m, is_near)
                    : most(u->nearest[region], u->compared[region]);
}

static int stays_within(sb_int_usual *u, const sb_member *m)
{
    return u->tunes && !u->strays &&
           sb_block_agrees(&u->inside, &u->check->self.units, m, is_inside);
}

/* Returns 1 if there was a finding. */
static int judge_codes(sb_int_usual *u, const sb_member *m, double ratio)
{
    const sb_seen_int *s = &m->seen->ints;
    const sb_places *which = NULL;
    const char *what = "";
    if (m->seen->ints.far.count &&
        ((u->recipe & ~(unsigned)SB_RECIPE_there) || sb_follow_is_normed(u->check, m)))
        return 0; /* V-38: "No single code is judged" */
    if (rounds_to_nearest(u, m)) {
        which = &s->far;
        what = "not nearest codes to the original's weights";
    } else if (stays_within(u, m)) {
        which = &s->beyond;
        what = "more than a step off the original's weights";
    }
    if (!which || !which->count)
        return 0;
    sb_check_find(u->check, 38, SB_LEVEL_error, sb_tensor_with(m, m->matrix.data),
                  "%" PRIu64 " of %" PRIu64
                  " codes are %s, unlike in the other layers; the relative error is %.4f%s: %s",
                  which->count, m->seen->distance.count, what, ratio, signature(ratio),
                  sb_show_places(u->check, m, which, sb_code_byte, 1, &(sb_places_text){{0}}));
    return 1;
}

/* V-38: "to find an explanation of a larger error" */
static void judge_whole(const sb_int_usual *u, const sb_member *m, double limit, double usual)
{
    char text[256];
    const char *name = sb_tensor_with(m, m->matrix.data);
    sb_follow f = sb_follow_of(u->check, m);
    /* AWQ scales no norm if there is none before the layer: then scaled columns alone are normal */
    int awq = u->producer == SB_PRODUCER_awq || (u->recipe & SB_RECIPE_smoothed);
    int scaled = f.how == SB_FOLLOWS_columns || f.how == SB_FOLLOWS_rows;
    if (f.how == SB_FOLLOWS_unknown)
        return;
    if (!sb_follow_may_be(&f))
        sb_check_find(u->check, 38, awq && scaled && !f.normed ? SB_LEVEL_warn : SB_LEVEL_error,
                      name, "the relative error is %.4f, expected at most %.2f: %s", f.error, limit,
                      sb_follow_text(&f, text, sizeof text));
    else if (f.dead)
        sb_check_find(
            u->check, 38, SB_LEVEL_warn, name,
            "%" PRIu32
            " columns are zero here and not in the original: GPTQ writes such columns where the "
            "inputs were always zero; the relative error of the other columns is %.4f",
            f.dead, f.left);
    else if (f.cut > 0)
        sb_check_find(u->check, 38, SB_LEVEL_warn, name,
                      "far from its original: relative error %.4f, usually %g. %.1f %% of its "
                      "weights are beyond the last codes, as tuned scales may leave them; without "
                      "these weights the relative error is %.4f",
                      sb_distance_ratio(&m->seen->distance), usual, 100 * f.cut, f.left);
    else if (f.left > limit)
        sb_check_find(u->check, 38, SB_LEVEL_warn, name,
                      "far from its original: relative error %.4f, usually %g", f.left, usual);
}

/* V-38: "0.35 with 4 bits, 0.05 with 8" */
static void judge_ratio(const sb_int_usual *u, const sb_member *m, double ratio)
{
    int wide = sb_int_is_wide(&m->matrix);
    double limit = wide ? 0.05 : 0.35;
    if (ratio > limit || m->seen->ints.rows_off.count || sb_follow_is_normed(u->check, m))
        judge_whole(u, m, limit, wide ? 0.01 : 0.13);
}

void sb_judge_int_distance(sb_int_usual *u, const sb_member *m)
{
    if (!m->seen->has_distance || !m->seen->ints.compared)
        return;
    double ratio = sb_distance_ratio(&m->seen->distance);
    if (!judge_codes(u, m, ratio))
        judge_ratio(u, m, ratio);
}
