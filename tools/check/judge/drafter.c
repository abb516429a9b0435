/* drafter.c - reads a drafter for the checks, and finds its missing and unknown tensors. */
#include "tools/check/judge/drafter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/eagle3_tensors.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/structure.h"

/* Check 56 reports these keys if they are absent. With any value the rest can be checked: one
 * changes no tensor, and the other one follows from the tensors. */
static void complete(json_t *root, const sb_checkpoint *checkpoint)
{
    json_t *layer = json_object_get(root, "transformer_layer_config");
    if (!json_is_object(layer))
        return;
    if (!sb_value_get(root, "norm_before_residual"))
        json_object_set_new(root, "norm_before_residual", json_false());
    if (!sb_value_get(layer, "model_type"))
        json_object_set_new(
            layer, "model_type",
            json_string(sb_checkpoint_find(checkpoint, "layers.0.self_attn.q_norm.weight")
                            ? "qwen3"
                            : "llama"));
}

static sb_status read_it(sb_check *check, sb_side *side, json_t *root, const char *path, int tell,
                         sb_error *err)
{
    sb_error why;
    if (sb_checkpoint_find(side->checkpoint, "mask_hidden"))
        return sb_fail(
            err, SB_ERR_UNSUPPORTED,
            "%s: tensor mask_hidden belongs to a parallel drafter, which is not computed",
            SB_SHOW(sb_checkpoint_folder(side->checkpoint)));
    complete(root, side->checkpoint);
    sb_status status = sb_eagle3_config_read(root, path, &side->drafter, &why);
    if (status == SB_ERR_MEMORY || status == SB_ERR_UNSUPPORTED)
        return sb_fail(err, status, "%s", why.text);
    side->has_config = status == SB_OK;
    side->config = side->drafter.layer;
    if (status && tell) {
        sb_check_find(check, 56, SB_LEVEL_fatal, "", "config.json: %s",
                      sb_show_behind(why.text, path));
        sb_check_find(
            check, 56, SB_LEVEL_info, "",
            "without a configuration it is not known which tensors and shapes are needed, "
            "which states are read and which tokens are drafted; the rest of the checks "
            "was made");
    }
    return SB_OK;
}

sb_status sb_drafter_config(sb_check *check, sb_side *side, int tell, sb_error *err)
{
    sb_config_trees trees;
    char *path = sb_path_join(sb_checkpoint_folder(side->checkpoint), "config.json");
    sb_status status = path ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    side->is_drafter = side->has_declared = 1;
    if (!status && sb_config_trees_load(side->checkpoint, &trees)) {
        status = read_it(check, side, trees.root, path, tell, err);
        sb_config_trees_free(&trees);
    }
    free(path);
    return status;
}

sb_status sb_drafter_formats(const sb_side *side, sb_error *err)
{
    for (size_t i = 0; i < side->units.count; i++) {
        const sb_unit *unit = &side->units.rows[i];
        if (sb_unit_quantized(unit))
            return sb_fail(err, SB_ERR_UNSUPPORTED,
                           "%s: layer %s is stored as %s; a drafter is read in BF16, F16 and F32",
                           SB_SHOW(sb_checkpoint_folder(side->checkpoint)), SB_SHOW(unit->name),
                           sb_container_name(unit->found.container));
    }
    return SB_OK;
}

/* --- 4 ---------------------------------------------------------------------------------------- */

typedef struct absent {
    sb_check *check;
    sb_groups *groups;
} absent;

/* V-4: "A drafter needs every tensor that it cannot take from its target" */
static sb_status tell_absent(void *ctx, const sb_eagle3_tensor *t, sb_error *err)
{
    absent *a = ctx;
    const sb_expected *x = sb_expected_named(&a->check->self.units, t->name);
    (void)err;
    if (t->optional || !x || sb_presence_of(a->check, x) != SB_ABSENT)
        return SB_OK;
    if (t->part == SB_EAGLE3_d2t)
        sb_group_find(a->groups, a->check, 4, SB_LEVEL_fatal, t->name, "missing in a drafter",
                      "is missing: the head has %u rows for %u tokens, and nothing else says which",
                      (unsigned)a->check->self.drafter.draft_vocab,
                      (unsigned)a->check->self.config.vocab_size);
    else
        sb_group_find(a->groups, a->check, 4, SB_LEVEL_fatal, t->name, "missing in a drafter",
                      "is missing: config.json implies it");
    return SB_OK;
}

void sb_drafter_absent(sb_check *check, sb_groups *groups)
{
    absent a = {check, groups};
    sb_error why;
    if (check->self.has_config)
        sb_eagle3_each_tensor(&check->self.drafter, sb_eagle3_layer_name(check->self.checkpoint),
                              tell_absent, &a, &why);
}

/* --- 3 ---------------------------------------------------------------------------------------- */

/* V-3: "A norm of a drafter without its flag" */
const char *sb_drafter_unknown(const sb_check *check, const char *name)
{
    static const char *const old[] = {"aux_norm_low", "aux_norm_mid", "aux_norm_high"};
    const char *own = sb_eagle3_layer_name(check->self.checkpoint);
    if (!check->self.is_drafter)
        return NULL;
    if (strcmp(name, "input_norm.weight") == 0)
        return "is there, but norm_before_fc is not true in config.json: engines ignore the norm";
    if (sb_starts(name, "fc_norm."))
        return check->self.drafter.fc_norm
                   ? "is there, but config.json has no such state: engines ignore the norm"
                   : "is there, but fc_norm is not true in config.json: engines ignore the norm";
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (sb_starts(name, old[i]))
            return "is an old name of SGLang, expected fc_norm.0, fc_norm.1 and fc_norm.2";
    if (sb_ends(name, "q_norm.weight") || sb_ends(name, "k_norm.weight"))
        return "is there, but only a layer of type qwen3 has such a norm: engines ignore it";
    if (sb_ends(name, ".bias"))
        return "is a bias, and config.json declares none: engines ignore it";
    if ((sb_starts(name, "midlayer.") || sb_starts(name, "layers.0.")) && !sb_starts(name, own))
        return "is of a second layer beside the one with the other name: engines read one of both";
    return NULL;
}

/* --- tokens ----------------------------------------------------------------------------------- */

uint32_t *sb_drafter_tokens(sb_check *check)
{
    const sb_tensor *t = sb_drafter_tensor(check, "d2t");
    const uint32_t Vd = check->self.drafter.draft_vocab, V = check->self.config.vocab_size;
    if (t ? t->dtype != SB_DTYPE_I64 || t->rank != 1 || t->shape[0] != Vd : Vd != V)
        return NULL;
    uint32_t *ids = sb_alloc(Vd, sizeof *ids);
    check->findings.lost |= !ids;
    for (uint32_t i = 0; ids && i < Vd; i++) {
        const uint64_t id = i + (t ? sb_load_u64(t->data + 8 * (size_t)i) : 0);
        if (id >= V) {
            free(ids);
            return NULL;
        }
        ids[i] = (uint32_t)id;
    }
    return ids;
}
