#include "ref/model/eagle3.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/config_source.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

const char sb_eagle3_ids_key[] = "eagle_aux_hidden_state_layer_ids";

/* The objects of the file: `layer` describes the decoder layer, `nested` is eagle_config. */
typedef struct source {
    sb_config_source of;  /* of.text is the layer */
    sb_json_object eagle; /* eagle_config; json NULL: absent */
} source;

/* --- dialects --------------------------------------------------------------------------------- */

static int is_speculators(const json_t *root)
{
    const char *type = json_string_value(json_object_get(root, "speculators_model_type"));
    return type && strcmp(type, "eagle3") == 0;
}

static int is_specforge(const json_t *root)
{
    const json_t *list = json_object_get(root, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    return name && strcmp(name, "LlamaForCausalLMEagle3") == 0;
}

int sb_eagle3_is_drafter(const json_t *root)
{
    return is_speculators(root) || is_specforge(root);
}

int sb_eagle3_in(const char *folder)
{
    json_t *root = NULL;
    sb_error unused;
    char *path = sb_path_join(folder, "config.json");
    const int is =
        path && sb_json_load(path, &root, &unused) == SB_OK && sb_eagle3_is_drafter(root);
    json_decref(root);
    free(path);
    return is;
}

/* M-12: "a file with speculators_model_type is of the second" */
static sb_status find_dialect(source *s, const char *name, json_t *root, sb_eagle3_config *out,
                              sb_error *err)
{
    s->of.file = name;
    sb_status status = sb_json_object_at(root, name, "", &s->of.root, err);
    s->of.text = s->of.root;
    json_t *eagle = status ? NULL : sb_json_get(&s->of.root, "eagle_config");
    if (eagle)
        status = sb_json_object_at(eagle, name, "eagle_config", &s->eagle, err);
    if (status)
        return status;
    out->dialect = is_speculators(root) ? SB_EAGLE3_speculators : SB_EAGLE3_specforge;
    if (out->dialect == SB_EAGLE3_speculators)
        return sb_json_object_at(json_object_get(root, "transformer_layer_config"), name,
                                 "transformer_layer_config", &s->of.text, err);
    if (!is_specforge(root))
        return sb_json_fail(&s->of.root, "architectures", SB_ERR_INPUT, err,
                            "is not that of a drafter; expected LlamaForCausalLMEagle3, or "
                            "speculators_model_type \"eagle3\"");
    return SB_OK;
}

/* --- the layer -------------------------------------------------------------------------------- */

static sb_status read_count(const sb_json_object *at, const char *key, uint64_t otherwise,
                            uint32_t most, uint32_t *out, sb_error *err)
{
    uint64_t value = 0;
    sb_status status = otherwise ? sb_json_u64_or(at, key, otherwise, &value, err)
                                 : sb_json_u64(at, key, &value, err);
    if (!status && (value < 1 || value > most))
        status = sb_json_fail(at, key, SB_ERR_INPUT, err, "is %" PRIu64 ", expected 1 to %" PRIu32,
                              value, most);
    *out = (uint32_t)value;
    return status;
}

static sb_status refuse(const sb_json_object *at, const char *key, sb_error *err)
{
    return sb_json_fail(at, key, SB_ERR_UNSUPPORTED, err, "is set, which is not computed");
}

/* Keys of ModelOpt for drafters of another form: an op that is left out, or several drafts at
 * once. */
static sb_status refuse_other_forms(const sb_json_object *eagle, sb_error *err)
{
    static const char *const needed[] = {
        "use_aux_hidden_state", "use_input_layernorm_in_first_layer", "use_last_layernorm"};
    const json_t *steps = sb_json_get(eagle, "parallel_draft_step");
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (json_is_false(sb_json_get(eagle, needed[i])))
            return sb_json_fail(eagle, needed[i], SB_ERR_UNSUPPORTED, err,
                                "is false, which is not computed");
    if (json_is_integer(steps) && json_integer_value(steps) > 1)
        return refuse(eagle, "parallel_draft_step", err);
    return SB_OK;
}

/* What no drafter of this program computes, by name. */
static sb_status refuse_others(const source *s, sb_error *err)
{
    static const char *const flags[] = {
        "attention_bias",    "mlp_bias",           "bias",
        "parallel_drafting", "use_sliding_window", "use_mtp_layernorm"};
    uint64_t layers = 1;
    const char *act = "silu";
    const sb_json_object *layer = &s->of.text;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (json_is_true(sb_json_get(layer, flags[i])))
            return refuse(layer, flags[i], err);
        if (json_is_true(sb_json_get(&s->of.root, flags[i])))
            return refuse(&s->of.root, flags[i], err);
        if (json_is_true(sb_json_get(&s->eagle, flags[i])))
            return refuse(&s->eagle, flags[i], err);
    }
    sb_status status = refuse_other_forms(&s->eagle, err);
    if (!status && sb_json_get(&s->of.root, "quantization_config"))
        status = refuse(&s->of.root, "quantization_config", err);
    if (!status)
        status = sb_json_u64_or(layer, "num_hidden_layers", 1, &layers, err);
    if (!status && layers != 1)
        status = sb_json_fail(layer, "num_hidden_layers", SB_ERR_UNSUPPORTED, err,
                              "is %" PRIu64 ", which is not computed: engines disagree about the "
                              "layers after the first",
                              layers);
    if (!status)
        status = sb_json_string_or(layer, "hidden_act", "silu", &act, err);
    if (!status && strcmp(act, "silu") != 0)
        status = sb_json_fail(layer, "hidden_act", SB_ERR_UNSUPPORTED, err,
                              "is \"%s\", which is not computed; expected \"silu\"", SB_SHOW(act));
    return status;
}

