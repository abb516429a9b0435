/* closest.h - finds the name that a user meant but mistyped. */
#ifndef SB_CLI_CLOSEST_H
#define SB_CLI_CLOSEST_H

#include <stddef.h>

/* Collects the best of several names. Start with {.word = the word typed}. */
typedef struct sb_closest {
    const char *word;
    const char *name; /* the best name so far, or NULL: none is close */
    size_t distance;  /* from the word to that name */
} sb_closest;

/* Considers one more name. A name is close if it begins with the word, if the word begins with it,
 * or if at most a third of the word's characters, and at most two, have to be changed, added, left
 * out or swapped with their neighbour. Of equally close names the first stays. */
void sb_closest_try(sb_closest *closest, const char *name);

#endif
