/* plan.h - plans every tensor of the result, and its configuration; for convert.c. */
#ifndef SB_CONVERT_PLAN_H
#define SB_CONVERT_PLAN_H

#include "ref/container/target.h"
#include "ref/model/declared.h"
#include "ref/model/layers.h"
#include "tools/check/convert/convert.h"

/* One tensor. Members that are not set are those of the source's tensor. */
typedef struct sb_item {
    const sb_tensor *from;
    char *name;           /* NULL: as in the source */
    unsigned char *bytes; /* NULL: as in the source */
    int changed;          /* a part of a converted layer: its old metadata is dropped */
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    char *origin; /* metadata to write, or NULL */
    char *stored;
} sb_item;

typedef enum sb_scheme {
    SB_SCHEME_plain,
    SB_SCHEME_nvfp4,     /* weights and inputs */
    SB_SCHEME_nvfp4_a16, /* only weights */
    SB_SCHEME_fp8,
    SB_SCHEME_fp8_a16,
    SB_SCHEME_COUNT
} sb_scheme;

/* A module and its storage scheme, for the configuration. */
typedef struct sb_module {
    char *name;
    sb_scheme scheme;
} sb_module;

typedef struct sb_convert_plan {
    const sb_checkpoint *source;
    const sb_declared *declared; /* declaration of the source; may be NULL */
    int to_ct;
    sb_item *items; /* one per tensor of the source, in the same order */
    sb_module *modules;
    size_t module_count, module_room;
    sb_conversion *out;
    size_t scalar_room;
} sb_convert_plan;

/* Fills items and modules. */
sb_status sb_convert_plan_make(sb_convert_plan *plan, sb_error *err);
void sb_convert_plan_free(sb_convert_plan *plan);

/* config.c: makes the texts of the result's configuration; the caller frees them. hf_quant is NULL
 * for compressed-tensors. `config` is the text of config.json. */
sb_status sb_convert_config(const sb_convert_plan *plan, const char *folder, const char *config,
                            char **new_config, char **hf_quant, sb_error *err);

/* splice.c: replaces quantization_config in the JSON object `text`, and in its text_config, by
 * `value`, or adds it as the first key. All other bytes stay. */
sb_status sb_splice_quantization(const char *file, const char *text, const char *value, char **out,
                                 sb_error *err);

/* The same for one key of the text model, in text_config if there is one, else in the root. */
sb_status sb_splice_value(const char *file, const char *text, const char *name, const char *value,
                          char **out, sb_error *err);

/* folder.c: checks the target, and copies the files without tensors. */
sb_status sb_target_check(const char *source, const char *folder, int replace, sb_target *target,
                          sb_error *err);
int sb_target_is(const char *folder, const char *target); /* the same folder by any path */
sb_status sb_target_copy(const char *source, const char *partial, sb_conversion *out,
                         sb_error *err);

#endif
