/* declared_cases.h - declarations of quantization for tests, and the expected answers. ' stands for
 * " in texts. */
#ifndef SB_TESTS_DECLARED_CASES_H
#define SB_TESTS_DECLARED_CASES_H

#include "ref/model/declared.h"
#include "tests/unit/scratch.h"

/* The texts of the three files; NULL for an absent file. */
typedef struct declared_texts {
    const char *config, *hf_quant, *quantization;
} declared_texts;

static inline sb_status declared_read(const declared_texts *texts, sb_declared **out, sb_error *err)
{
    const char *const names[3] = {"config.json", "hf_quant_config.json",
                                  "quantization_config.json"};
    const char *const text[3] = {texts->config, texts->hf_quant, texts->quantization};
    sb_declared_file file[3];
    char *json[3];
    for (size_t i = 0; i < 3; i++) {
        json[i] = text[i] ? scratch_json(text[i]) : NULL;
        file[i] = (sb_declared_file){names[i], json[i], json[i] ? strlen(json[i]) : 0};
    }
    sb_status status = sb_declared_parse(&file[0], &file[1], &file[2], out, err);
    for (size_t i = 0; i < 3; i++)
        free(json[i]);
    return status;
}

static inline sb_declared *declared_good(const char *config, const char *hf_quant,
                                         const char *quantization)
{
    sb_error err;
    sb_declared *declared = NULL;
    const declared_texts texts = {config, hf_quant, quantization};
    check_status(config ? config : hf_quant, declared_read(&texts, &declared, &err), &err, SB_OK,
                 "");
    assert_non_null(declared);
    return declared;
}

static inline sb_declaration declared_ask(const sb_declared *declared, const char *module)
{
    sb_error err;
    sb_declaration answer;
    check_status(module, sb_declared_for(declared, module, &answer, &err), &err, SB_OK, "");
    return answer;
}

/* One module: the expected answer in words, and a part of the rule that must have decided. */
typedef struct declared_case {
    const char *module;
    const char *text;
    const char *rule;
} declared_case;

static inline void declared_check(const sb_declared *declared, const declared_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sb_declared_text room;
        sb_declaration answer = declared_ask(declared, cases[i].module);
        const char *text = sb_declaration_text(&answer, &room);
        if (strcmp(text, cases[i].text) != 0 || !strstr(answer.rule, cases[i].rule))
            fail_msg("%s: \"%s\" by %s, expected \"%s\" by %s", cases[i].module, text, answer.rule,
                     cases[i].text, cases[i].rule);
    }
}

#define DECLARED_CHECK(declared, cases)                                                            \
    declared_check(declared, cases, sizeof(cases) / sizeof((cases)[0]))

/* 1 if one of the notes contains this part. */
static inline int declared_has_note(const sb_declared *declared, const char *part)
{
    for (size_t i = 0; i < sb_declared_notes(declared); i++)
        if (strstr(sb_declared_note(declared, i), part))
            return 1;
    return 0;
}

#define NO "not quantized"
#define UNKNOWN "unknown"
#define W4A4 "NVFP4 in groups of 16, inputs 4-bit floats per group under a stored scale"
#define W4A16 "NVFP4 in groups of 16, inputs as they are"
#define FP8_TENSOR "FP8 with one scale, inputs 8-bit floats with a stored scale"
#define FP8_ROWS "FP8 with a scale per row, inputs 8-bit floats per token"
#define FP8_BLOCKS "FP8 in blocks of 128 x 128, inputs 8-bit floats per token and group"
#define INT4_128 "INT4 in groups of 128, inputs as they are"

/* Names of modules of the model. */
#define LM "model.language_model."
#define LAYER(i) LM "layers." #i "."

#define QUANT(more) "{'model_type':'qwen3_5_moe','quantization_config':{" more "}}"

#endif
