/* test_tree_t2.c - S-10 on T2: every accept pattern (tree.h). CHECK_ALL=1 grows larger trees. */
#include "tests/lib/suite.h"

#include "tests/mtp/tree.h"

TEST(test_mistakes)
{
    tree_grow_all(play_model("test_tree_t2", "T2", "mistakes"), "T2 mistakes");
}

TEST_GROUP(NULL, play_close_models)
