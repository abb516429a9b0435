/* bad_corpus.h - golden/bad as a table: the content of each damaged file or folder, and its
 * refusal.
 *
 * make_bad.c writes the files and the list EXPECTED from this table. test_container_bad.c compares
 * them with the committed files and opens each. In texts, ' stands for ". */
#ifndef SB_TESTS_BAD_CORPUS_H
#define SB_TESTS_BAD_CORPUS_H

#include <stddef.h>
#include <stdint.h>

typedef struct bad_case {
    const char *name; /* a file or a folder of golden/bad */
    int exit_status;
    const char *fragment; /* part of the message */
} bad_case;

typedef enum bad_kind {
    BAD_TEXT,   /* the text as it is */
    BAD_TENSORS /* safetensors: length, text as the header, data_bytes of data */
} bad_kind;

typedef struct bad_file {
    const char *path; /* under golden/bad */
    bad_kind kind;
    const char *text;
    size_t data_bytes;
    uint64_t length; /* written instead of the true header length, if not 0 */
    size_t cut;      /* the number of bytes removed from the end */
    size_t flip;     /* the number of the bit to flip, if not 0 */
} bad_file;

#define T(name, dtype, shape, offsets)                                                             \
    "'" name "':{'dtype':'" dtype "','shape':" shape ",'data_offsets':" offsets "}"
#define ONE T("a", "U8", "[2]", "[0,2]")
#define TWO ONE "," T("b", "BF16", "[2,3]", "[2,14]")
#define GOOD "{'__metadata__':{'format':'pt'}," TWO "}   "
#define INDEX(map) "{'metadata':{'total_size':16},'weight_map':{" map "}}\n"
#define IN1(name) "'" name "':'s1.safetensors'"
#define IN2(name) "'" name "':'s2.safetensors'"
#define S1 "{" T("a", "U8", "[2]", "[0,2]") "}"
#define S2 "{" T("b", "BF16", "[2,3]", "[0,12]") "," T("c", "U8", "[2]", "[12,14]") "}"
#define CONFIG(more) "{'model_type':'qwen3_5_moe','rope_theta':10000000" more "}\n"
#define DEEP16 "[[[[[[[[[[[[[[[["
#define DEEP64 DEEP16 DEEP16 DEEP16 DEEP16

