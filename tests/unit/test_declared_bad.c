/* test_declared_bad.c - malformed declarations and their messages; patterns that take too long;
 * files; failing allocations. */
#include "tests/lib/suite.h"
#include "tests/unit/declared_cases.h"

#include <jansson.h>

#include "ref/base/mem.h"

#define FP8 "'quant_method':'fp8'"
#define GPTQ "'quant_method':'gptq','bits':4"
#define AWQ "'quant_method':'awq','bits':4"
#define AR "'quant_method':'auto-round','bits':4"
#define MO "'quant_method':'modelopt','quant_algo':"
#define CT "'quant_method':'compressed-tensors','config_groups':"
#define GROUP(weights, more)                                                                       \
    "{'g':{'targets':['Linear'],'weights':{" weights "}" more "}},'format':'float-quantized'"
#define CT8(more) CT GROUP("'num_bits':8,'type':'float'" more, "")
#define INPUT(args) CT GROUP("'num_bits':8,'type':'float'", ",'input_activations':{" args "}")

typedef struct bad {
    const char *text; /* within quantization_config */
    sb_status status;
    const char *fragment;
} bad;

#define IN SB_ERR_INPUT
#define UN SB_ERR_UNSUPPORTED

static void check_bad(const char *const form, const bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sb_error err;
        sb_declared *d;
        char text[2048];
        int length = snprintf(text, sizeof text, form, cases[i].text);
        assert_true(length > 0 && (size_t)length < sizeof text);
        sb_status status = declared_read(&(declared_texts){text, NULL, NULL}, &d, &err);
        check_status(text, status, &err, cases[i].status, cases[i].fragment);
        assert_true((d == NULL) == (status != SB_OK));
        sb_declared_free(d);
    }
}

#define CHECK_BAD(form, cases) check_bad(form, cases, sizeof(cases) / sizeof((cases)[0]))

TEST(test_where_the_object_should_be)
{
    static const bad cases[] = {
        {"'fp8'", IN, "config.json: quantization_config is the string \"fp8\", expected an object"},
        {"[]", IN, "quantization_config is an array of 0, expected an object"},
        {"{}", IN, "quantization_config.quant_method is absent, expected the name of a method"},
        {"{'quant_method':7}", IN, "quant_method is 7, expected a string"},
        {"{'quant_method':'bitsandbytes'}", UN, "quant_method is \"bitsandbytes\", which is not"},
        {"{'quant_method':'FP8'}", UN, "is \"FP8\", which is not read: expected compressed-"},
        {"{'quant_method':'a\\nb'}", UN, "is \"a\\x0ab\""},
        {"{" FP8 ",'fmt':'e4m3','fmt':'e4m3'}", IN, "duplicate object key"},
    };
    CHECK_BAD("{'quantization_config':%s}", cases);
    static const bad others[] = {
        {"[]", IN, "text_config.quantization_config is an array of 0, expected an object"},
        {"{" FP8 ",'fmt':'e5m2'}", IN, "text_config.quantization_config.fmt is the string"},
    };
    CHECK_BAD("{'text_config':{'quantization_config':%s}}", others);
    static const bad mlx[] = {
        {"{'group_size':64,'bits':4}", UN,
         "config.json: quantization is that of mlx-lm (mode affine, 4 bits, groups of 64), which"},
        {"{'group_size':32,'bits':8,'mode':'mxfp8'}", UN, "mlx-lm (mode mxfp8, 8 bits, groups"},
        {"{'group_size':32,'bits':8,'mode':7}", UN, "mlx-lm (mode affine, 8 bits, groups"},
    };
    CHECK_BAD("{'quantization':%s}", mlx);
    CHECK_BAD("{'quantization_config':{" FP8 "},'quantization':%s}", mlx);
    static const bad another[] = {
        {"{'bits':4}", IN, "quantization_config.quant_method is absent, expected the name"},
        {"{'bits':'4','group_size':64}", IN, "quantization_config.quant_method is absent, exp"},
    };
    CHECK_BAD("{'quantization_config':{},'quantization':%s}", another);
}