static sb_status read_layer(const source *s, sb_eagle3_config *out, sb_error *err)
{
    const sb_json_object *at = &s->of.text;
    sb_config *c = &out->layer;
    double eps = 0;
    *c = (sb_config){.family = SB_QWEN3, .layers = 1, .layer_is_full = {1}, .plain_norms = 1};
    sb_status status = refuse_others(s, err);
    if (!status)
        status = read_count(at, "hidden_size", 0, SB_MAX_WIDTH, &c->hidden_size, err);
    if (!status)
        status = read_count(at, "vocab_size", 0, 1 << 24, &c->vocab_size, err);
    if (!status)
        status = read_count(at, "intermediate_size", 0, SB_MAX_WIDTH, &c->intermediate, err);
    if (!status)
        status = read_count(at, "num_attention_heads", 0, SB_MAX_WIDTH, &c->heads, err);
    if (!status)
        status = read_count(at, "num_key_value_heads", c->heads, SB_MAX_WIDTH, &c->kv_heads, err);
    if (!status)
        status = read_count(at, "head_dim", c->hidden_size / c->heads, 512, &c->head_dim, err);
    if (!status && (c->heads % c->kv_heads || (uint64_t)c->heads * c->head_dim > SB_MAX_WIDTH))
        status = sb_json_fail(at, "num_attention_heads", SB_ERR_INPUT, err,
                              "is %" PRIu32 ", with num_key_value_heads %" PRIu32
                              " and head_dim %" PRIu32 "; expected a multiple of the first, and a "
                              "product of at most %d with the second",
                              c->heads, c->kv_heads, c->head_dim, SB_MAX_WIDTH);
    if (!status)
        status = sb_json_f64(at, "rms_norm_eps", &eps, err);
    if (!status && !(eps > 0 && eps < 1))
        status = sb_json_wrong(at, "rms_norm_eps", sb_json_get(at, "rms_norm_eps"),
                               "a number between 0 and 1", err);
    c->eps = eps;
    c->eps_f32 = (float)eps;
    if (!status)
        status = sb_config_read_rope(&s->of, c, err);
    if (!status && c->yarn.factor > 0)
        status = sb_fail(err, SB_ERR_UNSUPPORTED,
                         "%s: rope_type is \"yarn\", which is not read in a drafter", s->of.file);
    return status;
}

/* --- states of the target --------------------------------------------------------------------- */

/* M-13: "Numbers in eagle_config count from the output of layer 0" */
static sb_status read_states(const source *s, sb_eagle3_config *out, sb_error *err)
{
    const int nested = sb_json_get(&s->eagle, sb_eagle3_ids_key) != NULL;
    const sb_json_object *at = nested ? &s->eagle : &s->of.root;
    uint64_t ids[SB_EAGLE3_STATES];
    size_t count = 3;
    out->has_after = sb_json_get(at, sb_eagle3_ids_key) != NULL;
    out->counts_outputs = nested;
    if (nested && sb_json_get(&s->of.root, sb_eagle3_ids_key))
        return sb_json_fail(&s->of.root, sb_eagle3_ids_key, SB_ERR_INPUT, err,
                            "stands beside eagle_config.%s, and engines read only one of them",
                            sb_eagle3_ids_key);
    sb_status status = out->has_after ? sb_json_u64_array(at, sb_eagle3_ids_key, 1,
                                                          SB_EAGLE3_STATES, ids, &count, err)
                                      : SB_OK;
    out->states = (uint32_t)count;
    for (size_t i = 0; out->has_after && i < count && !status; i++) {
        out->after[i] = (uint32_t)(ids[i] + (uint64_t)nested);
        if (ids[i] > SB_MAX_LAYERS || (i && ids[i] <= ids[i - 1]))
            status = sb_json_fail(at, sb_eagle3_ids_key, SB_ERR_INPUT, err,
                                  "has %" PRIu64 " at place %zu; expected ascending numbers of "
                                  "layers up to %d",
                                  ids[i], i, SB_MAX_LAYERS);
    }
    return status;
}

