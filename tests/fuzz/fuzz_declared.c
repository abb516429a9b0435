/* fuzz_declared.c - any text as config.json, as hf_quant_config.json and as both: every module gets
 * a complete answer. */
#include "tests/fuzz/fuzz.h"

#include "ref/model/declared.h"

const char fuzz_name[] = "declared";
unsigned long fuzz_accepted;

static void check_answer(const sb_declaration *d)
{
    sb_declared_text room;
    int grouped = d->strategy == SB_STRATEGY_GROUP || d->strategy == SB_STRATEGY_TENSOR_GROUP;
    int per_group =
        d->activation == SB_ACTIVATION_DYNAMIC_GROUP || d->activation == SB_ACTIVATION_NVFP4_LOCAL;
    FUZZ_CHECK(d->rule && d->rule[0] && !strchr(d->rule, '\n'));
    FUZZ_CHECK(strlen(sb_declaration_text(d, &room)) < sizeof room.text - 1);
    if (d->answer != SB_DECLARED_YES) {
        FUZZ_CHECK(d->family == SB_FAMILY_NONE && d->packing == SB_PACKED_NONE && d->bits == 0);
        return;
    }
    FUZZ_CHECK(d->family != SB_FAMILY_NONE && d->packing != SB_PACKED_NONE);
    FUZZ_CHECK(d->strategy != SB_STRATEGY_NONE && d->bits >= 2 && d->bits <= 8);
    FUZZ_CHECK(grouped == (d->group_size > 0) && d->group_size <= 1 << 24);
    FUZZ_CHECK((d->strategy == SB_STRATEGY_BLOCK) == (d->block_rows > 0 && d->block_cols > 0));
    FUZZ_CHECK((d->activation == SB_ACTIVATION_NONE) == (d->activation_bits == 0));
    FUZZ_CHECK(per_group == (d->activation_group > 0));
    FUZZ_CHECK(d->family != SB_FAMILY_NVFP4 || (d->bits == 4 && d->group_size >= 1));
}

/* Returns 1 if the files were read. */
static int check(const sb_declared_file *config, const sb_declared_file *hf_quant,
                 const sb_declared_file *quantization)
{
    static const char *const modules[] = {
        "lm_head",
        "mtp.fc",
        "mtp.layers.0.mlp.experts.1.down_proj",
        "model.language_model.embed_tokens",
        "model.language_model.layers.0.linear_attn.in_proj_qkv",
        "model.language_model.layers.0.mlp.gate",
        "model.language_model.layers.0.mlp.experts.17.gate_proj",
        "model.language_model.layers.0.mlp.experts.gate_up_proj",
        "model.language_model.layers.3.self_attn.o_proj",
        "model.visual.blocks.0.attn.qkv",
        "",
    };
    sb_declared *declared;
    sb_error err = {{0}};
    sb_status status = sb_declared_parse(config, hf_quant, quantization, &declared, &err);
    if (status != SB_OK) {
        FUZZ_CHECK(!declared);
        fuzz_check_refusal(status, &err);
        return 0;
    }
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        sb_declaration answer;
        status = sb_declared_for(declared, modules[i], &answer, &err);
        if (status == SB_OK)
            check_answer(&answer);
        else
            fuzz_check_refusal(status, &err);
    }
    for (size_t i = 0; declared && i < sb_declared_notes(declared); i++)
        FUZZ_CHECK(sb_declared_note(declared, i)[0] &&
                   !strchr(sb_declared_note(declared, i), '\n'));
    FUZZ_CHECK(!declared || sb_declared_kv_cache(declared) < SB_KV_COUNT);
    sb_declared_free(declared);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sb_declared_file file = {"input", (const char *)data, size};
    fuzz_accepted += check(&file, NULL, NULL) != 0;
    check(NULL, &file, NULL);
    check(&file, &file, &file);
    return 0;
}
