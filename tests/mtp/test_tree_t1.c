/* test_tree_t1.c - S-10 on T1: every accept pattern (tree.h). CHECK_ALL=1 grows larger trees. */
#include "tests/lib/suite.h"

#include "tests/mtp/tree.h"

TEST(test_mistakes)
{
    tree_grow_all(play_model("test_tree_t1", "T1", "mistakes"), "T1 mistakes");
}

TEST(test_predictable)
{
    tree_grow(&(tree_plan){.model = play_model("test_tree_t1", "T1", "predictable"),
                           .prompt = "T1 predictable",
                           .prompt_tokens = 5,
                           .drafts = 3,
                           .rounds = 2,
                           .between = TREE_BOTH});
}

TEST_GROUP(NULL, play_close_models)
