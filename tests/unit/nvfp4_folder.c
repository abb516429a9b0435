#include "tests/unit/nvfp4_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"

static const char config_ct[] =
    "{\n  \"architectures\": [\"Qwen3_5MoeForCausalLM\"],\n  \"eps\": 1e-06,\n"
    "  \"first\": \"b \\\"quantization_config\\\": {\",\n"
    "  \"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
    "\"nvfp4-pack-quantized\", \"ignore\": [\"lm_head\"], \"config_groups\": {\"g\": "
    "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"float\", \"strategy\": "
    "\"tensor_group\", \"group_size\": 16, \"symmetric\": true, \"dynamic\": false}, "
    "\"input_activations\": {\"num_bits\": 4, \"type\": \"float\", \"strategy\": "
    "\"tensor_group\", \"group_size\": 16, \"symmetric\": true, \"dynamic\": \"local\"}}}},\n"
    "  \"last\": \"a \\\"quantization_config\\\": {\"\n}\n";
static const char config_modelopt[] =
    "{\n  \"architectures\": [\"Qwen3_5MoeForCausalLM\"],\n  \"eps\": 1e-06,\n"
    "  \"first\": \"b \\\"quantization_config\\\": {\",\n"
    "  \"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", "
    "\"ignore\": [\"lm_head\"]},\n  \"last\": \"a \\\"quantization_config\\\": {\"\n}\n";

test_folder nvfp4_folder(nvfp4_dialect dialect)
{
    test_folder f = {0};
    f.config = sb_strdup(dialect == NVFP4_CT ? config_ct : config_modelopt);
    assert_non_null(f.config);
    return f;
}

test_tensor *nvfp4_bytes(test_folder *f, const char *name, sb_dtype dtype, unsigned rank,
                         const uint64_t *shape, const char *from, uint64_t first)
{
    test_tensor *t = test_folder_add(f, name, dtype, rank, shape);
    uint64_t key = sb_rng_key(7, from);
    for (uint64_t i = 0; i < t->size; i++)
        t->bytes[i] = (unsigned char)sb_rng_u64(key, first + i);
    if (dtype == SB_DTYPE_F8_E4M3) /* block scales: positive and no NaN */
        for (uint64_t i = 0; i < t->size; i++)
            t->bytes[i] = (unsigned char)(1 + t->bytes[i] % 126);
    return t;
}

test_tensor *nvfp4_numbers(test_folder *f, const char *name, unsigned rank, uint64_t count,
                           const float *values)
{
    const uint64_t shape[2] = {count, 1};
    test_tensor *t = test_folder_add(f, name, SB_DTYPE_F32, rank, shape);
    for (uint64_t i = 0; i < count; i++)
        sb_store_u32(t->bytes + 4 * i, sb_bits_f32(values[i]));
    return t;
}

void nvfp4_layer(test_folder *f, nvfp4_dialect dialect, const char *name, uint64_t rows,
                 uint64_t cols, float factor, float input)
{
    const uint64_t codes[2] = {rows, cols / 2}, scales[2] = {rows, cols / 16};
    char full[512], from[512];
    unsigned ct = dialect == NVFP4_CT;
    snprintf(full, sizeof full, "%s.%s", name, ct ? "weight_packed" : "weight");
    nvfp4_bytes(f, full, SB_DTYPE_U8, 2, codes, name, 0);
    snprintf(full, sizeof full, "%s.weight_scale", name);
    snprintf(from, sizeof from, "%s scales", name);
    nvfp4_bytes(f, full, SB_DTYPE_F8_E4M3, 2, scales, from, 0);
    snprintf(full, sizeof full, "%s.%s", name, ct ? "weight_global_scale" : "weight_scale_2");
    nvfp4_numbers(f, full, ct, 1, &factor);
    snprintf(full, sizeof full, "%s.%s", name, ct ? "input_global_scale" : "input_scale");
    if (input != 0)
        nvfp4_numbers(f, full, ct, 1, &input);
}

void nvfp4_plain(test_folder *f, const char *name, uint64_t rows, uint64_t cols)
{
    const uint64_t shape[2] = {rows, cols};
    char full[512];
    snprintf(full, sizeof full, "%s.weight", name);
    nvfp4_bytes(f, full, SB_DTYPE_BF16, 2, shape, name, 0);
}

float nvfp4_number_of(const test_folder *f, const char *name)
{
    return sb_f32_from_bits(sb_load_u32(test_folder_find(f, name)->bytes));
}
