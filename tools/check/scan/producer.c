#include "tools/check/scan/producer.h"

#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/json.h"

const char *sb_producer_name(sb_producer producer)
{
    static const char *const names[] = {
        "an unknown program",
        "compressed-tensors",
        "ModelOpt",
        "AutoRound",
        "a program that declares quant_method fp8",
        "GPTQ",
        "AWQ",
    };
    return names[producer];
}

/* 1 if the object names AutoRound, which writes its name under every quant_method. */
static int names_auto_round(const json_t *object)
{
    const char *provider = json_string_value(json_object_get(object, "provider"));
    return json_object_get(object, "autoround_version") != NULL ||
           (provider && strcmp(provider, "auto-round") == 0);
}

static int file_names_auto_round(const char *folder, const char *name)
{
    char *path = sb_path_join(folder, name);
    json_t *root = NULL;
    sb_error err;
    int found = 0;
    if (path && sb_json_load(path, &root, &err) == SB_OK) {
        found = names_auto_round(root) ||
                names_auto_round(json_object_get(root, "quantization_config"));
        json_decref(root);
    }
    free(path);
    return found;
}

sb_producer sb_producer_of(const sb_check *check)
{
    static const sb_producer of_dialect[SB_DIALECT_COUNT] = {
        [SB_DIALECT_ct] = SB_PRODUCER_compressed_tensors,
        [SB_DIALECT_modelopt] = SB_PRODUCER_modelopt,
        [SB_DIALECT_fp8] = SB_PRODUCER_fp8,
        [SB_DIALECT_gptq] = SB_PRODUCER_gptq,
        [SB_DIALECT_awq] = SB_PRODUCER_awq,
        [SB_DIALECT_auto_round] = SB_PRODUCER_auto_round,
    };
    const char *folder = sb_checkpoint_folder(check->self.checkpoint);
    if (file_names_auto_round(folder, "config.json") ||
        file_names_auto_round(folder, "quantization_config.json"))
        return SB_PRODUCER_auto_round;
    return check->self.declared ? of_dialect[sb_declared_dialect(check->self.declared)]
                                : SB_PRODUCER_unknown;
}

/* V-38: "in fewer than 32 iterations" */
static int strays(const json_t *object)
{
    const json_t *iters = json_object_get(object, "iters");
    return json_object_get(object, "lr") != NULL ||
           (json_is_integer(iters) && json_integer_value(iters) < 32);
}

/* 1 if `is` is true for one of the two files, or for its quantization_config. */
static int says(const sb_check *check, int (*is)(const json_t *object))
{
    const char *folder = sb_checkpoint_folder(check->self.checkpoint);
    static const char *const names[] = {"config.json", "quantization_config.json"};
    int found = 0;
    for (size_t i = 0; i < 2 && !found; i++) {
        char *path = sb_path_join(folder, names[i]);
        json_t *root = NULL;
        sb_error err;
        if (path && sb_json_load(path, &root, &err) == SB_OK) {
            found = is(root) || is(json_object_get(root, "quantization_config"));
            json_decref(root);
        }
        free(path);
    }
    return found;
}

int sb_producer_strays(const sb_check *check)
{
    return says(check, strays);
}

/* 1 if AutoRound declares 0 iterations. It writes their number only if it is not the default,
 * 200. */
static int rests(const json_t *object)
{
    const json_t *iters = json_object_get(object, "iters");
    return json_is_integer(iters) && json_integer_value(iters) <= 0;
}

int sb_producer_tunes(const sb_check *check)
{
    return check->self.checkpoint && sb_producer_of(check) == SB_PRODUCER_auto_round &&
           !says(check, rests);
}
