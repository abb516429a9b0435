#include "ref/model/declared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/declared_parts.h"

enum { MAX_FILE_BYTES = 64 << 20 };

static const struct {
    const char *method;
    sb_status (*read)(sb_declared_reading *reading, sb_error *err);
    sb_status (*answer)(const sb_declared *declared, const char *module, sb_declaration *out,
                        sb_error *err);
} dialects[SB_DIALECT_COUNT] = {
#define SB_DIALECT(id, method, reader)                                                             \
    {method, sb_declared_##reader##_read, sb_declared_##reader##_for},
#include "ref/model/declared.def"
#undef SB_DIALECT
};

const char *sb_dialect_name(sb_dialect dialect)
{
    return dialects[dialect].method;
}

/* --- finding the object that declares --------------------------------------------------------- */

/* The three documents while they are read; NULL: absent. */
typedef struct documents {
    const sb_declared_file *file[3];
    json_t *json[3];
} documents;

enum { CONFIG, HF_QUANT, QUANTIZATION };

static sb_status parse_documents(documents *docs, sb_error *err)
{
    for (size_t i = 0; i < 3; i++) {
        const sb_declared_file *file = docs->file[i];
        if (!file || !file->text)
            continue;
        sb_status status = sb_json_parse(file->text, file->count, file->name, &docs->json[i], err);
        if (status != SB_OK)
            return status;
    }
    return SB_OK;
}

/* "the first of quantization_config, text_config.quantization_config and compression_config
 * of config.json, else quantization_config.json, else hf_quant_config.json" */
static sb_status find_object(const documents *docs, sb_declared_reading *reading, int *found,
                             sb_error *err)
{
    static const char *const paths[] = {"quantization_config", "text_config.quantization_config",
                                        "compression_config"};
    const char *name = docs->file[CONFIG] ? docs->file[CONFIG]->name : "";
    json_t *root = docs->json[CONFIG];
    if (root) {
        sb_status status = sb_json_object_at(root, name, "", &reading->object, err);
        if (status != SB_OK)
            return status;
    }
    json_t *places[] = {
        json_object_get(root, "quantization_config"),
        json_object_get(json_object_get(root, "text_config"), "quantization_config"),
        json_object_get(root, "compression_config")};
    *found = 1;
    for (size_t i = 0; i < 3; i++)
        if (places[i] && !json_is_null(places[i]))
            return sb_json_object_at(places[i], name, paths[i], &reading->object, err);
    if (docs->json[QUANTIZATION])
        return sb_json_object_at(docs->json[QUANTIZATION], docs->file[QUANTIZATION]->name, "",
                                 &reading->object, err);
    reading->from_hf = reading->hf.json != NULL;
    reading->object = reading->hf;
    *found = reading->from_hf;
    return SB_OK;
}

static sb_status find_hf(const documents *docs, sb_declared_reading *reading, sb_error *err)
{
    json_t *root = docs->json[HF_QUANT];
    if (!root)
        return SB_OK;
    const char *name = docs->file[HF_QUANT]->name;
    sb_status status = sb_json_object_at(root, name, "", &reading->hf_root, err);
    if (status != SB_OK)
        return status;
    return sb_json_object_at(json_object_get(root, "quantization"), name, "quantization",
                             &reading->hf, err);
}

/* "quant_method names the dialect. The dialects are the rows of `ref/model/declared.def`",
 * "Any other dialect is refused by name." Q-21: "Without quant_method, an object with quant_algo is
 * ModelOpt's, and one with config_groups is of compressed-tensors" - for older files. */
static sb_status find_dialect(const sb_declared_reading *reading, sb_dialect *out, sb_error *err)
{
    static const struct {
        const char *method;
        sb_dialect dialect;
    } others[] = {{"modelopt_fp4", SB_DIALECT_modelopt},
                  {"modelopt_mixed", SB_DIALECT_modelopt},
                  {"auto_round", SB_DIALECT_auto_round},
                  {"intel/auto-round", SB_DIALECT_auto_round}};
    const sb_json_object *at = &reading->object;
    const char *method = NULL;
    const char *otherwise = sb_json_get(at, "quant_algo")      ? "modelopt"
                            : sb_json_get(at, "config_groups") ? "compressed-tensors"
                                                               : NULL;
    sb_status status = sb_json_string_or(at, "quant_method", otherwise, &method, err);
    if (status != SB_OK)
        return status;
    if (!method)
        return sb_json_wrong(at, "quant_method", NULL, "the name of a method", err);
    for (int i = 0; i < SB_DIALECT_COUNT; i++) {
        if (strcmp(dialects[i].method, method) == 0) {
            *out = (sb_dialect)i;
            return SB_OK;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i].method, method) == 0) {
            *out = others[i].dialect;
            return SB_OK;
        }
    }
    return sb_json_fail(at, "quant_method", SB_ERR_UNSUPPORTED, err,
                        "is \"%s\", which is not read: expected compressed-tensors, modelopt, fp8, "
                        "gptq, awq, auto-round, mxfp4 or quark",
                        SB_SHOW(method));
}