TEST(test_compressed_tensors)
{
    static const bad cases[] = {
        {CT "[]", IN, "quantization_config.config_groups is an array of 0, expected an object"},
        {CT "{'g':[]}", UN, "config_groups.g is the name of a preset scheme"},
        {CT "{'g':7}", IN, "config_groups.g is 7, expected an object"},
        {CT "{'g':{}}", IN, "config_groups.g.targets is absent, expected an array"},
        {CT "{'g':{'targets':[],'observer':1}}", IN, "g.observer is a key that does not belong"},
        {CT "{'g':{'targets':[7]}}", IN, "g.targets has element 0 7, expected the name"},
        {CT "{'g':{'targets':['']}}", IN, "g.targets has element 0 the string \"\""},
        {CT "{'g':{'targets':['re:a','re:(']}}", IN,
         "config.json: quantization_config.config_groups.g.targets[1] \"re:(\": no regular "
         "expression: missing closing parenthesis at character 1"},
        {CT "{'g':{'targets':[],'output_activations':{}}}", UN, "output_activations are quantized"},
        {CT8(",'bits':8"), IN, "g.weights.bits is a key that does not belong there"},
        {CT8(",'num_bit':8"), IN, "g.weights.num_bit is a key that does not belong there"},
        {CT8(",'observer_kwargs':{'any':1},'zp_dtype':null"), SB_OK, ""},
        {CT8(",'symmetric':1"), IN, "weights.symmetric is 1, expected true or false"},
        {CT8(",'group_size':0"), IN, "weights.group_size is 0, expected -1, or"},
        {CT8(",'group_size':-2"), IN, "weights.group_size is -2"},
        {CT8(",'group_size':128.0"), IN, "weights.group_size is the real number 128"},
        {CT8(",'group_size':16777217"), IN, "group_size is 16777217"},
        {CT8(",'strategy':'rows'"), IN, "weights.strategy is the string \"rows\", expected"},
        {CT8(",'strategy':'group'"), IN, "group_size is 0 (absent), which does not go with"},
        {CT8(",'strategy':'tensor','group_size':16"), IN, "group_size is 16, which does not go"},
        {CT8(",'strategy':'channel','group_size':-1"), SB_OK, ""},
        {CT8(",'strategy':'block'"), IN, "block_structure is absent, which does not go with"},
        {CT8(",'block_structure':[1,1]"), IN, "block_structure is there, which does not go"},
        {CT8(",'strategy':'block','block_structure':[0,1]"), IN, "expected two numbers from 1"},
        {CT8(",'strategy':'block','block_structure':'128'"), IN, "expected two numbers from 1"},
        {CT8(",'strategy':'block','block_structure':'1x1x1'"), IN, "expected two numbers from 1"},
        {CT8(",'strategy':'block','block_structure':'1x-1'"), IN, "expected two numbers from 1"},
        {CT8(",'strategy':'token'"), IN,
         "weights have strategy token, which is valid for activations only"},
        {CT8(",'dynamic':true"), IN, "weights have strategy tensor and are dynamic"},
        {CT8(",'dynamic':'global'"), IN, "dynamic is the string \"global\", expected true"},
        {CT8(",'actorder':'rows'"), IN, "actorder is the string \"rows\", expected"},
        {CT8(",'actorder':'Weight'"), SB_OK, ""},
        {CT8(",'actorder':null"), SB_OK, ""},
        {CT8(",'actorder':7"), IN, "actorder is 7, expected"},
        {CT8(",'scale_dtype':7"), IN, "scale_dtype is 7, expected a string or null"},
        {CT GROUP("'num_bits':8,'type':'complex'", ""), IN, "type is the string \"complex\""},
        {CT GROUP("'num_bits':4,'type':'float'", ""), UN,
         "g.weights are floats of 4 bits by tensor, which is not read in format float-quantized"},
        {CT GROUP("'num_bits':8,'type':'int'", ""), UN, "weights are integers of 8 bits by tensor"},
        {CT GROUP("'num_bits':16,'type':'float'", ""), UN, "weights are floats of 16 bits"},
        {CT GROUP("'num_bits':8,'type':'float'", ",'format':'marlin-24'"), UN,
         "g.format is \"marlin-24\", which is not read"},
        {CT GROUP("'num_bits':8,'type':'float'", ",'format':7"), IN, "g.format is 7, expected"},
        {CT "{'g':{'targets':[],'weights':{'num_bits':8,'type':'float'}}},'format':"
            "'mixed-precision'",
         UN, "g.format is \"mixed-precision\", which is not read"},
        {CT "{'g':{'targets':[],'weights':{'num_bits':8,'type':'float'}}}", UN,
         "g.format is \"dense\", which is not read"},
        {CT "{'g':{'targets':[],'weights':{'num_bits':4,'type':'float','group_size':32,'strategy':"
            "'tensor_group'}}},'format':'nvfp4-pack-quantized'",
         UN, "weights are floats of 4 bits by tensor_group"},
        {INPUT("'num_bits':8,'type':'float','strategy':'channel'"), UN,
         "g.input_activations are static floats by channel, which is not read"},
        {INPUT("'num_bits':8,'type':'float','strategy':'group','group_size':128"), UN,
         "are static floats by group"},
        {INPUT("'num_bits':8,'width':1"), IN, "input_activations.width is a key that does not"},
        {CT "{},'ignore':'lm_head'", IN, "ignore is the string \"lm_head\", expected an array"},
        {CT "{},'ignore':null,'run_compressed':true", SB_OK, ""},
        {CT "{},'ignore':['re:a{,3}']", UN, "ignore[0] \"re:a{,3}\": has \"{,\", which libraries"},
        {CT "{},'ignore':['re:[[:alpha:]]']", UN, "has \"[:\", which libraries"},
        {CT "{},'ignore':['re:(?P<n']", IN, "ignore[0] \"re:(?P<n\": no regular expression"},
        {CT "{},'quantization_status':'initialized'", UN,
         "quantization_status is \"initialized\": the weights are not packed"},
        {CT "{},'quantization_status':1", IN, "quantization_status is 1, expected a string"},
        {CT "{},'transform_config':{'config_groups':{'R1':{}}}", UN, "transform_config is not"},
        {CT "{},'transform_config':{'config_groups':{}}", SB_OK, ""},
        {CT "{},'sparsity_config':{'format':'sparse-24-bitmask'}", UN, "sparsity_config is not"},
        {CT "{},'sparsity_config':{'format':'dense'}", SB_OK, ""},
        {CT "{},'kv_cache_scheme':{'num_bits':2,'type':'float'}", UN,
         "kv_cache_scheme has 2 bits of type \"float\", which is not read"},
        {CT "{},'kv_cache_scheme':{'bits':8}", IN, "kv_cache_scheme.bits is a key that does not"},
        {CT "{},'format':7", IN, "quantization_config.format is 7, expected a string"},
    };
    CHECK_BAD("{'quantization_config':{%s}}", cases);
}

