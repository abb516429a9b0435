/* tree.h - the rows of a round whose drafts are a tree (S-16). */
#ifndef SB_RUN_TREE_H
#define SB_RUN_TREE_H

#include <stdint.h>

/* Row 0 is the token of the round. Every other row follows the row `parent`, which stands before
 * it. */
typedef struct sb_tree {
    const uint32_t *parent; /* (rows) that of row 0 is 0 */
    const uint32_t *depth; /* (rows) 0 for row 0; for every other row that of its parent, and one */
} sb_tree;

#endif
