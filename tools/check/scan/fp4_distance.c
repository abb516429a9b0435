/* fp4_distance.c - how far a matrix is from its original as a whole. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/root.h"
#include "tools/check/scan/fp4.h"
#include "tools/check/scan/follow.h"
#include "tools/check/scan/producer.h"
#include "tools/check/scan/recipe.h"

/* The root of a sum of squares; 0 where the sum is not a number or nearly infinite. */
static double length_of(double squares)
{
    return squares > 0 && squares < 1e300 ? sb_sqrt64(squares) : 0;
}

double sb_fp4_distance(const sb_seen *seen)
{
    const sb_distance *d = &seen->distance;
    if (!seen->has_distance || !(d->master2 > 0) || !(d->error2 < 1e300))
        return -1;
    return length_of(d->error2 / d->master2);
}

/* V-24: "The best factor": <v, w> / <w, w>. Rounding leaves it within a hundredth of 1. */
static const double SLOPE = 0.04; /* twice this for MXFP4, which clips values above 6 */
static double best_factor(const sb_seen *seen)
{
    const sb_distance *d = &seen->distance;
    return d->master2 > 0 ? (seen->moments.sum2 + d->master2 - d->error2) / 2 / d->master2 : 1;
}

/* V-24: "the product of both follows from the three sums": |v - w|^2 = |v|^2 - 2 vw + |w|^2. */
const char *sb_fp4_signature(const sb_seen *seen, char *text, size_t size)
{
    double w2 = seen->distance.master2, v2 = seen->moments.sum2;
    double ratio = w2 > 0 ? length_of(v2 / w2) : 0;
    double length = length_of(v2) * length_of(w2);
    double cosine = length > 0 ? (v2 + w2 - seen->distance.error2) / 2 / length : 0;
    double factor = best_factor(seen), off = factor > 1 ? factor - 1 : 1 - factor;
    if (v2 == 0)
        snprintf(text, size, "all values are zero");
    else if (cosine > 0.985 && off > SLOPE)
        snprintf(text, size, "it is the original times %.4g: the global scale is wrong%s", ratio,
                 ratio > 50 || ratio < 0.02 ? ", perhaps its reciprocal" : "");
    else if (cosine < -0.9)
        snprintf(text, size, "the signs are inverted");
    else if (cosine > 0.985)
        snprintf(text, size, "each weight is a little off");
    else if (cosine > 0.6)
        snprintf(text, size,
                 "it resembles the original (cosine %.3f): block scales are misplaced (rows "
                 "shifted, swapped or swizzled), or a part of the codes is damaged",
                 cosine);
    else
        snprintf(text, size,
                 "it does not resemble the original (cosine %.3f): codes are permuted (order of "
                 "nibbles, rows shifted, halves swapped), or it is another tensor",
                 cosine);
    return text;
}

/* Limits of the distance. Published values for NVFP4 are 0.083 to 0.107. Scales that are powers of
 * two cost MXFP4 up to 0.13. */
typedef struct limits {
    double good, bad, wrong;
} limits;
static const limits nvfp4 = {0.06, 0.12, 0.20}, mxfp4 = {0.06, 0.15, 0.22};

const sb_member *sb_fp4_member(const sb_panel *p)
{
    const sb_units *units = &p->check->self.units;
    if (!p->check->self.checkpoint)
        return NULL;
    size_t n = strlen(units->prefix);
    return sb_member_plain(units, strncmp(p->name, units->prefix, n) == 0 ? p->name + n : p->name);
}

int sb_fp4_may_be_tuned(const sb_panel *p, sb_follow *f)
{
    if (!(sb_recipe_of(p->check) & ~(unsigned)SB_RECIPE_there) && !sb_producer_tunes(p->check))
        return 0;
    const sb_member *m = sb_fp4_member(p);
    *f = m ? sb_follow_of(p->check, m) : (sb_follow){.how = SB_FOLLOWS_unknown};
    return sb_follow_may_be(f);
}

/* V-24: "the rest has the best factor 1" - d includes the cut weights */
static int tell_cut(const sb_fp4 *f, const sb_follow *follow, double d, const char *tensor,
                    const char *piece)
{
    double off = follow->factor > 1 ? follow->factor - 1 : 1 - follow->factor;
    if (off > (f->mx ? 2 * SLOPE : SLOPE) || follow->left > (f->mx ? mxfp4 : nvfp4).wrong)
        return 0;
    sb_find(f->panel->findings, 24, SB_LEVEL_warn, tensor,
            "%sfar from its original: relative error %.4g, usually 0.095. %.1f %% of its weights "
            "are beyond the largest code, as tuned scales may leave them; without these weights "
            "the relative error is %.4g",
            piece, d, 100 * follow->cut, follow->left);
    return 1;
}

