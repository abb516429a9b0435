/* side_files.c - check 51: tokenizer, generation settings, and leftovers of downloads. */
#include "tools/check/judge/side_files.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/check/judge/config_trees.h"

/* --- files ------------------------------------------------------------------------------------ */

int sb_side_exists(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const size_t n = strlen(folder);
    const char *between = n && folder[n - 1] != '/' ? "/" : "";
    return snprintf(path, sizeof path, "%s%s%s", folder, between, name) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

/* V-151: "read as Python reads it" - for model_max_length 10^30, which is not a 64-bit integer. Ids
 * are then not read as integers either, and not checked. */
static json_t *read_loosely(const char *path, sb_status *status)
{
    unsigned char *bytes;
    size_t count;
    sb_error unused;
    json_t *json = NULL;
    *status = sb_read_file(path, SB_JSON_MAX_BYTES, &bytes, &count, &unused);
    if (*status)
        return NULL;
    *status = sb_json_parse_loose((const char *)bytes, count, path, &json, &unused);
    free(bytes);
    return json;
}

json_t *sb_side_json(sb_check *check, const char *folder, const char *name, int tell)
{
    char *path = sb_path_join(folder, name);
    json_t *json = NULL;
    sb_error why;
    if (!path) {
        check->findings.lost = 1;
        return NULL;
    }
    if (access(path, F_OK) == 0) {
        check->side_files += tell != 0;
        sb_status status = sb_json_load(path, &json, &why);
        if (status && status != SB_ERR_MEMORY)
            json = read_loosely(path, &status);
        if (status == SB_ERR_MEMORY)
            check->findings.lost = 1;
        else if (status && tell)
            sb_check_find(check, 51, SB_LEVEL_error, "", "%s: cannot be read: %s", name,
                          sb_show_behind(why.text, path));
        if (status)
            json = NULL;
    }
    free(path);
    return json;
}

/* --- ids in other files ----------------------------------------------------------------------- */

/* The end-of-text ids, one or several, that have no token. */
typedef struct ends {
    size_t count, absent;
    json_int_t first;
} ends;

static void look_at_end(const sb_check *check, const sb_token_table *t, const json_t *id, ends *e)
{
    if (!json_is_integer(id))
        return;
    json_int_t n = json_integer_value(id);
    int known = n >= 0;
    if (known && t->json)
        known = sb_token_of_id(t, (uint64_t)n) != NULL;
    else if (known && check->self.has_config)
        known = (uint64_t)n < check->self.config.vocab_size;
    e->count++;
    if (!known && e->absent++ == 0)
        e->first = n;
}

/* V-151: "an end of text that the tokenizer does not have" */
static void tell_ends(sb_check *check, const sb_token_table *t, const json_t *settings)
{
    const json_t *eos = json_object_get(settings, "eos_token_id");
    ends e = {0};
    look_at_end(check, t, eos, &e);
    for (size_t i = 0; i < json_array_size(eos); i++)
        look_at_end(check, t, json_array_get(eos, i), &e);
    if (e.absent)
        sb_check_find(check, 51, e.absent == e.count ? SB_LEVEL_error : SB_LEVEL_warn, "",
                      "generation_config.json: eos_token_id %lld is not a token of this model, and "
                      "%zu of %zu end tokens are not%s",
                      (long long)e.first, e.absent, e.count,
                      e.absent == e.count ? ": generation does not end" : "");
}

/* V-151: "An id of images or videos for which the embedding has no row" */
static void tell_media(sb_check *check, const sb_token_table *t, const json_t *config)
{
    static const char *const keys[] = {"image_token_id", "video_token_id", "vision_start_token_id",
                                       "vision_end_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(config, keys[i]);
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value))
            continue;
        check->side_files += check->side_files == 0;
        if (id < 0 || (uint64_t)id >= check->self.config.vocab_size)
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "config.json: %s is %lld, expected less than vocab_size, which is %u",
                          keys[i], (long long)id, (unsigned)check->self.config.vocab_size);
        else if (t->json && !sb_token_of_id(t, (uint64_t)id))
            sb_check_find(check, 51, SB_LEVEL_info, "",
                          "config.json: %s is %lld, which is not a token of tokenizer.json",
                          keys[i], (long long)id);
    }
}

/* --- leftovers -------------------------------------------------------------------------------- */

static int is_leftover(const char *name)
{
    static const char *const kinds[] = {".incomplete", ".aria2", ".part", ".crdownload"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t m = strlen(kinds[i]);
        if (n > m && strcmp(name + n - m, kinds[i]) == 0)
            return 1;
    }
    return 0;
}

