/* known.h - what is known of the engine's values in the arrays of a session: recorded values,
 * balls, or nothing.
 *
 * Arrays are identified by their address. An op overwrites a whole array, or an array row by row
 * from its beginning. */
#ifndef SB_COMPARE_KNOWN_H
#define SB_COMPARE_KNOWN_H

#include "ref/ops/op.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/compare/bias.h"

typedef enum sb_knowledge {
    SB_KNOWN_not,   /* nothing */
    SB_KNOWN_balls, /* not recorded; both sides' values lie in balls */
    SB_KNOWN_exact, /* recorded values */
    SB_KNOWN_COUNT
} sb_knowledge;

/* A sorted list of numbers, each once. Zeroed: empty. */
typedef struct sb_marks {
    uint32_t *ids;
    size_t count;
} sb_marks;
sb_status sb_marks_add(sb_marks *marks, uint32_t id);
sb_status sb_marks_join(sb_marks *marks, const sb_marks *more);
void sb_marks_free(sb_marks *marks);

enum { SB_NO_VALUE = 0x7fffffff };

typedef struct sb_known {
    const float *base;
    size_t count;
    sb_knowledge kind;
    sb_op op; /* the op that made the array, in this layer */
    uint32_t layer;
    const char *name;       /* name of the op's call */
    int single;             /* made by one of several calls that fill the array */
    sb_ball *ours, *theirs; /* (count), or NULL */
    /* T-91, by the numbers of values in the order of the call. waiting: the values on the way to
     * this array that were not recorded. source: the recorded value where that way begins, or
     * SB_NO_VALUE. value: the number of this array if it was recorded. chained: some input of its
     * op was a ball. */
    sb_marks waiting;
    uint32_t source, value;
    int chained;
    sb_bias_rule bias; /* what the values may be off by on average: T-98 */
} sb_known;

typedef struct sb_known_arrays {
    sb_known *items;
    size_t count, room;
} sb_known_arrays;

void sb_known_clear(sb_known_arrays *known);

/* The array that p lies in, or NULL. */
sb_known *sb_known_find(const sb_known_arrays *known, const float *p);

/* What is known of `count` values: the least over all arrays that they lie in. */
sb_knowledge sb_known_of(const sb_known_arrays *known, const float *p, size_t count);

/* The balls of `count` values. Something has to be known of them. */
void sb_known_balls(const sb_known_arrays *known, const float *p, size_t count, int theirs,
                    sb_ball *out);

/* Adds the array that an op has written. Forgets arrays that overlap. A call that continues where
 * the last call of the same name ended extends that call's array. Takes over the balls, and frees
 * them if memory runs out. */
sb_status sb_known_make(sb_known_arrays *known, const sb_known *made);

/* Marks the values as recorded, or as not known. value: their number, or SB_NO_VALUE. */
sb_status sb_known_set(sb_known_arrays *known, const float *p, size_t count, sb_knowledge kind,
                       uint32_t value);

#endif
