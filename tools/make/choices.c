#include "tools/make/choices.h"

#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"

static const sb_make_preset presets[] = {
#define SB_PRESET(name, help, family, V, used, H, L, nQ, nKV, hd, nK, nV, dk, dv, E, k, I, Is, F,  \
                  tied, topk, m0, m1, m2, bos, eos, gate)                                          \
    {name, FAMILY_##family, V,   used, H,    L, nQ, nKV, hd, nK, nV, dk, dv, E, k, I, Is, F, tied, \
     topk, {m0, m1, m2},    bos, eos,  gate, 0, 0,  0},
#define SB_PRESET_QWEN3(label, help, of, V, used, H, L, nQ, nKV, hd, E, k, I, F, is_tied, first,   \
                        last, theta, positions, dense)                                             \
    {.name = label,                                                                                \
     .family = FAMILY_##of,                                                                        \
     .vocab_size = V,                                                                              \
     .ids_used = used,                                                                             \
     .hidden_size = H,                                                                             \
     .layers = L,                                                                                  \
     .heads = nQ,                                                                                  \
     .kv_heads = nKV,                                                                              \
     .head_dim = hd,                                                                               \
     .experts = E,                                                                                 \
     .experts_per_token = k,                                                                       \
     .moe_intermediate = I,                                                                        \
     .intermediate = F,                                                                            \
     .tied = is_tied,                                                                              \
     .norm_topk_prob = 1,                                                                          \
     .bos = first,                                                                                 \
     .eos = last,                                                                                  \
     .output_gate_type = "",                                                                       \
     .rope_theta = theta,                                                                          \
     .max_positions = positions,                                                                   \
     .dense_layer = dense},
#define FAMILY_qwen3_5_moe SB_QWEN3_5_MOE
#define FAMILY_qwen3_5 SB_QWEN3_5
#define FAMILY_qwen3_next SB_QWEN3_NEXT
#define FAMILY_qwen3_moe SB_QWEN3_MOE
#define FAMILY_qwen3 SB_QWEN3
#include "tools/make/presets.def"
#undef SB_PRESET
#undef SB_PRESET_QWEN3
};

static const sb_make_choice preset_choices[] = {
#define SB_PRESET(name, help, ...) {name, help},
#define SB_PRESET_QWEN3(name, help, ...) {name, help},
#include "tools/make/presets.def"
#undef SB_PRESET
#undef SB_PRESET_QWEN3
};

static const sb_make_choice recipe_choices[] = {
#define SB_RECIPE(id, name, help) {name, help},
#include "tools/make/recipes.def"
#undef SB_RECIPE
};

static const sb_make_choice format_choices[] = {
#define SB_MAKE_FORMAT(id, name, dtype, dialect, rules, first, modules, second, others, mtp,       \
                       experts, help)                                                              \
    {name, help},
#include "tools/make/formats.def"
#undef SB_MAKE_FORMAT
};

static const sb_make_choice rule_choices[] = {
#define SB_SCALE_RULE(id, name, help) {name, help},
#include "tools/make/scale_rules.def"
#undef SB_SCALE_RULE
};

static const sb_make_choice layout_choices[] = {
    {"text", "names start with model., flat config.json"},
    {"vl", "model.language_model. and text_config, with a small vision tower"},
};

static const sb_make_choice storage_choices[] = {
    {"qwen3.6", "every tensor in the format, MTP experts stored like those of the trunk"},
    {"qwen3.5", "A_log and linear_attn.norm in F32, one tensor per MTP expert"},
};

static const sb_make_choice expert_choices[] = {
    {"fused", "three-dimensional gate_up_proj and down_proj"},
    {"split", "gate_proj, up_proj and down_proj of every expert"},
};

static const sb_make_choice dialect_choices[] = {
    {"speculators", "transformer_layer_config, layers.0., states numbered from the embedding"},
    {"specforge", "LlamaForCausalLMEagle3, midlayer., states numbered from the output of layer 0"},
};

static const sb_make_choice flag_choices[] = {
#define SB_DRAFTER_FLAG(name, help) {#name, help},
#include "tools/make/drafter_flags.def"
#undef SB_DRAFTER_FLAG
};

static const struct {
    const char *name;
    const sb_make_choice *choices;
    size_t count;
} lists[SB_MAKE_LISTS] = {
#define LIST(name, choices)                                                                        \
    {                                                                                              \
        name, choices, sizeof choices / sizeof *choices                                            \
    }
    LIST("preset", preset_choices),   LIST("recipe", recipe_choices),
    LIST("format", format_choices),   LIST("layout", layout_choices),
    LIST("storage", storage_choices), LIST("experts", expert_choices),
    LIST("scale-rule", rule_choices), LIST("dialect", dialect_choices),
    LIST("flags", flag_choices),
#undef LIST
};

const char *sb_make_list_name(sb_make_list_id list)
{
    return lists[list].name;
}

const sb_make_choice *sb_make_choices(sb_make_list_id list, size_t *count)
{
    *count = lists[list].count;
    return lists[list].choices;
}

void sb_make_list(FILE *out)
{
    for (unsigned list = 0; list < SB_MAKE_LISTS; list++) {
        fprintf(out, "%s--%s\n", list ? "\n" : "", lists[list].name);
        for (size_t i = 0; i < lists[list].count; i++)
            fprintf(out, "  %-15s %s\n", lists[list].choices[i].name, lists[list].choices[i].help);
    }
}

static void add_name(char *list, size_t bytes, const char *between, const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, bytes - used, "%s%s", used ? between : "", name);
}

sb_status sb_make_find(sb_make_list_id list, const char *name, size_t *position, sb_error *err)
{
    char known[512] = "", close[512] = "";
    *position = 0;
    if (!name)
        return SB_OK;
    for (size_t i = 0; i < lists[list].count; i++) {
        if (strcmp(lists[list].choices[i].name, name) == 0) {
            *position = i;
            return SB_OK;
        }
        add_name(known, sizeof known, ", ", lists[list].choices[i].name);
        if (*name && sb_starts(lists[list].choices[i].name, name))
            add_name(close, sizeof close, " or ", lists[list].choices[i].name);
    }
    return sb_fail(err, SB_ERR_USAGE, "%s \"%s\" is unknown%s%s; expected one of %s",
                   lists[list].name, SB_SHOW(name), *close ? ", is it " : "", close, known);
}

const char *sb_make_scale_rule_name(sb_scale_rule rule)
{
    return rule_choices[rule].name;
}

const sb_make_preset *sb_make_preset_at(size_t position)
{
    return &presets[position];
}