/* --- options ---------------------------------------------------------------------------------- */

/* A flag of the root or of eagle_config. */
static sb_status read_flag(const source *s, const char *key, int *out, sb_error *err)
{
    const sb_json_object *at = sb_json_get(&s->eagle, key) ? &s->eagle : &s->of.root;
    return sb_json_bool_or(at, key, 0, out, err);
}

/* M-13: "A file of speculators must have norm_before_residual" */
static sb_status read_flags(const source *s, sb_eagle3_config *out, sb_error *err)
{
    const char *type = "llama";
    static const char residual[] = "norm_before_residual";
    if (out->dialect == SB_EAGLE3_speculators && !sb_json_get(&s->of.root, residual))
        return sb_json_fail(&s->of.root, residual, SB_ERR_INPUT, err,
                            "is absent: vLLM then takes true, and speculators false; expected the "
                            "key");
    sb_status status = read_flag(s, residual, &out->norm_before_residual, err);
    if (!status)
        status = read_flag(s, "norm_before_fc", &out->norm_before_fc, err);
    if (!status)
        status = read_flag(s, "fc_norm", &out->fc_norm, err);
    if (!status)
        status = read_flag(s, "norm_output", &out->norm_output, err);
    if (!status && out->norm_before_fc && out->fc_norm)
        status = sb_json_fail(&s->of.root, "fc_norm", SB_ERR_INPUT, err,
                              "is true beside norm_before_fc; expected at most one of them");
    if (!status && out->dialect == SB_EAGLE3_speculators && !sb_json_get(&s->of.text, "model_type"))
        status = sb_json_fail(&s->of.text, "model_type", SB_ERR_INPUT, err,
                              "is absent: speculators then takes qwen3, and vLLM llama; expected "
                              "the key");
    if (!status && out->dialect == SB_EAGLE3_speculators)
        status = sb_json_string(&s->of.text, "model_type", &type, err);
    if (!status && strcmp(type, "llama") != 0 && strcmp(type, "qwen3") != 0)
        status = sb_json_fail(&s->of.text, "model_type", SB_ERR_UNSUPPORTED, err,
                              "is \"%s\", which is not computed; expected \"llama\" or \"qwen3\"",
                              SB_SHOW(type));
    out->qk_norm = strcmp(type, "qwen3") == 0;
    return status;
}

static sb_status read_all(const source *s, sb_eagle3_config *out, sb_error *err)
{
    sb_status status = read_layer(s, out, err);
    if (!status)
        status = read_states(s, out, err);
    if (!status)
        status = read_flags(s, out, err);
    if (!status)
        status = read_count(&s->of.root, "draft_vocab_size", out->layer.vocab_size,
                            out->layer.vocab_size, &out->draft_vocab, err);
    if (!status)
        status = read_count(&s->of.root, "target_hidden_size", out->layer.hidden_size, SB_MAX_WIDTH,
                            &out->target_hidden, err);
    return status;
}

void sb_eagle3_usual_states(uint32_t layers, uint32_t after[3])
{
    after[0] = 2;
    after[1] = layers / 2;
    after[2] = layers >= 3 ? layers - 3 : 0;
}

sb_status sb_eagle3_config_read(json_t *root, const char *name, sb_eagle3_config *out,
                                sb_error *err)
{
    source s = {.eagle = {.json = NULL}};
    *out = (sb_eagle3_config){.states = 0};
    sb_status status = find_dialect(&s, name, root, out, err);
    return status ? status : read_all(&s, out, err);
}

sb_status sb_eagle3_config_parse(const char *text, size_t n, const char *name,
                                 sb_eagle3_config *out, sb_error *err)
{
    json_t *root = NULL;
    sb_status status = sb_json_parse(text, n, name, &root, err);
    if (!status)
        status = sb_eagle3_config_read(root, name, out, err);
    json_decref(root);
    return status;
}

sb_status sb_eagle3_config_load(const char *path, sb_eagle3_config *out, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t n = 0;
    sb_status status = sb_read_file(path, MAX_CONFIG_BYTES, &bytes, &n, err);
    if (!status)
        status = sb_eagle3_config_parse((const char *)bytes, n, path, out, err);
    free(bytes);
    return status;
}
