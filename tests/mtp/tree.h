/* tree.h - every accept pattern of a few rounds, as a tree of states.
 *
 * A node is a state that was reached by feeding one token at a time, and the next token. Its
 * children are the states that one round of K drafts leaves if 0, 1, .. K of them are accepted.
 * Each child is made by replay, through sb_rounds_next with forced acceptance, and by snapshots,
 * where one verify gives the states of all children; one child, a different one at every node, is
 * also made by sb_rounds_next with snapshots. All must have the digests of the state that feeding
 * one token at a time leaves. */
#ifndef SB_TESTS_MTP_TREE_H
#define SB_TESTS_MTP_TREE_H

#include "tests/mtp/play.h"

/* Rounds without drafts between those with drafts. */
typedef enum tree_between {
    TREE_SOME, /* after every other child */
    TREE_BOTH  /* every child is grown twice: after such a round, and without it */
} tree_between;

typedef struct tree_plan {
    const sb_model *model;
    const sb_knobs *knobs; /* NULL: exact */
    const char *prompt;    /* a name for test_draw_ids */
    size_t prompt_tokens;
    size_t drafts, rounds; /* K, and the number of rounds with K drafts on a path */
    tree_between between;
    int few; /* in the last rounds a node has only one round, by snapshots or by replay in turn */
} tree_plan;

/* Returns the number of states that were compared with their one-at-a-time twins; fails if it is
 * not the number that the plan asks for. */
size_t tree_grow(const tree_plan *plan);

/* The trees of `make check`: K = 1 to 3 over 4 rounds and K = 5 over 2, rounds without drafts after
 * every other child, and `few` in the last rounds. With CHECK_ALL=1: K = 1 to 5 over 4 rounds,
 * never `few`, with TREE_BOTH up to K = 3. */
void tree_grow_all(const sb_model *model, const char *prompt);

#endif