static const bad_case bad_cases[] = {
    /* files: the frame */
    {"good.safetensors", 0, ""},
    {"empty.safetensors", 3, "the file has 0 bytes, expected 8 bytes of header length"},
    {"truncated-length.safetensors", 3, "the file has 5 bytes"},
    {"truncated-header.safetensors", 3, "bytes follow: the file is truncated"},
    {"truncated-data.safetensors", 3, "end beyond the 13 data bytes of the file: it is truncated"},
    {"header-too-long.safetensors", 3, "header length at offset 0 is 100000001, expected at most"},
    {"header-length-max.safetensors", 3, "is 18446744073709551615, expected at most 100000000"},
    {"header-not-object.safetensors", 3, "begins with byte 0x5b, expected '{'"},
    {"header-newline.safetensors", 3, "ends with byte 0x0a"},
    {"header-second-document.safetensors", 3, "expected the end of the text"},
    {"flipped-length.safetensors", 3, "bytes follow: the file is truncated"},
    {"flipped-quote.safetensors", 3, "(header):1:2: not strict JSON: expected a string"},
    {"flipped-offset.safetensors", 3, "tensor \"b\".data_offsets [2, 15] do not span the 12 bytes"},
    /* files: JSON */
    {"deep-nesting.safetensors", 3, "nested deeper than 64 levels"},
    {"nan-literal.safetensors", 3, "not strict JSON: expected a value"},
    {"huge-real.safetensors", 3, "real number overflow"},
    {"huge-integer.safetensors", 3, "too big integer"},
    {"minus-zero.safetensors", 3, "the integer -0, expected digits without a sign"},
    {"half-surrogate.safetensors", 3, "half a surrogate pair"},
    {"not-utf8.safetensors", 3, "bytes in a string that are not UTF-8"},
    {"nul-escape.safetensors", 3, "an escape that is no character"},
    {"duplicate-tensor.safetensors", 3, "duplicate object key"},
    {"duplicate-field.safetensors", 3, "duplicate object key"},
    /* files: tensors */
    {"metadata-number.safetensors", 3, "__metadata__.step is 7, expected a string"},
    {"extra-key.safetensors", 3, "tensor \"a\".strides is a key that does not belong there"},
    {"unknown-dtype.safetensors", 3, "dtype is \"F12\", which is no safetensors dtype"},
    {"fnuz.safetensors", 3, "F8_E4M3FNUZ, which is not read here: its exponent bias"},
    {"rank-9.safetensors", 3, "shape has 9 elements, expected 0 to 8"},
    {"zero-dimension.safetensors", 3, "dimension 1 of shape is 0"},
    {"negative-dimension.safetensors", 3, "shape has element 0 -2, expected an unsigned integer"},
    {"real-offset.safetensors", 3, "data_offsets has element 1 the real number 2"},
    {"shape-overflow.safetensors", 3, "overflows 64 bits at dimension 1"},
    {"odd-f4.safetensors", 3, "3 elements of 4 bits (F4) do not end at a byte"},
    {"wrong-size.safetensors", 3, "do not span the 12 bytes of shape [2, 3] in BF16"},
    {"overlap.safetensors", 3, "tensor \"b\" begins at data offset 1, but tensor \"a\" ends at 2"},
    {"gap.safetensors", 3, "data bytes 2 to 3 in front of tensor \"b\" belong to no tensor"},
    {"gap-at-start.safetensors", 3, "data bytes 0 to 1 in front of tensor \"a\""},
    {"trailing-bytes.safetensors", 3, "3 bytes at data offset 14 follow the last tensor"},
    {"no-tensors.safetensors", 3, "holds 0 tensors"},
    /* folders */
    {"good", 0, ""},
    {"missing-shard", 3, "shard s2.safetensors is missing: model.safetensors.index.json puts 2"},
    {"not-in-shard", 3, "tensor \"d\" is not in s2.safetensors"},
    {"not-in-index", 3, "tensor \"c\" of s2.safetensors is not in model.safetensors.index.json"},
    {"wrong-shard", 3, "tensor \"c\" stands in s2.safetensors, but model.safetensors.index.json"},
    {"in-two-shards", 3, "tensor \"b\" stands in both s1.safetensors and s2.safetensors"},
    {"stray-file", 3, "s3.safetensors stands in the folder, but"},
    {"stray-single", 3, "model-mtp.safetensors stands in the folder, but beside model.safetensors"},
    {"no-model", 3, "there is neither model.safetensors.index.json nor model.safetensors"},
    {"index-leaves-folder", 3, "expected a plain file name without '/'"},
    {"index-other-file", 3, "expected a file name that ends in .safetensors"},
    {"index-duplicate", 3, "duplicate object key"},
    {"index-total-text", 3, "metadata.total_size is the string \"16\", expected a number"},
    {"index-no-map", 3, "weight_map is absent, expected an object"},
    {"index-truncated", 3, "model.safetensors.index.json:1:"},
    /* configurations */
    {"config-good.json", 0, ""},
    {"config-empty.json", 3, "config-empty.json:1:1: not strict JSON"},
    {"config-truncated.json", 3, "not strict JSON: expected ',' or '}'"},
    {"config-nan.json", 3, "not strict JSON: expected a value"},
    {"config-duplicate.json", 3, "duplicate object key"},
    {"config-llama.json", 3, "model_type is \"llama\", which is not read"},
    {"config-qwen4.json", 3, "hyper-connections"},
    {"config-no-theta.json", 3, "rope_theta is 0 (absent)"},
    {"config-yarn.json", 3, "rope_parameters.rope_type is \"yarn\""},
    {"config-mrope.json", 0, ""},
    {"config-heads.json", 3, "num_attention_heads is 16, expected a multiple of num_key_value"},
    {"config-experts.json", 3, "num_experts_per_tok is 300, expected at most num_experts"},
    {"config-huge-layers.json", 3, "num_hidden_layers is 4294967297, expected 1 to 1024"},
    {"config-real-width.json", 3, "hidden_size is the real number 2048, expected an unsigned"},
    {"config-null-width.json", 3, "hidden_size is null"},
    {"config-eps-zero.json", 3, "rms_norm_eps is 0, expected"},
    {"config-short-layers.json", 3, "layer_types is an array of 1, expected an array of"},
    {"config-contradiction.json", 0, ""},
    /* configurations: declarations of quantization */
    {"config-quantized.json", 3, "quantization_config.quant_algo is absent, expected a string"},
    {"config-quantized-fp8.json", 0, ""},
    {"config-quantized-ct.json", 0, ""},
    {"config-quantized-mixed.json", 0, ""},
    {"config-quantized-gptq.json", 0, ""},
    {"config-quantized-auto-round.json", 0, ""},
    {"config-quantized-list.json", 3, "quantization_config is an array of 0, expected an object"},
    {"config-quantized-method.json", 3, "quantization_config.quant_method is \"bitsandbytes\""},
    {"config-quantized-frozen.json", 3, "quantization_status is \"frozen\": the weights are not"},
    {"config-quantized-rotated.json", 3, "transform_config is not empty: rotated weights"},
    {"config-quantized-key.json", 3, "weights.bits is a key that does not belong there"},
    {"config-quantized-group.json", 3, "group_size is 16, which does not go with strategy tensor"},
    {"config-quantized-regex.json", 3, "ignore[1] \"re:(mtp\": no regular expression: missing"},
    {"config-quantized-block.json", 3, "weight_block_size has 1 elements, expected 2 to 2"},
    {"config-quantized-format.json", 3, "format is \"gptq_v2\", which contradicts"},
    {"config-bias.json", 3, "attention_bias is true, which is not read"},
    {"config-sigmoid-gate.json", 3, "output_gate_type is the string \"sigmoid\", which is not"},
    {"config-text-list.json", 3, "text_config is an array of 0, expected an object"},
};

