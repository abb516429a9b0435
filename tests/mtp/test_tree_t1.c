/* test_tree_t1.c - S-10 on T1: every accept pattern (tree.h). CHECK_ALL=1 grows larger trees. */
#include "tests/lib/cmocka.h"

#include "tests/mtp/tree.h"

static void test_mistakes(void **state)
{
    (void)state;
    tree_grow_all(play_model("test_tree_t1", "T1", "mistakes"), "T1 mistakes");
}

static void test_predictable(void **state)
{
    (void)state;
    tree_grow(&(tree_plan){.model = play_model("test_tree_t1", "T1", "predictable"),
                           .prompt = "T1 predictable",
                           .prompt_tokens = 5,
                           .drafts = 3,
                           .rounds = 2,
                           .between = TREE_BOTH});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_predictable),
    };
    return cmocka_run_group_tests_name("trees of T1", tests, NULL, play_close_models);
}
