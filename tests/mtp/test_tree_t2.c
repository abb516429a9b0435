/* test_tree_t2.c - S-10 on T2: every accept pattern (tree.h). CHECK_ALL=1 grows larger trees. */
#include "tests/lib/cmocka.h"

#include "tests/mtp/tree.h"

static void test_mistakes(void **state)
{
    (void)state;
    tree_grow_all(play_model("test_tree_t2", "T2", "mistakes"), "T2 mistakes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests_name("trees of T2", tests, NULL, play_close_models);
}