#define FLIP(byte, bit) (8 * (size_t)(byte) + (bit))

static const bad_file bad_files[] = {
    {.path = "good.safetensors", .kind = BAD_TENSORS, .text = GOOD, .data_bytes = 14},
    {.path = "empty.safetensors", .kind = BAD_TEXT, .text = ""},
    {.path = "truncated-length.safetensors", .kind = BAD_TENSORS, .text = "{}", .cut = 5},
    {.path = "truncated-header.safetensors", .kind = BAD_TENSORS, .text = GOOD, .cut = 40},
    {.path = "truncated-data.safetensors", .kind = BAD_TENSORS, .text = GOOD, .data_bytes = 13},
    {.path = "header-too-long.safetensors",
     .kind = BAD_TENSORS,
     .text = GOOD,
     .data_bytes = 14,
     .length = 100000001},
    {.path = "header-length-max.safetensors",
     .kind = BAD_TENSORS,
     .text = GOOD,
     .data_bytes = 14,
     .length = UINT64_MAX},
    {.path = "header-not-object.safetensors",
     .kind = BAD_TENSORS,
     .text = "["
             "{" TWO "}]",
     .data_bytes = 14},
    {.path = "header-newline.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" TWO "}\n",
     .data_bytes = 14},
    {.path = "header-second-document.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" TWO "} {}",
     .data_bytes = 14},
    {.path = "flipped-length.safetensors",
     .kind = BAD_TENSORS,
     .text = GOOD,
     .data_bytes = 14,
     .flip = FLIP(1, 1)},
    {.path = "flipped-quote.safetensors",
     .kind = BAD_TENSORS,
     .text = GOOD,
     .data_bytes = 14,
     .flip = FLIP(9, 0)},
    {.path = "flipped-offset.safetensors",
     .kind = BAD_TENSORS,
     .text = GOOD,
     .data_bytes = 14,
     .flip = FLIP(8 + sizeof GOOD - 8, 0)},
    {.path = "deep-nesting.safetensors", .kind = BAD_TENSORS, .text = "{'a':" DEEP64 DEEP64 "}"},
    {.path = "nan-literal.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[NaN]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "huge-real.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[1e999]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "huge-integer.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[18446744073709551618]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "minus-zero.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[2]", "[-0,2]") "}",
     .data_bytes = 2},
    {.path = "half-surrogate.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("\\ud800", "U8", "[2]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "not-utf8.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("\xff", "U8", "[2]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "nul-escape.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a\\u0000b", "U8", "[2]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "duplicate-tensor.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" ONE "," ONE "}",
     .data_bytes = 2},
    {.path = "duplicate-field.safetensors",
     .kind = BAD_TENSORS,
     .text = "{'a':{'dtype':'U8','dtype':'I8','shape':[2],'data_offsets':[0,2]}}",
     .data_bytes = 2},
    {.path = "metadata-number.safetensors",
     .kind = BAD_TENSORS,
     .text = "{'__metadata__':{'format':'pt','step':7}," TWO "}",
     .data_bytes = 14},
    {.path = "extra-key.safetensors",
     .kind = BAD_TENSORS,
     .text = "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2],'strides':[1]}}",
     .data_bytes = 2},
    {.path = "unknown-dtype.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "F12", "[2]", "[0,3]") "}",
     .data_bytes = 3},
    {.path = "fnuz.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "F8_E4M3FNUZ", "[2]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "rank-9.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[1,1,1,1,1,1,1,1,2]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "zero-dimension.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[2,0]", "[0,0]") "}"},
    {.path = "negative-dimension.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[-2]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "real-offset.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[2]", "[0,2.0]") "}",
     .data_bytes = 2},
    {.path = "shape-overflow.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[4294967296,2147483648,8]", "[0,0]") "}"},
    {.path = "odd-f4.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "F4", "[3]", "[0,2]") "}",
     .data_bytes = 2},
    {.path = "wrong-size.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" ONE "," T("b", "BF16", "[2,3]", "[2,12]") "}",
     .data_bytes = 12},
    {.path = "overlap.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" ONE "," T("b", "BF16", "[2,3]", "[1,13]") "}",
     .data_bytes = 13},
    {.path = "gap.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" ONE "," T("b", "BF16", "[2,3]", "[3,15]") "}",
     .data_bytes = 15},
    {.path = "gap-at-start.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" T("a", "U8", "[2]", "[1,3]") "}",
     .data_bytes = 3},
    {.path = "trailing-bytes.safetensors", .kind = BAD_TENSORS, .text = GOOD, .data_bytes = 17},
    {.path = "no-tensors.safetensors", .kind = BAD_TENSORS, .text = "{'__metadata__':{}}"},