/* mlx-lm's key of config.json, or NULL. */
static const json_t *mlx_key(const json_t *config)
{
    const json_t *object = json_object_get(config, "quantization");
    int is = json_is_integer(json_object_get(object, "bits")) &&
             json_is_integer(json_object_get(object, "group_size"));
    return is ? object : NULL;
}

/* "A config.json whose key quantization has bits and group_size is mlx-lm's, and is refused
 * by name" */
static sb_status refuse_mlx(const documents *docs, sb_error *err)
{
    const json_t *object = mlx_key(docs->json[CONFIG]);
    const char *mode = json_string_value(json_object_get(object, "mode"));
    if (!object)
        return SB_OK;
    return sb_fail(err, SB_ERR_UNSUPPORTED,
                   "%s: quantization is that of mlx-lm (mode %s, %" JSON_INTEGER_FORMAT
                   " bits, groups of %" JSON_INTEGER_FORMAT "), which is not read",
                   SB_SHOW(docs->file[CONFIG]->name), SB_SHOW(mode ? mode : "affine"),
                   json_integer_value(json_object_get(object, "bits")),
                   json_integer_value(json_object_get(object, "group_size")));
}

/* --- contradictions --------------------------------------------------------------------------- */

static sb_status note_key(sb_declared *declared, const char *key, const json_t *theirs,
                          const json_t *ours, sb_error *err)
{
    sb_json_text a;
    sb_json_text b;
    if (json_equal(theirs, ours))
        return SB_OK;
    if (json_is_array(theirs) || json_is_object(theirs))
        return sb_declared_add_note(
            declared, err, "quantization_config.json and config.json differ in %s", SB_SHOW(key));
    return sb_declared_add_note(declared, err,
                                "quantization_config.json has %s %s, but config.json %s",
                                SB_SHOW(key), sb_json_found(theirs, &a), sb_json_found(ours, &b));
}

/* quantization_config.json repeats config.json. A version number in only one of them is not a
 * contradiction. */
static sb_status note_copy(sb_declared *declared, const sb_json_object *at, const json_t *copy,
                           sb_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)copy, key, value)
    {
        json_t *ours = json_object_get(at->json, key);
        sb_status status = ours ? note_key(declared, key, value, ours, err) : SB_OK;
        if (status != SB_OK)
            return status;
    }
    return SB_OK;
}

static sb_status note_others(const documents *docs, sb_declared_reading *reading, sb_error *err)
{
    sb_declared *declared = reading->declared;
    const json_t *copy = docs->json[QUANTIZATION];
    sb_status status = SB_OK;
    if (json_is_object(copy) && copy != reading->object.json)
        status = note_copy(declared, &reading->object, copy, err);
    if (status == SB_OK && reading->hf.json && !reading->from_hf &&
        declared->dialect != SB_DIALECT_modelopt)
        status = sb_declared_add_note(
            declared, err,
            "hf_quant_config.json is ignored: the declaration with quant_method %s decides",
            sb_dialect_name(declared->dialect));
    return status;
}

/* --- reading everything ----------------------------------------------------------------------- */

static sb_status read_declared(const documents *docs, sb_declared_reading *reading, sb_error *err)
{
    sb_declared *declared = reading->declared;
    declared->base = SB_NOT_QUANTIZED;
    declared->file = sb_strdup(reading->object.file);
    if (!declared->file)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its quantization",
                       SB_SHOW(reading->object.file));
    sb_status status = find_dialect(reading, &declared->dialect, err);
    if (status == SB_OK)
        status = dialects[declared->dialect].read(reading, err);
    if (status == SB_OK)
        status = note_others(docs, reading, err);
    if (status != SB_OK)
        return status; /* no sb_rules_close: after a failure a rule may lack its text */
    sb_rules_close(&declared->ignore);
    sb_rules_close(&declared->targets);
    sb_rules_close(&declared->blocks);
    return SB_OK;
}

static sb_status build(const documents *docs, sb_declared **out, sb_error *err)
{
    sb_declared_reading reading = {0};
    int found = 0;
    sb_status status = refuse_mlx(docs, err);
    if (status == SB_OK)
        status = find_hf(docs, &reading, err);
    if (status == SB_OK)
        status = find_object(docs, &reading, &found, err);
    if (status != SB_OK || !found)
        return status;
    reading.declared = sb_alloc(1, sizeof *reading.declared);
    if (reading.declared)
        reading.declared->lost = sb_alloc(1, sizeof *reading.declared->lost);
    if (!reading.declared || !reading.declared->lost)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its quantization",
                         SB_SHOW(reading.object.file));
    else
        status = read_declared(docs, &reading, err);
    if (status == SB_OK)
        *out = reading.declared;
    else
        sb_declared_free(reading.declared);
    return status;
}

