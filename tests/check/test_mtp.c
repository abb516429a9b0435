#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tools/check/mtp/mtp.h"

#define CT "T3 nvfp4-ct recipe=plain"
#define FP8 "T3 fp8-block recipe=plain"
#define BF16 "T3 bf16 recipe=plain"

/* The audit of a vehicle with a fault planted ("": none). */
static sb_mtp_audit audit_of(const char *vehicle, const char *what, const char *against,
                             const sb_check_options *options)
{
    sb_mtp_audit audit;
    sb_error err = {""};
    folder *f = folder_of(vehicle);
    if (*what)
        plant(f, what);
    folder_result *r = folder_check(f, against, options);
    assert_int_equal(sb_mtp_audit_make(&r->check, &audit, &err), SB_OK);
    folder_result_free(r);
    folder_free(f);
    return audit;
}

static void print(const sb_mtp_audit *a)
{
    printf("%s: %s\n", sb_mtp_verdict_name(a->verdict), a->why);
    for (unsigned i = 0; i < SB_MTP_QUESTIONS; i++)
        printf("  %-20s %-8s %s\n", a->lines[i].title, sb_mtp_state_name(a->lines[i].state),
               a->lines[i].text);
    for (size_t i = 0; i < a->fault_count; i++)
        printf("  %s (%s): %s\n", a->faults[i]->engine, a->faults[i]->reference,
               a->faults[i]->what);
    printf("  next: %s\n", a->next);
}

static void expect(const sb_mtp_audit *a, sb_mtp_verdict verdict)
{
    if (a->verdict != verdict) {
        print(a);
        fail_msg("%s, expected %s", sb_mtp_verdict_name(a->verdict), sb_mtp_verdict_name(verdict));
    }
    assert_true(a->why[0] != '\0');
    assert_int_equal(a->next[0] != '\0', verdict != SB_MTP_NONE_DECLARED);
}

static void expect_state(const sb_mtp_audit *a, sb_mtp_question question, sb_mtp_state state)
{
    if (a->lines[question].state != state) {
        print(a);
        fail_msg("%s is %s, expected %s", a->lines[question].title,
                 sb_mtp_state_name(a->lines[question].state), sb_mtp_state_name(state));
    }
}

static int names(const sb_mtp_audit *a, const char *reference)
{
    for (size_t i = 0; i < a->fault_count; i++)
        if (strstr(a->faults[i]->reference, reference))
            return 1;
    return 0;
}

TEST(sound_heads)
{
    static const char *const vehicles[] = {
        CT,
        FP8,
        BF16,
        "T3 int4-autoround recipe=plain",
        "T3 nvfp4-modelopt recipe=plain",
        "T4 fp8-block recipe=plain",
        "T5 nvfp4-ct recipe=plain",
        "T3 bf16 recipe=plain storage=qwen3.5 layout=vl",
    };
    for (size_t i = 0; i < sizeof vehicles / sizeof *vehicles; i++) {
        sb_mtp_audit a = audit_of(vehicles[i], "", NULL, NULL);
        expect(&a, SB_MTP_FILE_OK);
        expect_state(&a, SB_MTP_count, SB_MTP_ok);
        expect_state(&a, SB_MTP_coverage, SB_MTP_ok);
        assert_int_equal(a.found, a.implied);
        assert_int_equal(a.model_found, a.model_implied);
        assert_true(a.fault_count > 0);
    }
}

TEST(counts)
{
    sb_mtp_audit a = audit_of(BF16, "", BF16, NULL);
    assert_int_equal(a.tensors, 19);
    assert_int_equal(a.implied, 19);
    assert_int_equal(a.expected_tensors, 19);
    expect_state(&a, SB_MTP_original, SB_MTP_ok);
    a = audit_of(FP8, "", NULL, NULL); /* 8 experts */
    assert_int_equal(a.tensors, 2 * (3 * 8 + 7) + 10);
    assert_int_equal(a.implied, 17 + 3 * 8);
    expect_state(&a, SB_MTP_original, SB_MTP_unknown);
    assert_int_equal(a.parts[5].container, SB_CONTAINER_fp8_block);
    assert_int_equal(a.parts[0].container, SB_CONTAINER_plain);
}

