/* tree.h - every accept pattern of some rounds, as a tree of states.
 *
 * A node is a state that one-at-a-time feeding left, and the token behind it. Its children are what
 * one round of K drafts leaves when 0, 1, .. K of them are accepted: once by replay, through
 * sb_rounds_next with the acceptance forced; and once by snapshots, where one verify gives the
 * states of all of them, and one child, another at every node, comes through sb_rounds_next, too.
 * All must be, digest for digest, the state that one-at-a-time feeding leaves. */
#ifndef SB_TESTS_MTP_TREE_H
#define SB_TESTS_MTP_TREE_H

#include "tests/mtp/play.h"

/* Rounds without drafts between those with drafts. */
typedef enum tree_between {
    TREE_SOME, /* behind every other child */
    TREE_BOTH  /* behind every child, and the same again without */
} tree_between;

typedef struct tree_plan {
    const sb_model *model;
    const sb_knobs *knobs; /* NULL: exact */
    const char *prompt;    /* a name for test_draw_ids */
    size_t prompt_tokens;
    size_t drafts, rounds; /* K, and how many rounds of them a path has */
    tree_between between;
    int few; /* in the last rounds a node has one round, by snapshots or by replay in turn */
} tree_plan;

/* Returns the number of states that were compared with their one-at-a-time twins; fails if it is
 * not the number that the plan asks for. */
size_t tree_grow(const tree_plan *plan);

/* The trees of `make check`: K = 1 to 3 over 4 rounds and K = 5 over 2, rounds without drafts
 * behind every other child, few ways in the last rounds. Where CHECK_ALL is 1, K = 1 to 5 over 4
 * rounds, all ways, with TREE_BOTH up to K = 3. */
void tree_grow_all(const sb_model *model, const char *prompt);

#endif