sb_status sb_declared_parse(const sb_declared_file *config, const sb_declared_file *hf_quant,
                            const sb_declared_file *quantization, sb_declared **out, sb_error *err)
{
    documents docs = {.file = {config, hf_quant, quantization}};
    *out = NULL;
    sb_status status = parse_documents(&docs, err);
    if (status == SB_OK)
        status = build(&docs, out, err);
    for (size_t i = 0; i < 3; i++)
        json_decref(docs.json[i]);
    return status;
}

/* Reads the files whose bits are set in `which`. If config.json is one of these files, it must
 * exist. */
static sb_status load(const char *folder, unsigned which, sb_declared **out, sb_error *err)
{
    static const char *const names[3] = {"config.json", "hf_quant_config.json",
                                         "quantization_config.json"};
    char *path[3] = {NULL, NULL, NULL};
    unsigned char *text[3] = {NULL, NULL, NULL};
    sb_declared_file file[3] = {{NULL, NULL, 0}};
    sb_status status = SB_OK;
    *out = NULL;
    for (size_t i = 0; i < 3 && status == SB_OK; i++) {
        path[i] = sb_path_join(folder, names[i]);
        file[i].name = path[i];
        if (!path[i])
            status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(folder));
        else if ((which >> i & 1) && (i == CONFIG || access(path[i], F_OK) == 0))
            status = sb_read_file(path[i], MAX_FILE_BYTES, &text[i], &file[i].count, err);
        file[i].text = (const char *)text[i];
    }
    if (status == SB_OK)
        status = sb_declared_parse(&file[0], &file[1], &file[2], out, err);
    for (size_t i = 0; i < 3; i++) {
        free(path[i]);
        free(text[i]);
    }
    return status;
}

sb_status sb_declared_load(const char *folder, sb_declared **out, sb_error *err)
{
    return load(folder, 1u << CONFIG | 1u << HF_QUANT | 1u << QUANTIZATION, out, err);
}

int sb_declared_is_mlx(const char *folder)
{
    unsigned char *text = NULL;
    size_t count = 0;
    json_t *config = NULL;
    sb_error err;
    char *path = sb_path_join(folder, "config.json");
    int is = path && sb_read_file(path, MAX_FILE_BYTES, &text, &count, &err) == SB_OK &&
             sb_json_parse((const char *)text, count, path, &config, &err) == SB_OK &&
             mlx_key(config);
    json_decref(config);
    free(text);
    free(path);
    return is;
}

sb_status sb_declared_load_copy(const char *folder, sb_declared **out, sb_error *err)
{
    return load(folder, 1u << QUANTIZATION, out, err);
}

void sb_declared_free(sb_declared *declared)
{
    if (!declared)
        return;
    for (size_t i = 0; i < declared->note_count; i++)
        free(declared->notes[i]);
    free(declared->notes);
    free(declared->schemes);
    free(declared->file);
    free(declared->lost);
    sb_rules_free(&declared->ignore);
    sb_rules_free(&declared->targets);
    sb_rules_free(&declared->blocks);
    free(declared);
}

sb_status sb_declared_for(const sb_declared *declared, const char *module, sb_declaration *out,
                          sb_error *err)
{
    *out = sb_declared_no("no quantization is declared");
    if (!declared)
        return SB_OK;
    sb_status status = dialects[declared->dialect].answer(declared, module, out, err);
    if (status == SB_ERR_MEMORY)
        *declared->lost = 1;
    return status;
}

int sb_declared_lost(const sb_declared *declared)
{
    return declared && *declared->lost;
}

int sb_declaration_same(const sb_declaration *a, const sb_declaration *b)
{
    return a->answer == b->answer && a->family == b->family && a->packing == b->packing &&
           a->strategy == b->strategy && a->activation == b->activation && a->bits == b->bits &&
           a->group_size == b->group_size && a->block_rows == b->block_rows &&
           a->block_cols == b->block_cols && a->activation_bits == b->activation_bits &&
           a->activation_group == b->activation_group && a->activation_int == b->activation_int &&
           a->symmetric == b->symmetric && a->act_order == b->act_order && a->ue8m0 == b->ue8m0 &&
           a->pre_scaled == b->pre_scaled;
}

sb_dialect sb_declared_dialect(const sb_declared *declared)
{
    return declared ? declared->dialect : SB_DIALECT_COUNT;
}

sb_declared_kv sb_declared_kv_cache(const sb_declared *declared)
{
    return declared->kv;
}

size_t sb_declared_notes(const sb_declared *declared)
{
    return declared->note_count;
}

const char *sb_declared_note(const sb_declared *declared, size_t i)
{
    return declared->notes[i];
}
