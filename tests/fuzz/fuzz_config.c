/* fuzz_config.c - any text as config.json: the program can compute with every configuration it
 * accepts. */
#include "tests/fuzz/fuzz.h"

#include "ref/model/config.h"

const char fuzz_name[] = "config";
unsigned long fuzz_accepted;

static int in_range(uint32_t value, uint32_t most)
{
    return value >= 1 && value <= most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_config c;
    sb_error err = {{0}};
    sb_status status = sb_config_parse((const char *)data, size, "input", &c, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    fuzz_accepted++;
    int dense = c.family == SB_QWEN3_5;
    FUZZ_CHECK(in_range(c.hidden_size, SB_MAX_WIDTH) && in_range(c.layers, SB_MAX_LAYERS));
    FUZZ_CHECK(in_range(c.vocab_size, SB_MAX_WIDTH) && in_range(c.conv_kernel, SB_MAX_CONV_KERNEL));
    FUZZ_CHECK(in_range(c.kv_heads, c.heads) && c.heads % c.kv_heads == 0);
    FUZZ_CHECK(in_range(c.lin_k_heads, c.lin_v_heads) && c.lin_v_heads % c.lin_k_heads == 0);
    FUZZ_CHECK((uint64_t)c.heads * c.head_dim <= SB_MAX_WIDTH && c.head_dim >= 1);
    FUZZ_CHECK((uint64_t)c.lin_k_heads * c.lin_k_dim <= SB_MAX_WIDTH && c.lin_k_dim >= 1);
    FUZZ_CHECK((uint64_t)c.lin_v_heads * c.lin_v_dim <= SB_MAX_WIDTH && c.lin_v_dim >= 1);
    FUZZ_CHECK(in_range(c.rotary_dim, c.head_dim) && c.rotary_dim % 2 == 0);
    FUZZ_CHECK(c.rope_theta > 1 && c.rope_theta <= 1e15 && c.eps_f32 > 0 && c.eps < 1);
    for (uint32_t k = 0; k < 3; k++)
        FUZZ_CHECK(c.mrope_section[k] <= (c.has_mrope ? 1u << 24 : 0));
    FUZZ_CHECK(c.other_interval == 0 || c.other_layer < c.layers);
    FUZZ_CHECK(dense ? c.experts == 0 && c.experts_per_token == 0 && c.intermediate >= 1
                     : in_range(c.experts, SB_MAX_EXPERTS) &&
                           in_range(c.experts_per_token, c.experts) && c.intermediate == 0);
    FUZZ_CHECK(dense || (c.moe_intermediate >= 1 && c.shared_intermediate >= 1));
    FUZZ_CHECK(c.mtp_layers <= 1 && c.eos_count <= SB_MAX_EOS);
    for (uint32_t i = 0; i < SB_MAX_LAYERS; i++)
        FUZZ_CHECK(c.layer_is_full[i] <= (i < c.layers));
    FUZZ_CHECK(memchr(c.architecture, 0, sizeof c.architecture) && memchr(c.dtype, 0, 16));
    return 0;
}
