/* follow.h - how a matrix differs from its original, where rounding to nearest does not explain the
 * distance. Reads the matrix once more, so do not call it for every matrix. */
#ifndef SB_CHECK_FOLLOW_H
#define SB_CHECK_FOLLOW_H

#include "tools/check/read/check.h"

/* V-38: what explains the difference. Not in the order of the attempts. */
typedef enum sb_follows {
    SB_FOLLOWS_unknown, /* no original, memory ran out, or the values are not numbers */
    SB_FOLLOWS_noise,   /* none of the others: each weight is a little off, as tuned codes are */
    SB_FOLLOWS_not,     /* another tensor, or permuted, or with inverted signs */
    SB_FOLLOWS_scale,   /* the original times a factor */
    SB_FOLLOWS_offset,  /* integers: every weight is off by the same number of steps */
    SB_FOLLOWS_rows,    /* each row times a factor */
    SB_FOLLOWS_columns, /* each column times a factor */
    /* each group of weights under one scale times a factor: scales are misplaced */
    SB_FOLLOWS_units,
    SB_FOLLOWS_part /* some rows or scales are off, and the others are not */
} sb_follows;

typedef struct sb_follow {
    sb_follows how;
    /* |v - w| / |w|, where the columns of w are scaled like the norm before the layer */
    double error;
    double left;                 /* the part of error that the factors do not explain */
    double cosine;               /* between v and w */
    double factor;               /* for a scale, the factor; for an offset, the steps */
    uint32_t parts, row, column; /* number of rows or units that are off, and the first of them */
    double cut;    /* share of weights beyond the largest code, where the producer tunes scales */
    uint32_t dead; /* columns that are zero only here, not in the original; left excludes them */
    int normed;    /* the norm that feeds this layer is the original's divided by columns */
    int paired;    /* rows, columns: the layer after or before this layer has the inverse factors */
} sb_follow;

sb_follow sb_follow_of(const sb_check *check, const sb_member *member);

/* 1 if a correct quantizer can cause the difference: tuned codes, a smoothed pair, or (V-24) "up to
 * a fifth" of the weights cut. */
static inline int sb_follow_may_be(const sb_follow *f)
{
    if (f->cut > 0.2)
        return 0;
    return f->how == SB_FOLLOWS_noise ||
           ((f->how == SB_FOLLOWS_rows || f->how == SB_FOLLOWS_columns) && f->paired);
}

/* One clause: "it is the original times 0.9: the global scale is wrong". */
const char *sb_follow_text(const sb_follow *f, char *text, size_t size);

/* 1 if the norm that feeds this layer was divided by factors of its columns. */
int sb_follow_is_normed(const sb_check *check, const sb_member *member);

#endif
