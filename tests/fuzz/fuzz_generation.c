/* fuzz_generation.c - generation_config.json, with the files of a tokenizer beside it, changed in
 * meaningful parts (json_mutate.h), alone and beside an original that was changed as well. Check 51
 * and the report finish, twice with the same findings. Sampling parameters outside their range are
 * reported.
 *
 * Input: any bytes, the key of the draws. SAMEBIT_FUZZ_KEEP=1 keeps the folders of the last
 * input. */
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <sys/stat.h>

#include "ref/base/pool.h"
#include "tests/fuzz/checked.h"
#include "tests/fuzz/made_files.h"
#include "tests/fuzz/json_mutate.h"
#include "tests/lib/checkpoint.h"

const char fuzz_name[] = "generation";
unsigned long fuzz_accepted; /* the text is JSON */

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char tokenizer[] =
    "{\"added_tokens\": [{\"id\": 5, \"content\": \"<|end|>\", \"special\": true},\n"
    " {\"id\": 6, \"content\": \"<|im_end|>\"}, {\"id\": 7, \"content\": \"<|pad|>\"}],\n"
    " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": "
    "4},\n \"merges\": [[\"a\", \"b\"], [\"ab\", \"c\"]]}}";

/* The files; the first one is changed most often. */
static const char *const names[] = {"generation_config.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "added_tokens.json",
                                    "tokenizer.json"};
static const char *const others[COUNT(names)] = {
    "",
    "{\"added_tokens_decoder\": {\"5\": {\"content\": \"<|end|>\"}}, \"eos_token\": "
    "\"<|im_end|>\", \"pad_token\": {\"content\": \"<|pad|>\"}, \"bos_token\": null, "
    "\"add_bos_token\": false, \"tokenizer_class\": \"Qwen2Tokenizer\", \"model_max_length\": "
    "262144}",
    "{\"eos_token\": \"<|im_end|>\", \"pad_token\": {\"content\": \"<|pad|>\"}}",
    "{\"<|end|>\": 5, \"<|im_end|>\": 6, \"<|pad|>\": 7}", tokenizer};

static const char *const settings[] = {
    "{\"bos_token_id\": 5, \"do_sample\": true, \"eos_token_id\": [6, 5], \"pad_token_id\": 7, "
    "\"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95, \"transformers_version\": \"4.57.0\"}",
    "{\"eos_token_id\": 6, \"temperature\": 1.0, \"min_p\": 0.0, \"typical_p\": 1.0, "
    "\"repetition_penalty\": 1.05, \"presence_penalty\": 1.5}",
    "{\"eos_token_id\": [[5], 6], \"top_k\": -1, \"top_p\": 1, \"bad_words_ids\": [[1, 2], [3]], "
    "\"nested\": {\"eos_token_id\": 5, \"temperature\": -1}}",
    "{\"model_max_length\": 1000000000000000019884624838656, \"eos_token_id\": 6, \"top_k\": 1e3}",
    "[{\"eos_token_id\": 6}]",
    "{}"};

/* The checkpoint beside these files, made at first use. */
static const char *vehicle(void)
{
    static const char *path;
    const sb_make_options made = {
        .dir = "vehicle", .preset = "T4", .layers = 1, .recipe = "plain", .format = "bf16"};
    if (!path)
        path = test_checkpoint_with("fuzz_generation", &made);
    return path;
}

/* Links the checkpoint and writes the changed files. Returns the text of generation_config.json, or
 * NULL. */
static char *make_folder(const char *folder, json_draws *d)
{
    static const char *const sound[] = {
        "config.json", "model.safetensors.index.json", "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"};
    char *kept = NULL;
    int valid;
    mkdir(folder, 0777);
    files_empty(folder);
    for (size_t i = 0; i < COUNT(sound); i++)
        files_link(vehicle(), sound[i], folder);
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *from = i ? others[i] : settings[json_draw(d, COUNT(settings))];
        unsigned steps = (unsigned)(i ? json_draw(d, 20) == 0 : json_draw(d, 5));
        if (json_draw(d, 20) == 0)
            continue;
        char *text = json_mutate(from, steps, d, &valid);
        files_write_text(folder, names[i], text);
        fuzz_accepted += i == 0 && valid;
        if (i == 0)
            kept = text;
        else
            free(text);
    }
    return kept;
}

/* Independent check of the ranges: a number that no engine accepts is reported. */
static void check_ranges(const sb_check *check, const char *text)
{
    static const struct {
        const char *key;
        double low, high;
    } ranges[] = {{"temperature", 0, 1e300},
                  {"top_p", 0, 1},
                  {"top_k", -1, 1e300},
                  {"min_p", 0, 1},
                  {"typical_p", 0, 1}};
    json_t *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    for (size_t i = 0; i < COUNT(ranges); i++) {
        const json_t *value = json_object_get(json, ranges[i].key);
        double x = json_number_value(value);
        char part[80];
        snprintf(part, sizeof part, "generation_config.json: %s is", ranges[i].key);
        if (json_is_number(value) && (x < ranges[i].low || x > ranges[i].high))
            FUZZ_CHECK(checked_find(check, part));
    }
    json_decref(json);
}

static void check_same(const sb_check *a, const sb_check *b)
{
    FUZZ_CHECK(a->findings.count == b->findings.count);
    for (size_t i = 0; i < a->findings.count; i++)
        FUZZ_CHECK(strcmp(a->findings.rows[i].message, b->findings.rows[i].message) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder, *original;
    json_draws d = {fuzz_key(data, size), 0};
    if (!folder) {
        folder = test_path("fuzz_generation", "folder");
        original = test_path("fuzz_generation", "original");
        sb_threads_set(1);
    }
    sb_check_options options = {.path = folder, .headers_only = 1, .io = SB_IO_pread};
    memset(options.skip, 1, sizeof options.skip);
    options.skip[51] = 0;
    char *text = make_folder(folder, &d);
    if (json_draw(&d, 3)) {
        free(make_folder(original, &d));
        options.against = original;
    }
    sb_check check, again;
    checked_run(&options, &check);
    check_ranges(&check, text);
    if (json_draw(&d, 16) == 0) {
        checked_run(&options, &again);
        check_same(&check, &again);
        sb_check_free(&again);
    }
    sb_check_free(&check);
    free(text);
    if (!getenv("SAMEBIT_FUZZ_KEEP")) {
        files_empty(folder);
        mkdir(original, 0777);
        files_empty(original);
    }
    return 0;
}
