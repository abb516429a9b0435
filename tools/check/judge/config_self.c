/* config_self.c - check 9: RoPE fields of one configuration that contradict each other. */
#include <string.h>

#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/structure.h"

static const char *const places[] = {"rope_parameters", "rope_scaling", "outside of both"};

/* V-9: "RoPE fields that stand twice" - the first place counts (M-10). Engines that read another
 * place compute something else. */
static void compare(sb_check *check, const sb_config_trees *t, const char *key)
{
    const json_t *at[] = {sb_value_get(t->rope[0], key), sb_value_get(t->rope[1], key),
                          sb_tree_text(t, key)};
    const size_t count = sizeof at / sizeof *at;
    sb_value_text a, b;
    size_t first = 0;
    while (first < count && !at[first])
        first++;
    for (size_t i = first + 1; i < count; i++) {
        if (!at[i] || sb_value_same(at[first], at[i]))
            continue;
        int saved = i == 2 && sb_rope_is_default(key, at[i]);
        sb_check_find(check, 9, saved ? SB_LEVEL_info : SB_LEVEL_warn, "",
                      "%s is %s in %s and %s %s: samebit computes with the first%s", key,
                      sb_value_show(at[first], &a), places[first], sb_value_show(at[i], &b),
                      places[i],
                      saved ? "; the second is a default that transformers writes"
                            : "; engines that read the second turn positions by other angles");
    }
}

void sb_check_config_self(sb_check *check)
{
    static const char *const keys[] = {"rope_theta", "partial_rotary_factor", "mrope_section",
                                       "mrope_interleaved", "rope_type"};
    sb_config_trees trees;
    if (!sb_check_wanted(check, 9))
        return;
    if (sb_config_trees_load(check->self.checkpoint, &trees))
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            compare(check, &trees, keys[i]);
    sb_config_trees_free(&trees);
}