TEST(test_the_other_dialects)
{
    static const bad cases[] = {
        {FP8 ",'fmt':'e5m2'", IN, "fmt is the string \"e5m2\", expected \"e4m3\" or"},
        {FP8 ",'activation_scheme':'none'", IN, "activation_scheme is the string \"none\""},
        {FP8 ",'scale_fmt':'bf16'", IN, "scale_fmt is the string \"bf16\""},
        {FP8 ",'weight_block_size':[128]", IN, "weight_block_size has 1 elements, expected 2 to 2"},
        {FP8 ",'weight_block_size':[128,0]", IN, "expected two numbers from 1"},
        {FP8 ",'weight_block_size':128", IN, "weight_block_size is 128, expected an array"},
        {FP8 ",'ignored_layers':[null]", IN, "ignored_layers has element 0 null, expected"},
        {FP8 ",'modules_to_not_convert':['a(']", IN,
         "modules_to_not_convert[0] \"a(\": no regular"},
        {"'quant_method':'gptq','group_size':128", IN, "bits is 0, expected 2, 3, 4 or 8"},
        {"'quant_method':'gptq','bits':5", IN, "bits is 5, expected 2, 3, 4 or 8"},
        {GPTQ ",'bits_':5", SB_OK, ""},
        {GPTQ ",'sym':'yes'", IN, "sym is the string \"yes\", expected true or false"},
        {GPTQ ",'format':'marlin'", UN, "format is \"marlin\", which is not read"},
        {GPTQ ",'format':'gptq','checkpoint_format':'gptq_v2'", IN,
         "format is \"gptq\", which contradicts checkpoint_format"},
        {GPTQ ",'dynamic':[]", IN, "quantization_config.dynamic is an array of 0, expected"},
        {GPTQ ",'dynamic':false", SB_OK, ""},
        {GPTQ ",'dynamic':{'-:a':7}", IN, "dynamic.-:a is 7, expected an object"},
        {GPTQ ",'dynamic':{'+:a':{'bits':16}}", IN, "dynamic.+:a.bits is 16, expected"},
        {GPTQ ",'dynamic':{'-:*a':{}}", IN, "dynamic \"-:*a\": no regular expression: quantifier"},
        {GPTQ ",'lm_head':'no'", IN, "lm_head is the string \"no\""},
        {AWQ ",'version':'marlin'", UN, "version is \"marlin\", which is not read"},
        {AWQ ",'zero_point':0", IN, "zero_point is 0, expected true or false"},
        {AWQ ",'modules_to_not_convert':null", SB_OK, ""},
        {AR ",'data_type':'nv_fp'", UN, "data_type is \"nv_fp\" of 4 bits in groups of 128"},
        {AR ",'packing_format':'auto_round:exllama'", UN, "in packing_format \"auto_round:exllama"},
        {AR ",'extra_config':{'a.b':{'bits':'8'}}", IN, "extra_config.a.b.bits is the string"},
        {AR ",'extra_config':{'a.*(':{'bits':16}}", IN, "extra_config \"a.*(\": no regular"},
        {AR ",'extra_config':{'a':{'bits':9}}", UN,
         "extra_config.a.data_type is \"int\" of 9 bits"},
        {AR ",'block_name_to_quantize':7", IN, "block_name_to_quantize is 7, expected an array"},
        {MO "null", IN, "quant_algo is null, expected a string"},
        {MO "'W5A5'", UN, "quant_algo is \"W5A5\", which is not read"},
        {MO "'NVFP4','group_size':32", UN, "group_size is 32, which is not read with NVFP4"},
        {MO "'W4A16_NVFP4','group_size':32", SB_OK, ""},
        {MO "'NVFP4','ignore':['a[0-9]']", UN, "ignore[0] \"a[0-9]\": has a set in brackets"},
        {MO "'NVFP4','kv_cache_scheme':'FP4'", UN, "kv_cache_scheme is \"FP4\", which is not read"},
        {MO "'MIXED_PRECISION','quantized_layers':[]", IN, "quantized_layers is an array of 0"},
        {MO "'MIXED_PRECISION','quantized_layers':{'a':{}}", IN,
         "quantized_layers.a.quant_algo is absent, expected a string"},
        {MO "'MIXED_PRECISION','quantized_layers':{'a':{'quant_algo':'W5'}}", UN,
         "quantized_layers.a.quant_algo is \"W5\""},
        {MO "'MIXED_PRECISION','config_groups':{'g':{'weights':{'num_bits':3}}}", UN,
         "config_groups.g.weights are of 3 bits in groups of 0"},
    };
    CHECK_BAD("{'quantization_config':{%s}}", cases);
    static const bad files[] = {
        {"[]", IN, "hf_quant_config.json: the document is an array of 0, expected an object"},
        {"{}", IN, "hf_quant_config.json: quantization is absent, expected an object"},
        {"{'quantization':{}}", IN, "hf_quant_config.json: quantization.quant_method is absent"},
        {"{'quantization':{'quant_algo':'X'}}", UN, "quantization.quant_algo is \"X\""},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        sb_error err;
        sb_declared *d;
        sb_status status = declared_read(&(declared_texts){"{}", files[i].text, NULL}, &d, &err);
        check_status(files[i].text, status, &err, files[i].status, files[i].fragment);
    }
}