/* V-151: "Leftovers of an unfinished download" */
static void tell_leftovers(sb_check *check, const char *folder, const char *under)
{
    char *path = sb_path_join(folder, under);
    DIR *dir = path ? opendir(*under ? path : folder) : NULL;
    char first[256] = "";
    size_t count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_leftover(e->d_name) && (count++ == 0 || strcmp(e->d_name, first) < 0))
            snprintf(first, sizeof first, "%s", e->d_name);
    if (dir)
        closedir(dir);
    free(path);
    check->side_files += count;
    if (count)
        sb_check_find(check, 51, SB_LEVEL_warn, "",
                      "%s%s%s: a download was not finished; there are %zu such files", under,
                      *under ? "/" : "", SB_SHOW(first), count);
}

/* V-151: "Leftovers of another run": check 9 reports an hf_quant_config.json of another quantizer.
 */
static void tell_strangers(sb_check *check, const char *folder, const json_t *model)
{
    static const char *const keys[] = {"bits", "group_size", "sym", "desc_act"};
    const json_t *section = json_object_get(model, "quantization_config");
    json_t *other = section ? sb_side_json(check, folder, "quantize_config.json", 0) : NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *a = sb_value_get(other, keys[i]), *b = sb_value_get(section, keys[i]);
        sb_value_text x, y;
        if (a && b && !sb_value_same(a, b))
            sb_check_find(check, 51, SB_LEVEL_warn, "",
                          "quantize_config.json: %s is %s, in config.json %s; config.json decides, "
                          "but older programs read quantize_config.json",
                          keys[i], sb_value_show(a, &x), sb_value_show(b, &y));
    }
    json_decref(other);
    if (sb_side_exists(folder, "adapter_config.json"))
        sb_check_find(check, 51, SB_LEVEL_warn, "",
                      "adapter_config.json is beside the weights of a whole model: loaders read "
                      "the folder as an adapter, or apply the adapter a second time");
}

/* V-151: "if there is no vocabulary of any kind" */
static void tell_no_vocabulary(sb_check *check, const char *folder)
{
    static const char *const files[] = {"tokenizer.json", "vocab.json",    "tokenizer.model",
                                        "tekken.json",    "vocab.txt",     "spiece.model",
                                        "qwen.tiktoken",  "tiktoken.model"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (sb_side_exists(folder, files[i]))
            return;
    if (sb_side_exists(folder, "tokenizer_config.json"))
        sb_check_find(
            check, 51, SB_LEVEL_error, "",
            "tokenizer.json is missing: tokenizer_config.json is here, but there is no vocabulary");
}

/* V-151: "no tokenizer.json where the original has one" */
static void tell_lost_tokenizer(sb_check *check, const char *folder, const char *original)
{
    struct stat s;
    if (stat(check->options->path, &s) == 0 && S_ISDIR(s.st_mode) && check->self.has_config &&
        !sb_side_exists(folder, "tokenizer.json") && sb_side_exists(original, "tokenizer.json") &&
        !sb_side_exists(folder, "vocab.json"))
        sb_check_find(
            check, 51, SB_LEVEL_error, "",
            "tokenizer.json is missing, and the original has one: text cannot be cut into tokens");
}

/* --- all of it -------------------------------------------------------------------------------- */

static void load_table(sb_check *check, const char *folder, int tell, sb_token_table *out)
{
    sb_error why;
    sb_status status = sb_token_table_load(folder, out, &why);
    check->side_files += tell && (status || out->json);
    if (status == SB_ERR_MEMORY)
        check->findings.lost = 1;
    else if (status && tell) {
        char *path = sb_path_join(folder, "tokenizer.json");
        check->findings.lost |= !path;
        sb_check_find(check, 51, SB_LEVEL_error, "", "tokenizer.json: cannot be read: %s",
                      path ? sb_show_behind(why.text, path) : why.text);
        free(path);
    }
}

void sb_check_side_files(sb_check *check)
{
    const char *folder = sb_checkpoint_folder(check->self.checkpoint);
    const char *original =
        check->master.checkpoint ? sb_checkpoint_folder(check->master.checkpoint) : NULL;
    sb_token_table table, others = {0};
    if (!sb_check_wanted(check, 51))
        return;
    load_table(check, folder, 1, &table);
    if (table.json && original)
        load_table(check, original, 0, &others);
    json_t *config = sb_side_json(check, folder, "tokenizer_config.json", 1);
    json_t *settings = sb_side_json(check, folder, "generation_config.json", 1);
    sb_side_trees trees = {&table, &others, config, settings};
    sb_side_tokenizer(check, &table, config, &others);
    sb_side_chain(check, &table, &others);
    tell_no_vocabulary(check, folder);
    tell_ends(check, &table, settings);
    sb_side_settings(check, folder, original, &trees);
    sb_side_chat(check, folder, original, &trees);
    if (check->self.has_config) {
        json_t *model = sb_side_json(check, folder, "config.json", 0);
        tell_media(check, &table, model);
        tell_strangers(check, folder, model);
        json_decref(model);
    }
    if (original)
        tell_lost_tokenizer(check, folder, original);
    tell_leftovers(check, folder, "");
    tell_leftovers(check, folder, ".cache/huggingface/download");
    json_decref(settings);
    json_decref(config);
    sb_token_table_free(&others);
    sb_token_table_free(&table);
}