TEST(bad_files)
{
    static const struct {
        const char *vehicle, *plant;
        sb_mtp_question question;
    } rows[] = {
        {CT, "drop-all mtp.", SB_MTP_presence},
        {CT, "drop mtp.pre_fc_norm_hidden.weight", SB_MTP_coverage},
        {FP8, "drop-all mtp.layers.0.mlp.experts.3.", SB_MTP_coverage},
        {CT, "rename-all mtp. model.mtp.", SB_MTP_prefix},
        {BF16, "untrained mtp.", SB_MTP_trained},
        {BF16, "plus mtp.layers.0.input_layernorm.weight 1", SB_MTP_norms},
        {CT, "set mtp.fc.weight 300 nan", SB_MTP_values},
        {BF16,
         "zero mtp.layers.0.mlp.shared_expert.gate_proj.weight; "
         "zero mtp.layers.0.mlp.shared_expert.up_proj.weight; "
         "zero mtp.layers.0.mlp.shared_expert.down_proj.weight",
         SB_MTP_values},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_mtp_audit a = audit_of(rows[i].vehicle, rows[i].plant, NULL, NULL);
        expect(&a, SB_MTP_FILE_BAD);
        expect_state(&a, rows[i].question, SB_MTP_bad);
        assert_non_null(strstr(a.next, "samebit graft "));
        assert_non_null(strstr(a.next, "--take 'mtp.*' --from ORIGINAL -o OUT"));
        assert_int_equal(a.fault_count, 0);
    }
}

/* The payload is whole, but engines that go by the index do not find it. */
TEST(not_in_the_index)
{
    static const char *const plants[] = {
        "move-all mtp. model_mtp.safetensors; unindex-all mtp.",
        "move-all mtp. model_mtp.safetensors; unindex-all mtp.; config quantization_config.ignore "
        "[]",
    };
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        sb_mtp_audit a = audit_of(CT, plants[i], NULL, NULL);
        expect(&a, SB_MTP_FILE_BAD);
        expect_state(&a, SB_MTP_index, SB_MTP_bad);
        assert_non_null(strstr(a.why, "19 tensors are in model_mtp.safetensors, but not in "
                                      "the index, first mtp.fc.weight"));
        assert_non_null(strstr(a.next, " --reindex -o OUT"));
        assert_null(strstr(a.next, "--take"));
    }
    sb_mtp_audit a = audit_of(CT, "unindex mtp.norm.weight", NULL, NULL);
    expect_state(&a, SB_MTP_index, SB_MTP_bad);
    assert_non_null(strstr(a.next, " --reindex -o OUT"));
    a = audit_of("T3 nvfp4-ct recipe=plain shards=one",
                 "move-all mtp. model_mtp.safetensors; no-index", NULL, NULL);
    expect_state(&a, SB_MTP_index, SB_MTP_bad);
    a = audit_of(CT, "move-all mtp. model_mtp.safetensors", NULL, NULL);
    expect(&a, SB_MTP_FILE_OK);
    a = audit_of("T3 nvfp4-ct recipe=plain shards=one", "", NULL, NULL);
    expect(&a, SB_MTP_FILE_OK);
}

