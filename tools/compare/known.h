/* known.h - what is known of the arrays of a session: which hold recorded values, and which only
 * values that lie in balls.
 *
 * Arrays are told apart by where they lie. An op overwrites an array as a whole, or row by row from
 * its beginning. */
#ifndef SB_COMPARE_KNOWN_H
#define SB_COMPARE_KNOWN_H

#include "ref/ops/op.h"
#include "tools/compare/ball.h"

typedef enum sb_knowledge {
    SB_KNOWN_not,   /* the engine's values may be any */
    SB_KNOWN_balls, /* nobody recorded them; both sides' values lie in their balls */
    SB_KNOWN_exact  /* the recorded ones */
} sb_knowledge;

typedef struct sb_known {
    const float *base;
    size_t count;
    sb_knowledge kind;
    sb_op op; /* that made it, in this layer */
    uint32_t layer;
    const char *name;       /* of the op's call */
    int single;             /* one of several calls that fill the array */
    sb_ball *ours, *theirs; /* (count), or NULL */
} sb_known;

typedef struct sb_known_arrays {
    sb_known *items;
    size_t count, room;
} sb_known_arrays;

void sb_known_clear(sb_known_arrays *known);

/* The array that p lies in, or NULL. */
sb_known *sb_known_find(const sb_known_arrays *known, const float *p);

/* What is known of `count` values: the least of all arrays that they lie in. */
sb_knowledge sb_known_of(const sb_known_arrays *known, const float *p, size_t count);

/* The balls of `count` values of which something is known. */
void sb_known_balls(const sb_known_arrays *known, const float *p, size_t count, int theirs,
                    sb_ball *out);

/* The op has written what `made` describes: arrays that overlap are forgotten, and a call that goes
 * on where the last of the same name ended makes its array longer. Takes over the balls, which it
 * releases if memory is out. */
sb_status sb_known_make(sb_known_arrays *known, const sb_known *made);

/* The values are the recorded ones from now on; or nothing is known of them any more. */
sb_status sb_known_set(sb_known_arrays *known, const float *p, size_t count, sb_knowledge kind);

#endif
