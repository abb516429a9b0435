/* fuzz_folder.c - folders of every format with changes in meaningful parts of config.json,
 * hf_quant_config.json, the index or the side files (json_mutate.h). The check, the audit of the
 * MTP head and every form of the report finish.
 *
 * Input: any bytes, the key of the draws. SAMEBIT_FUZZ_KEEP=1 keeps the folder of the last
 * input. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

#include "ref/base/pool.h"
#include "tests/fuzz/checked.h"
#include "tests/fuzz/made_files.h"
#include "tests/fuzz/json_mutate.h"
#include "tests/lib/checkpoint.h"

const char fuzz_name[] = "folder";
unsigned long fuzz_accepted; /* all changed texts are still JSON */

enum { MOST_FILES = 16 };

/* An original folder; made when it is first drawn. */
typedef struct vehicle {
    sb_make_options options;
    const char *path;
    char *names[MOST_FILES], *texts[MOST_FILES]; /* of the JSON files */
    char *shards[MOST_FILES];
    size_t files, shard_count;
} vehicle;

#define T1(...)                                                                                    \
    {                                                                                              \
        .options = {.preset = "T1", .layers = 1, .tokenizer = 1, __VA_ARGS__ }                     \
    }

/* Behind these, one of each format that is quantized. */
enum { FIXED = 9, FORMATS = 32 };
static vehicle vehicles[FIXED + FORMATS] = {
    T1(.format = "bf16"),
    T1(.format = "f16"),
    T1(.format = "f32"),
    T1(.format = "nvidia-mix", .kv_scales = 1),
    T1(.format = "bf16", .layout = "vl"),
    T1(.format = "nvfp4-ct", .layout = "vl"),
    T1(.format = "fp8-block", .no_mtp = 1),
    {.options = {.preset = "T2", .format = "fp8-block", .layers = 4}},
    {.options = {.preset = "T5", .format = "bf16", .layers = 4}},
};

static size_t vehicle_count(void)
{
    static size_t count;
    if (count)
        return count;
    for (size_t i = 0; test_quantized_format(i); i++) {
        FUZZ_CHECK(i < FORMATS);
        vehicles[FIXED + i] = (vehicle)T1(.format = test_quantized_format(i));
        count = FIXED + i + 1;
    }
    return count;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_file(vehicle *v, const char *name)
{
    size_t n = strlen(name);
    FUZZ_CHECK(v->files < MOST_FILES && v->shard_count < MOST_FILES);
    if (n > 5 && strcmp(name + n - 5, ".json") == 0) {
        v->names[v->files] = strdup(name);
        v->texts[v->files++] = files_text(v->path, name);
    } else {
        v->shards[v->shard_count++] = strdup(name);
    }
}

static const vehicle *vehicle_at(size_t i)
{
    vehicle *v = &vehicles[i];
    char name[32];
    struct dirent **entries;
    if (v->path)
        return v;
    snprintf(name, sizeof name, "vehicle-%zu", i);
    v->options.dir = name;
    v->options.recipe = "plain";
    v->path = test_checkpoint_with("fuzz_folder", &v->options);
    int n = scandir(v->path, &entries, NULL, by_name);
    FUZZ_CHECK(n > 2);
    for (int k = 0; k < n; k++) {
        if (entries[k]->d_name[0] != '.')
            add_file(v, entries[k]->d_name);
        free(entries[k]);
    }
    free(entries);
    return v;
}

/* Draws a file: config.json more often than all others. */
static size_t drawn_file(const vehicle *v, json_draws *d)
{
    size_t i = json_draw(d, v->files);
    for (size_t k = 0; k < v->files && json_draw(d, 2); k++)
        if (strcmp(v->names[k], "config.json") == 0)
            return k;
    return i;
}

/* Makes the folder with one to three texts changed, removed, or under the name of another
 * declaration. Returns whether all changed texts are still JSON. */
static int make_folder(const char *folder, const vehicle *v, json_draws *d)
{
    static const char *const more[] = {"hf_quant_config.json", "quantization_config.json",
                                       "generation_config.json", "quantize_config.json"};
    char *text[MOST_FILES] = {NULL};
    int valid = 1, well;
    for (size_t times = 1 + json_draw(d, 8) / 6; times; times--) {
        size_t i = drawn_file(v, d);
        char *changed =
            json_mutate(text[i] ? text[i] : v->texts[i], 1 + (unsigned)json_draw(d, 4), d, &well);
        free(text[i]);
        text[i] = changed;
        valid &= well;
    }
    for (size_t i = 0; i < v->files; i++)
        if (text[i] || json_draw(d, 100))
            files_write_text(folder, v->names[i], text[i] ? text[i] : v->texts[i]);
    if (json_draw(d, 10) == 0) {
        size_t from = drawn_file(v, d);
        char *changed = json_mutate(v->texts[from], 1, d, &well);
        files_write_text(folder, more[json_draw(d, sizeof more / sizeof *more)], changed);
        valid &= well;
        free(changed);
    }
    for (size_t i = 0; i < v->shard_count; i++) {
        files_link(v->path, v->shards[i], folder);
    }
    for (size_t i = 0; i < v->files; i++)
        free(text[i]);
    return valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder;
    json_draws d = {fuzz_key(data, size), 0};
    if (!folder) {
        folder = test_path("fuzz_folder", "folder");
        sb_threads_set(1);
    }
    mkdir(folder, 0777);
    files_empty(folder);
    const vehicle *v = vehicle_at(json_draw(&d, vehicle_count()));
    fuzz_accepted += (unsigned long)make_folder(folder, v, &d);
    /* mostly headers only: the payload was not changed */
    sb_check_options options = {.path = folder,
                                .against = json_draw(&d, 8) == 0 ? v->path : NULL,
                                .headers_only = json_draw(&d, 16) != 0,
                                .need_mtp = json_draw(&d, 8) == 0,
                                .io = SB_IO_pread};
    if (json_draw(&d, 32) == 0) { /* as the original */
        options.path = v->path;
        options.against = folder;
    }
    sb_check check;
    checked_run(&options, &check);
    sb_check_free(&check);
    return 0;
}