/* The proposed next command fetches the file. It is not a graft, because no original is needed. */
TEST(file_of_the_head_is_lost)
{
    static const struct {
        const char *plant, *says;
    } rows[] = {
        {"move-all mtp. head.safetensors; lost head.safetensors",
         "puts 19 tensors of the head into head.safetensors, which is missing"},
        {"move-all mtp. head.safetensors; cut head.safetensors 1",
         "puts 19 tensors of the head into head.safetensors, which is damaged"},
        {"move mtp.fc.weight one.safetensors; lost one.safetensors",
         "puts 1 tensors of the head into one.safetensors, which is missing"},
        {"move-all mtp. head.safetensors; lost head.safetensors; config mtp_num_hidden_layers 0",
         "puts 19 tensors of the head into head.safetensors, which is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_mtp_audit a = audit_of(CT, rows[i].plant, NULL, NULL);
        expect(&a, SB_MTP_FILE_BAD);
        expect_state(&a, SB_MTP_index, SB_MTP_bad);
        assert_non_null(strstr(a.why, rows[i].says));
        assert_non_null(strstr(a.next, "hf download REPO --include '"));
    }
    sb_mtp_audit a = audit_of(CT, "lost model-00001-of-00003.safetensors", NULL, NULL);
    assert_true(a.lines[SB_MTP_index].state != SB_MTP_bad);
}

TEST(none_declared)
{
    sb_mtp_audit a = audit_of("T3 nvfp4-ct recipe=plain no-mtp", "", NULL, NULL);
    expect(&a, SB_MTP_NONE_DECLARED);
}

/* A BF16 head under a configuration that no longer excludes it. */
TEST(contradicts_declaration)
{
    sb_mtp_audit a = audit_of(CT, "config quantization_config.ignore []", NULL, NULL);
    expect(&a, SB_MTP_FILE_BAD);
    expect_state(&a, SB_MTP_representation, SB_MTP_bad);
    assert_non_null(strstr(a.lines[SB_MTP_representation].text, "mtp.fc"));
    assert_non_null(strstr(a.next, " --reindex -o OUT")); /* only a rule is missing */
}

/* AutoRound quantizes the head although its block list ends with the trunk. */
TEST(auto_round_quantizes_the_head)
{
    sb_mtp_audit a = audit_of("golden/quant/autoround-gptq-mtp", "", NULL, NULL);
    expect(&a, SB_MTP_FILE_OK);
    assert_int_equal(a.tensors, 3 * (3 * 4 + 7) + 10);
    expect_state(&a, SB_MTP_count, SB_MTP_ok);
    assert_true(a.lines[SB_MTP_representation].state != SB_MTP_bad);
}

TEST(double_quantization_is_a_note)
{
    sb_mtp_audit a = audit_of(BF16, "through mtp.layers.0.self_attn.q_proj.weight fp8", NULL, NULL);
    expect(&a, SB_MTP_FILE_OK);
    expect_state(&a, SB_MTP_double_quantization, SB_MTP_note);
}

TEST(headers_only)
{
    sb_check_options options = {.headers_only = 1};
    sb_mtp_audit a = audit_of(CT, "", NULL, &options);
    expect(&a, SB_MTP_FILE_OK);
    expect_state(&a, SB_MTP_trained, SB_MTP_unknown);
    expect_state(&a, SB_MTP_coverage, SB_MTP_ok);
}

TEST(loader_faults_fit_the_layout)
{
    sb_mtp_audit a = audit_of(CT, "", NULL, NULL);
    assert_true(names(&a, "vllm#40252"));
    assert_false(names(&a, "vllm#39475"));
    a = audit_of("T3 int4-gptq recipe=plain", "", NULL, NULL);
    assert_true(names(&a, "vllm#39475") && names(&a, "vllm#54456"));
    assert_false(names(&a, "sglang#35797") || names(&a, "vllm#40252"));
    a = audit_of(FP8, "", NULL, NULL);
    assert_true(names(&a, "vmlx-swift#337") && names(&a, "imp"));
    assert_false(names(&a, "sglang#38878"));
    a = audit_of("T3 mxfp4 recipe=plain", "", NULL, NULL);
    assert_true(names(&a, "sglang#36158"));
}

TEST(faults_of_one_engine)
{
    sb_check_options options = {.engine = sb_mtp_engine_named("vLLM")};
    char known[200];
    sb_mtp_engine_names(known, sizeof known);
    assert_non_null(strstr(known, "vllm, sglang, llamacpp"));
    assert_ptr_equal(sb_mtp_engine_named("llama.cpp"), sb_mtp_engine_named("llamacpp"));
    assert_ptr_not_equal(sb_mtp_engine_named("mlx"), NULL);
    assert_null(sb_mtp_engine_named("vll"));
    assert_null(sb_mtp_engine_named("vllmx"));
    assert_null(sb_mtp_engine_named(""));
    sb_mtp_audit a = audit_of("T3 int4-gptq recipe=plain", "", NULL, &options);
    assert_true(names(&a, "vllm#39475") && names(&a, "vllm#54456"));
    for (size_t i = 0; i < a.fault_count; i++)
        assert_string_equal(a.faults[i]->engine, "vLLM");
    assert_non_null(strstr(a.settle[0], "/metrics > metrics.txt"));
    assert_non_null(strstr(a.settle[1], " --observed metrics.txt"));
    options.engine = sb_mtp_engine_named("mlx");
    a = audit_of(BF16, "", NULL, &options);
    assert_int_equal(a.fault_count, 0);
    assert_non_null(strstr(a.settle[0], "samebit accept "));
    assert_string_equal(a.settle[1], "");
    /* every engine of the list can be named */
    static const char *const vehicles[] = {CT, FP8, BF16, "T3 int4-gptq recipe=plain",
                                           "T3 mxfp4 recipe=plain"};
    for (size_t i = 0; i < sizeof vehicles / sizeof *vehicles; i++) {
        a = audit_of(vehicles[i], "", NULL, NULL);
        for (size_t k = 0; k < a.fault_count; k++)
            assert_non_null(sb_mtp_engine_named(a.faults[k]->engine));
    }
}