/* Refused only when a module is asked about: the pattern itself is valid. */
TEST(test_patterns_that_take_too_long)
{
    sb_error err;
    sb_declaration answer;
    char name[64];
    sb_declared *d = declared_good(QUANT(CT "{},'ignore':['re:(a|a)*(a|a)*[bc]']"), NULL, NULL);
    memset(name, 'a', 60);
    name[60] = '\0';
    check_status("long", sb_declared_for(d, name, &answer, &err), &err, SB_ERR_UNSUPPORTED,
                 "config.json: quantization_config.ignore[0] \"re:(a|a)*(a|a)*[bc]\": the regular "
                 "expression takes too long on module \"aaaa");
    check_status("short", sb_declared_for(d, "aab", &answer, &err), &err, SB_OK, "");
    assert_int_equal(answer.answer, SB_DECLARED_NO);
    sb_declared_free(d);
    /* many steps that need little memory */
    d = declared_good(QUANT(CT "{},'ignore':['re:.*a.*a.*a.*a.*a[bc]']"), NULL, NULL);
    check_status("steps", sb_declared_for(d, name, &answer, &err), &err, SB_ERR_UNSUPPORTED,
                 "takes too long");
    sb_declared_free(d);
    /* more patterns than any file has, and a longer one than any file has */
    static char many[100000];
    size_t n = (size_t)snprintf(many, sizeof many, "{'quantization_config':{" CT "{},'ignore':[");
    for (size_t i = 0; i < 4097; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, "'re:a%zu',", i);
    snprintf(many + n - 1, sizeof many - n + 1, "]}}");
    check_status("many", declared_read(&(declared_texts){many, NULL, NULL}, &d, &err), &err, IN,
                 "ignore has more than 4096 patterns");
    n = (size_t)snprintf(many, sizeof many, "{'quantization_config':{" CT "{},'ignore':['re:");
    memset(many + n, 'a', 5000);
    snprintf(many + n + 5000, sizeof many - n - 5000, "']}}");
    check_status("long", declared_read(&(declared_texts){many, NULL, NULL}, &d, &err), &err, IN,
                 "a regular expression of 5000 bytes, expected at most 4096");
}

