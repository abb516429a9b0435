/* drafter_config.c - check 56: what config.json of a drafter leaves open, says twice or says where
 * no engine reads it. */
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/drafter.h"

/* Objects of the file, as in drafter_keys.def. */
enum { A = 1, E = 2, S = 4, L = 8 };

static const struct {
    const char *name;
    unsigned places;
} keys[] = {
#define SB_DRAFTER_KEY(name, places) {name, places},
#include "tools/check/judge/drafter_keys.def"
#undef SB_DRAFTER_KEY
};

enum { KEYS = sizeof keys / sizeof *keys };

/* The objects that this file has; json NULL: it has none. */
typedef struct object {
    const json_t *json;
    unsigned place;
    const char *name; /* "the root", "eagle_config" */
} object;

typedef struct objects {
    object at[2];
    int speculators;
} objects;

static objects objects_of(const sb_config_trees *t)
{
    objects o = {.speculators = sb_value_get(t->root, "speculators_model_type") != NULL};
    const char *inner = o.speculators ? "transformer_layer_config" : "eagle_config";
    o.at[0] = (object){t->root, o.speculators ? S : A, "the root"};
    o.at[1] = (object){sb_value_get(t->root, inner), o.speculators ? L : E, inner};
    return o;
}

static unsigned places_of(const char *key)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, key) == 0)
            return keys[i].places;
    return 0;
}

/* V-156: "A key that stands where no engine reads it is a WARN"
 * V-156: "an INFO lists keys that no dialect has" */
static void tell_places(sb_check *check, const objects *o)
{
    char unknown[300] = "";
    size_t count = 0, used = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)o->at[i].json, key, value)
        {
            const unsigned places = places_of(key);
            if (json_is_null(value) || (places & o->at[i].place))
                continue;
            if (places)
                sb_check_find(check, 56, SB_LEVEL_warn, "",
                              "config.json: %s stands in %s, where no engine reads it in this "
                              "dialect",
                              key, o->at[i].name);
            else if (count++ < 8 && used < sizeof unknown)
                used += (size_t)snprintf(unknown + used, sizeof unknown - used, "%s%.40s",
                                         count > 1 ? ", " : "", SB_SHOW(key));
        }
    }
    if (count)
        sb_check_find(check, 56, SB_LEVEL_info, "",
                      "config.json: %zu keys belong to no known dialect, and are not read: %s%s",
                      count, unknown, count > 8 ? ", ..." : "");
}

/* V-156: "A key that the root and eagle_config have with different values is an ERROR" */
static void tell_twice(sb_check *check, const objects *o)
{
    for (size_t i = 0; i < KEYS && !o->speculators; i++) {
        const json_t *a = sb_value_get(o->at[0].json, keys[i].name);
        const json_t *b = sb_value_get(o->at[1].json, keys[i].name);
        sb_value_text x, y;
        if (a && b && !sb_value_same(a, b))
            sb_check_find(check, 56, SB_LEVEL_error, "",
                          "config.json: %s is %s at the root and %s in eagle_config: engines read "
                          "different ones",
                          keys[i].name, sb_value_show(a, &x), sb_value_show(b, &y));
    }
}

/* V-156: "An absent key is an ERROR if engines take different defaults for it" */
static void tell_absent(sb_check *check, const objects *o)
{
    if (!o->speculators)
        return;
    if (!sb_value_get(o->at[0].json, "norm_before_residual"))
        sb_check_find(check, 56, SB_LEVEL_error, "",
                      "config.json: norm_before_residual is absent: vLLM then takes true, and "
                      "speculators false; samebit run refuses the drafter");
    if (o->at[1].json && !sb_value_get(o->at[1].json, "model_type"))
        sb_check_find(check, 56, SB_LEVEL_error, "",
                      "config.json: transformer_layer_config.model_type is absent: speculators "
                      "then takes qwen3, and vLLM llama; samebit run refuses the drafter");
    if (!sb_value_get(o->at[0].json, "draft_vocab_size"))
        sb_check_find(check, 56, SB_LEVEL_warn, "",
                      "config.json: draft_vocab_size is absent: speculators then takes 32000, and "
                      "SGLang and samebit the vocabulary of the target");
}

