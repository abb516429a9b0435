#include "tools/make/quant_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/make/plan.h"

typedef void (*write_fn)(sb_json_out *out, const sb_make_plan *plan);

/* Per dialect: the object in config.json, and the file next to it. */
static const struct {
    write_fn object;
    const char *file;
    write_fn document;
} dialects[] = {
    [SB_MAKE_DIALECT_none] = {NULL, NULL, NULL},
    [SB_MAKE_DIALECT_compressed_tensors] = {sb_make_write_compressed_tensors, NULL, NULL},
    [SB_MAKE_DIALECT_modelopt] = {sb_make_write_modelopt, "hf_quant_config.json",
                                  sb_make_write_hf_quant},
    [SB_MAKE_DIALECT_fp8] = {sb_make_write_fp8, NULL, NULL},
    [SB_MAKE_DIALECT_gptq] = {sb_make_write_gptq, "quantize_config.json",
                              sb_make_write_quantize_config},
    [SB_MAKE_DIALECT_awq] = {sb_make_write_awq, NULL, NULL},
    [SB_MAKE_DIALECT_auto_round] = {sb_make_write_auto_round, "quantization_config.json",
                                    sb_make_write_auto_round_file},
    [SB_MAKE_DIALECT_quark] = {sb_make_write_quark, NULL, NULL},
};

/* G-21: "quantization_config at the root of config.json" */
void sb_make_write_quantization(sb_json_out *out, const char *key, const sb_make_plan *plan)
{
    write_fn object = dialects[plan->format->dialect].object;
    if (!object)
        return;
    sb_put_key(out, key);
    sb_put_open(out, '{');
    object(out, plan);
    sb_put_close(out, '}');
}

int sb_make_is_side_file(const char *name)
{
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (dialects[i].file && strcmp(name, dialects[i].file) == 0)
            return 1;
    return 0;
}

/* G-21: "hf_quant_config.json, quantize_config.json or quantization_config.json" */
sb_status sb_make_write_side_files(const sb_make_plan *plan, const char *dir, sb_error *err)
{
    const char *name = dialects[plan->format->dialect].file;
    char *text = NULL;
    size_t size = 0;
    if (!name)
        return SB_OK;
    char *path = sb_path_join(dir, name);
    sb_json_out out = {open_memstream(&text, &size), 0, 0};
    if (out.file) {
        sb_put_open(&out, '{');
        dialects[plan->format->dialect].document(&out, plan);
        sb_put_close(&out, '}');
        sb_put_finish(&out, &text);
    }
    sb_status status = path && text
                           ? sb_write_file(path, text, strlen(text), err)
                           : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %s", dir, name);
    free(path);
    free(text);
    return status;
}

int sb_make_is_vision(const sb_make_tensor *tensor)
{
    return tensor->role == SB_ROLE_COUNT;
}

int sb_make_is_mtp(const sb_make_plan *plan, const sb_make_tensor *tensor)
{
    (void)plan;
    return strncmp(tensor->name, "mtp.", 4) == 0;
}

int sb_make_plain_linear(const sb_make_plan *plan, const sb_make_tensor *t, sb_make_module *module)
{
    static const char suffix[] = ".weight";
    size_t length = strlen(t->name), tail = sizeof suffix - 1;
    int linear = sb_make_is_vision(t)
                     ? strstr(t->name, "pos_embed") == NULL
                     : sb_modules_of(t->role) != 0 || t->role == SB_ROLE_router ||
                           t->role == SB_ROLE_shared_expert_gate || t->role == SB_ROLE_mtp_fc;
    (void)plan;
    if (!linear || t->content != SB_CONTENT_plain || t->rank != 2 || length <= tail ||
        length >= sizeof module->name || strcmp(t->name + length - tail, suffix) != 0)
        return 0;
    snprintf(module->name, sizeof module->name, "%.*s", (int)(length - tail), t->name);
    return 1;
}