/* Reports a large distance that tuned codes explain. Returns 1 if they do, with or without a
 * finding. */
static int tell_tuned(const sb_fp4 *f, double d, const char *tensor, const char *piece)
{
    sb_follow follow;
    if (!sb_fp4_may_be_tuned(f->panel, &follow))
        return 0;
    if (sb_producer_tunes(f->panel->check))
        return tell_cut(f, &follow, d, tensor, piece);
    if (follow.dead)
        sb_find(f->panel->findings, 24, SB_LEVEL_warn, tensor,
                "%s%" PRIu32
                " columns are zero here and not in the original: GPTQ writes such columns where "
                "the inputs were always zero; the relative error of the other columns is %.4f",
                piece, follow.dead, follow.left);
    else if (follow.left > 0.12) /* without the factors of a smoothed pair */
        sb_find(f->panel->findings, 24, SB_LEVEL_warn, tensor,
                "%sfar from its original: relative error %.4g, usually 0.095", piece, follow.left);
    return 1;
}

/* V-24: "Where the norm before a layer was scaled" - returns 1 if it was, with or without a
 * finding. */
static int tell_normed(const sb_fp4 *f, const limits *l, const char *tensor, const char *piece)
{
    const sb_member *m = sb_fp4_member(f->panel);
    char text[256];
    if (!m || !sb_follow_is_normed(f->panel->check, m))
        return 0;
    sb_follow follow = sb_follow_of(f->panel->check, m);
    if (follow.how == SB_FOLLOWS_unknown)
        return 0;
    int columns = follow.how == SB_FOLLOWS_columns && !follow.paired;
    if (columns || (follow.error > l->wrong && !sb_follow_may_be(&follow)))
        sb_find(f->panel->findings, 24, SB_LEVEL_error, tensor,
                "%sthe norm before this layer was scaled, and the product of norm and layer is not "
                "the original's: relative error %.4g, expected 0.08 to %.2g: %s",
                piece, follow.error, l->bad, sb_follow_text(&follow, text, sizeof text));
    else if (follow.left > l->bad)
        sb_find(f->panel->findings, 24, SB_LEVEL_warn, tensor,
                "%sfar from its original: relative error %.4g, usually 0.08 to %.2g", piece,
                follow.left, l->bad);
    return 1;
}

/* V-24: "above 0.20 is an ERROR, above 0.12 a WARN" */
void sb_fp4_judge_distance(const sb_fp4 *f, const char *tensor)
{
    const sb_seen *seen = f->panel->seen;
    const limits *l = f->mx ? &mxfp4 : &nvfp4;
    char signature[256], piece[288];
    double d = sb_fp4_distance(seen);
    if (!f->seen->has_master || f->panel->unit->found.part[SB_PART_pre_quant_scale])
        return;
    sb_fp4_piece(f->panel, piece, sizeof piece);
    if (d < 0) {
        if (seen->distance.error2 != 0 || seen->moments.sum2 != 0)
            sb_find(f->panel->findings, 24, SB_LEVEL_error, tensor,
                    "%sthe original is zero or NaN, and this matrix is not", piece);
        return;
    }
    if (tell_normed(f, l, tensor, piece))
        return;
    double slope = best_factor(seen), off = slope > 1 ? slope - 1 : 1 - slope;
    int factor = off > (f->mx ? 2 * SLOPE : SLOPE);
    if ((d > l->wrong || factor) && tell_tuned(f, d, tensor, piece))
        return;
    if (d > l->bad || factor) {
        sb_level level = factor || d > l->wrong ? SB_LEVEL_error : SB_LEVEL_warn;
        sb_find(f->panel->findings, 24, level, tensor,
                level == SB_LEVEL_warn
                    ? "%sfar from its original: relative error %.4g, usually 0.08 to %.2g%s"
                    : "%sdistance %.4g to the original, expected 0.08 to %.2g: %s",
                piece, d, l->bad,
                level == SB_LEVEL_warn ? "" : sb_fp4_signature(seen, signature, sizeof signature));
    } else if (d < l->good && !sb_matrix_quantized(f->panel->master) &&
               f->seen->compared - seen->moments.zeros >= 4096) {
        sb_find(f->panel->findings, 24, SB_LEVEL_warn, tensor,
                "%sdistance %.4g to the original is too small for FP4 of BF16 weights: the "
                "original was quantized before, or is a copy of this file",
                piece, d);
    }
}