TEST(test_folders)
{
    sb_error err;
    sb_declared *d;
    scratch_path dir = scratch_new();
    check_status("empty", sb_declared_load(dir.text, &d, &err), &err, SB_ERR_IO, "config.json");
    assert_null(d);
    scratch_write_json(dir.text, "config.json", "{'model_type':'qwen3_5_moe'}");
    check_status("none", sb_declared_load(dir.text, &d, &err), &err, SB_OK, "");
    assert_null(d);
    scratch_write_json(dir.text, "hf_quant_config.json", "{'quantization':{'quant_algo':'FP8'}}");
    check_status("hf", sb_declared_load(dir.text, &d, &err), &err, SB_OK, "");
    assert_int_equal(sb_declared_dialect(d), SB_DIALECT_modelopt);
    sb_declared_free(d);
    scratch_write_json(dir.text, "quantization_config.json", "{" AWQ "}");
    check_status("copy", sb_declared_load(dir.text, &d, &err), &err, SB_OK, "");
    assert_int_equal(sb_declared_dialect(d), SB_DIALECT_awq);
    sb_declared_free(d);
    scratch_write_json(dir.text, "quantization_config.json", "{");
    check_status("broken", sb_declared_load(dir.text, &d, &err), &err, SB_ERR_INPUT,
                 "quantization_config.json:1:2");
    scratch_remove(dir.text);
}

static void *counted_malloc(size_t bytes)
{
    return sb_alloc(bytes, 1);
}

/* With files that use every kind of memory, each allocation fails once. */
TEST(test_memory_that_ends)
{
    static const declared_texts cases[] = {
        {QUANT(CT8("") ",'ignore':['lm_head','re:.*gate$']"), NULL, NULL},
        {QUANT(MO
               "'MIXED_PRECISION','ignore':['a*'],'quantized_layers':{'b':{'quant_algo':'FP8'}}"),
         "{'producer':{'version':'1'},'quantization':{'quant_algo':'FP8','kv_cache_quant_algo':'"
         "FP8',"
         "'exclude_modules':['c'],'quantized_layers':{'b':{'quant_algo':'NVFP4'}}}}",
         NULL},
        {QUANT(AR ",'block_name_to_quantize':'a,b','extra_config':{'a.*':{'bits':8}}"), NULL,
         "{'bits':8}"},
    };
    json_set_alloc_funcs(counted_malloc, free);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned long n = 1;
        for (sb_status status = SB_ERR_MEMORY; status != SB_OK; n++) {
            sb_error err;
            sb_declared *d;
            sb_declaration answer;
            sb_alloc_fail_at(n);
            status = declared_read(&cases[i], &d, &err);
            assert_true((d == NULL) == (status != SB_OK));
            if (status == SB_OK)
                status = sb_declared_for(d, "a.mlp.gate_proj", &answer, &err);
            sb_alloc_fail_at(0);
            if (status != SB_OK)
                check_status("memory", status, &err, SB_ERR_MEMORY, "out of memory");
            assert_int_equal(sb_declared_lost(d), d && status != SB_OK);
            sb_declared_free(d);
            assert_true(n < 10000);
        }
        assert_true(n > 30);
    }
    json_set_alloc_funcs(malloc, free);
}
