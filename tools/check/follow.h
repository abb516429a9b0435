/* follow.h - how a matrix follows its original where it is further from it than rounding to nearest
 * explains. It is read once more, so not for every matrix. */
#ifndef SB_CHECK_FOLLOW_H
#define SB_CHECK_FOLLOW_H

#include "tools/check/check.h"

/* V-38: the first of these that explains the difference. */
typedef enum sb_follows {
    SB_FOLLOWS_unknown, /* no original, or memory is out, or no numbers */
    SB_FOLLOWS_noise,  /* nothing does: each weight is a little off, as codes that were tuned are */
    SB_FOLLOWS_not,    /* another tensor, permuted, or its signs inverted */
    SB_FOLLOWS_scale,  /* it is the original times a factor */
    SB_FOLLOWS_offset, /* integers: every weight is some steps off, in the same direction */
    SB_FOLLOWS_rows,   /* each row times a factor */
    SB_FOLLOWS_columns, /* each column times a factor */
    SB_FOLLOWS_units,   /* each unit that shares a scale times a factor: scales are misplaced */
    SB_FOLLOWS_part     /* some rows, or scales, and not the others */
} sb_follows;

typedef struct sb_follow {
    sb_follows how;
    double error;  /* |v - w| / |w|, w with its columns as the norm before it has them */
    double left;   /* what of it the factors do not explain */
    double cosine; /* between v and w */
    double factor; /* of a scale; of an offset: the steps */
    uint32_t parts, row, column; /* how many rows or units are off, and the first of them */
    double cut;    /* share of weights beyond the largest code, where tuned scales may leave them */
    uint32_t dead; /* columns that are zero and not so in the original; left without them */
    int normed;    /* the norm that feeds this layer is the original's divided by columns */
    int paired;    /* rows, columns: the layer behind or before has the inverse factors */
} sb_follow;

sb_follow sb_follow_of(const sb_check *check, const sb_member *member);

/* Whether a quantizer may do that: tuned codes, or a smoothed pair; V-24: "up to a fifth" cut. */
static inline int sb_follow_may_be(const sb_follow *f)
{
    if (f->cut > 0.2)
        return 0;
    return f->how == SB_FOLLOWS_noise ||
           ((f->how == SB_FOLLOWS_rows || f->how == SB_FOLLOWS_columns) && f->paired);
}

/* One clause: "it is the original times 0.9: the global scale is wrong". */
const char *sb_follow_text(const sb_follow *f, char *text, size_t size);

/* Whether the norm that feeds this layer was divided by factors of its columns. */
int sb_follow_is_normed(const sb_check *check, const sb_member *member);

#endif