#define SHARD1(dir, more)                                                                          \
    {                                                                                              \
        .path = dir "/s1.safetensors", .kind = BAD_TENSORS, .text = S1, .data_bytes = 2 more       \
    }
#define SHARD2(dir)                                                                                \
    {                                                                                              \
        .path = dir "/s2.safetensors", .kind = BAD_TENSORS, .text = S2, .data_bytes = 14           \
    }
#define MAP(dir, json)                                                                             \
    {                                                                                              \
        .path = dir "/model.safetensors.index.json", .kind = BAD_TEXT, .text = json                \
    }
#define ALL IN1("a") "," IN2("b") "," IN2("c")
    SHARD1("good", ),
    SHARD2("good"),
    MAP("good", INDEX(ALL)),
    SHARD1("missing-shard", ),
    MAP("missing-shard", INDEX(ALL)),
    SHARD1("not-in-shard", ),
    SHARD2("not-in-shard"),
    MAP("not-in-shard", INDEX(ALL "," IN2("d"))),
    SHARD1("not-in-index", ),
    SHARD2("not-in-index"),
    MAP("not-in-index", INDEX(IN1("a") "," IN2("b"))),
    SHARD1("wrong-shard", ),
    SHARD2("wrong-shard"),
    MAP("wrong-shard", INDEX(IN1("a") "," IN2("b") "," IN1("c"))),
    {.path = "in-two-shards/s1.safetensors",
     .kind = BAD_TENSORS,
     .text = "{" TWO "}",
     .data_bytes = 14},
    SHARD2("in-two-shards"),
    MAP("in-two-shards", INDEX(ALL)),
    SHARD1("stray-file", ),
    SHARD2("stray-file"),
    MAP("stray-file", INDEX(ALL)),
    {.path = "stray-file/s3.safetensors", .kind = BAD_TENSORS, .text = "{}"},
    {.path = "stray-single/model.safetensors", .kind = BAD_TENSORS, .text = S1, .data_bytes = 2},
    {.path = "stray-single/model-mtp.safetensors",
     .kind = BAD_TENSORS,
     .text = S2,
     .data_bytes = 14},
    {.path = "no-model/config.json", .kind = BAD_TEXT, .text = CONFIG("")},
    SHARD1("index-leaves-folder", ),
    MAP("index-leaves-folder", INDEX("'a':'../good/s1.safetensors'")),
    MAP("index-other-file", INDEX("'a':'pytorch_model.bin'")),
    SHARD1("index-duplicate", ),
    MAP("index-duplicate", INDEX(IN1("a") "," IN1("a"))),
    SHARD1("index-total-text", ),
    MAP("index-total-text", "{'metadata':{'total_size':'16'},'weight_map':{" IN1("a") "}}\n"),
    SHARD1("index-no-map", ),
    MAP("index-no-map", "{'metadata':{'total_size':16}}\n"),
    SHARD1("index-truncated", ),
    MAP("index-truncated", "{'weight_map':{'a':'s1.safete"),