/* V-156: "Engines ignore some keys" */
static void tell_ignored(sb_check *check, const objects *o)
{
    const json_t *config = sb_value_get(o->at[0].json, "speculators_config");
    const json_t *algorithm = sb_value_get(config, "algorithm");
    sb_value_text shown;
    if (!o->speculators && (json_is_true(sb_value_get(o->at[0].json, "norm_before_residual")) ||
                            json_is_true(sb_value_get(o->at[1].json, "norm_before_residual"))))
        sb_check_find(check, 56, SB_LEVEL_warn, "",
                      "config.json: norm_before_residual is true; SGLang, which reads this "
                      "dialect, does not implement it and adds the state that is not normed");
    if (json_is_string(algorithm) && strcmp(json_string_value(algorithm), "eagle3") != 0)
        sb_check_find(check, 56, SB_LEVEL_error, "",
                      "config.json: speculators_config.algorithm is %s beside "
                      "speculators_model_type \"eagle3\"",
                      sb_value_show(algorithm, &shown));
    if (json_is_true(sb_value_get(o->at[0].json, "use_aux_norm")) &&
        !json_is_true(sb_value_get(o->at[0].json, "fc_norm")))
        sb_check_find(check, 56, SB_LEVEL_error, "",
                      "config.json: use_aux_norm is an old name of SGLang; other engines read "
                      "fc_norm, and leave the norms out");
    for (size_t i = 0; i < 2; i++)
        if (json_is_true(sb_value_get(o->at[i].json, "tie_word_embeddings")))
            sb_check_find(check, 56, SB_LEVEL_info, "",
                          "config.json: tie_word_embeddings is true in %s, as in the target's "
                          "file perhaps; the head of a drafter is lm_head, or the target's head",
                          o->at[i].name);
    /* trained by SpecForge before its change 879: the next step then got the output without norm */
    if (!o->speculators && check->self.drafter.norm_output)
        sb_check_find(check, 56, SB_LEVEL_info, "",
                      "config.json: norm_output is true. SpecForge 0.2.0 trained such drafters "
                      "with an output that is not normed in every further step; engines norm it");
}

/* V-156: "An INFO says what the drafter is" */
static void tell_summary(sb_check *check)
{
    const sb_eagle3_config *c = &check->self.drafter;
    if (!check->self.has_config)
        return;
    sb_check_find(check, 56, SB_LEVEL_info, "",
                  "EAGLE-3, dialect of %s: a layer of type %s over %u states of %u, %u of %u "
                  "tokens%s%s%s%s",
                  c->dialect == SB_EAGLE3_speculators ? "speculators"
                                                      : "SafeAILab, SpecForge and ModelOpt",
                  c->qk_norm ? "qwen3" : "llama", (unsigned)c->states, (unsigned)c->target_hidden,
                  (unsigned)c->draft_vocab, (unsigned)c->layer.vocab_size,
                  c->norm_before_residual ? ", norm_before_residual" : "",
                  c->norm_before_fc ? ", norm_before_fc" : "", c->fc_norm ? ", fc_norm" : "",
                  c->norm_output ? ", norm_output" : "");
}

void sb_check_drafter_config(sb_check *check)
{
    sb_config_trees trees;
    if (!check->self.is_drafter || !sb_check_wanted(check, 56))
        return;
    if (sb_config_trees_load(check->self.checkpoint, &trees)) {
        const objects o = objects_of(&trees);
        tell_places(check, &o);
        tell_twice(check, &o);
        tell_absent(check, &o);
        tell_ignored(check, &o);
        tell_summary(check);
    }
    sb_config_trees_free(&trees);
}
