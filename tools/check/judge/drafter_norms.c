/* drafter_norms.c - check 59: norms of a drafter that were trained in another way than engines
 * compute them. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/model/eagle3_tensors.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/drafter.h"
#include "tools/check/scan/across.h"

typedef enum ones { ALL_ONES, OTHERS, NOT_THERE } ones;

/* Whether all values are 1, as the training of a norm begins. */
static ones ones_of(const sb_check *check, const char *layer, const char *name)
{
    char full[64];
    uint64_t n = 0, k = 0;
    snprintf(full, sizeof full, "%s%s", layer, name);
    const sb_tensor *t = sb_drafter_tensor(check, full);
    float *x = t ? sb_floats_of(t, &n) : NULL;
    while (x && k < n && x[k] == 1)
        k++;
    free(x);
    return !n ? NOT_THERE : k == n ? ALL_ONES : OTHERS;
}

/* 1 if eagle_config has a key that only ModelOpt writes. */
static int is_modelopt(const sb_check *check)
{
    static const char *const marks[] = {"use_input_layernorm_in_first_layer", "use_last_layernorm",
                                        "use_mtp_layernorm", "next_layer_regular"};
    sb_config_trees trees;
    int found = 0;
    if (sb_config_trees_load(check->self.checkpoint, &trees)) {
        const json_t *eagle = sb_value_get(trees.root, "eagle_config");
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            found |= sb_value_get(eagle, marks[i]) != NULL;
    }
    sb_config_trees_free(&trees);
    return found;
}

void sb_check_drafter_norms(sb_check *check)
{
    char name[64];
    if (!check->self.is_drafter || !sb_check_wanted(check, 59))
        return;
    const char *layer = sb_eagle3_layer_name(check->self.checkpoint);
    const ones input = ones_of(check, layer, "input_layernorm.weight");
    /* V-159: "ModelOpt's module norms the state twice" */
    snprintf(name, sizeof name, "%sinput_layernorm.weight", layer);
    if (input == OTHERS && is_modelopt(check))
        sb_check_find(check, 59, SB_LEVEL_warn, name,
                      "is trained, and ModelOpt wrote the folder: since 0.41 its module for "
                      "training norms the state with this weight before hidden_norm, too; no "
                      "engine does");
    /* V-159: "if the final norm is all ones and the three norms of the layer are not" */
    if (input == OTHERS && ones_of(check, layer, "hidden_norm.weight") == OTHERS &&
        ones_of(check, layer, "post_attention_layernorm.weight") == OTHERS &&
        ones_of(check, "", "norm.weight") == ALL_ONES)
        sb_check_find(check, 59, SB_LEVEL_warn, "norm.weight",
                      "is 1 everywhere, and the other norms are trained: the head was probably "
                      "trained without this norm, as SpecForge 0.2.0 did without norm_output; "
                      "engines norm its input");
}