#define JSON(name, json)                                                                           \
    {                                                                                              \
        .path = "config-" name ".json", .kind = BAD_TEXT, .text = json                             \
    }
    JSON("good", CONFIG("")),
    JSON("empty", ""),
    JSON("truncated", "{'model_type':'qwen3_5_moe','rope_theta':1000"),
    JSON("nan", CONFIG(",'rms_norm_eps':NaN")),
    JSON("duplicate", CONFIG(",'hidden_size':2048,'hidden_size':4096")),
    JSON("llama", "{'model_type':'llama','hidden_size':4096}\n"),
    JSON("qwen4", "{'model_type':'qwen4_exp_moe','hidden_size':4096}\n"),
    JSON("no-theta", "{'model_type':'qwen3_5'}\n"),
    JSON("yarn", CONFIG(",'rope_parameters':{'rope_type':'yarn','factor':4.0}")),
    JSON("mrope", CONFIG(",'rope_parameters':{'mrope_section':[11,11,11]}")),
    JSON("heads", CONFIG(",'num_key_value_heads':3")),
    JSON("experts", CONFIG(",'num_experts_per_tok':300")),
    JSON("huge-layers", CONFIG(",'num_hidden_layers':4294967297")),
    JSON("real-width", CONFIG(",'hidden_size':2048.0")),
    JSON("null-width", CONFIG(",'hidden_size':null")),
    JSON("eps-zero", CONFIG(",'rms_norm_eps':0")),
    JSON("short-layers", CONFIG(",'num_hidden_layers':2,'layer_types':['full_attention']")),
    JSON("contradiction", CONFIG(",'num_hidden_layers':2,'full_attention_interval':2,"
                                 "'layer_types':['full_attention','full_attention']")),
#define QUANT(more) CONFIG(",'quantization_config':{" more "}")
#define CT_ARGS(more)                                                                              \
    "{'num_bits':4,'type':'float','strategy':'tensor_group','group_size':16" more "}"
#define CT(args, more)                                                                             \
    QUANT("'quant_method':'compressed-tensors','format':'nvfp4-pack-quantized','config_groups':{"  \
          "'group_0':{'targets':['Linear'],'weights':" args                                        \
          "}},'ignore':['lm_head','re:.*gate$']" more)
#define GPTQ "'quant_method':'gptq','bits':4,'group_size':128,'sym':true,'desc_act':false,"
    JSON("quantized", QUANT("'quant_method':'modelopt'")),
    JSON("quantized-fp8", QUANT("'quant_method':'fp8','fmt':'e4m3','activation_scheme':'dynamic',"
                                "'weight_block_size':[128,128],'modules_to_not_convert':["
                                "'lm_head','model.language_model.layers.0.mlp.gate']")),
    JSON("quantized-ct",
         CT(CT_ARGS(",'observer':null,'scale_dtype':'torch.float8_e4m3fn'"),
            ",'quantization_status':'compressed','kv_cache_scheme':{'num_bits':8,'type':'float'}")),
    JSON("quantized-mixed",
         QUANT("'quant_method':'modelopt','quant_algo':'MIXED_PRECISION','ignore':['mtp*'],"
               "'quantized_layers':{'lm_head':{'quant_algo':'W4A16_NVFP4','group_size':16},"
               "'model.language_model.layers.3.self_attn.o_proj':{'quant_algo':'FP8'}}")),
    JSON("quantized-gptq", QUANT(GPTQ "'dynamic':{'-:.*attn.*':{},'+:.*mtp.*':{'bits':8}}")),
    JSON("quantized-auto-round",
         QUANT("'quant_method':'auto-round','bits':4,'group_size':128,'sym':true,"
               "'packing_format':'auto_round:auto_gptq','block_name_to_quantize':"
               "'model.language_model.layers','extra_config':{'.*shared_expert.*':{'bits':16}}")),
    JSON("quantized-list", CONFIG(",'quantization_config':[]")),
    JSON("quantized-method", QUANT("'quant_method':'bitsandbytes'")),
    JSON("quantized-frozen", CT(CT_ARGS(""), ",'quantization_status':'frozen'")),
    JSON("quantized-rotated", CT(CT_ARGS(""), ",'transform_config':{'config_groups':{'R1':{}}}")),
    JSON("quantized-key", CT(CT_ARGS(",'bits':4"), "")),
    JSON("quantized-group",
         CT("{'num_bits':8,'type':'float','strategy':'tensor','group_size':16}", "")),
    JSON("quantized-regex", QUANT("'quant_method':'compressed-tensors','config_groups':{},"
                                  "'ignore':['lm_head','re:(mtp']")),
    JSON("quantized-block", QUANT("'quant_method':'fp8','weight_block_size':[128]")),
    JSON("quantized-format", QUANT(GPTQ "'checkpoint_format':'gptq','format':'gptq_v2'")),
    JSON("bias", CONFIG(",'attention_bias':true")),
    JSON("sigmoid-gate", CONFIG(",'output_gate_type':'sigmoid'")),
    JSON("text-list", CONFIG(",'text_config':[]")),
};

enum {
    BAD_CASES = sizeof bad_cases / sizeof bad_cases[0],
    BAD_FILES = sizeof bad_files / sizeof bad_files[0]
};

#endif
