/* declared_parts.h - included only by declared.c and the other declared_*.c. */
#ifndef SB_MODEL_DECLARED_PARTS_H
#define SB_MODEL_DECLARED_PARTS_H

#include <stdatomic.h>

#include "ref/container/json.h"
#include "ref/model/declared.h"
#include "ref/model/declared_pattern.h"

typedef enum sb_rule_kind {
    SB_RULE_EXACT,     /* the full name */
    SB_RULE_MATCH,     /* as Python's re.match */
    SB_RULE_SEARCH,    /* as Python's re.search */
    SB_RULE_GLOB,      /* as Python's fnmatch, the whole name */
    SB_RULE_PART,      /* the name begins or ends with the text, bounded by a dot */
    SB_RULE_PREFIX,    /* the name begins with the text, bounded by a dot */
    SB_RULE_SUBSTRING, /* the text is anywhere in the name */
} sb_rule_kind;

enum { SB_NOT_QUANTIZED = -1 };

typedef struct sb_rule {
    sb_rule_kind kind;
    char *text;
    char *where; /* "quantization_config.ignore[3] \"re:.*gate\"" */
    sb_regex *regex;
    int32_t scheme; /* index into sb_declared.schemes, or SB_NOT_QUANTIZED */
    uint32_t order; /* position in the file */
} sb_rule;

/* After sb_rules_close the first `exact` rules are the exact ones, sorted by text; the others keep
 * the order of the file. */
typedef struct sb_rules {
    sb_rule *rule;
    size_t count, exact;
} sb_rules;

/* The place of a rule in a file, for messages: "key[index]", or "key" if index is SIZE_MAX. */
typedef struct sb_rule_place {
    const char *file;
    const char *key;
    size_t index;
} sb_rule_place;

sb_status sb_rules_add(sb_rules *rules, sb_rule_kind kind, const char *text, const char *shown,
                       int32_t scheme, const sb_rule_place *place, sb_error *err);
void sb_rules_close(sb_rules *rules);
void sb_rules_free(sb_rules *rules);

/* The last exact rule with this text, or NULL. */
const sb_rule *sb_rules_exact(const sb_rules *rules, const char *name);

/* Finds the first matching rule that is not exact, from index *next on, and sets *next to the index
 * after it. *out is NULL if no rule matches. The first call has *next = 0. */
sb_status sb_rules_next(const sb_declared *declared, const sb_rules *rules, const char *name,
                        size_t *next, const sb_rule **out, sb_error *err);

/* Finds the exact rule for the name if there is one, else the first matching pattern. */
sb_status sb_rules_find(const sb_declared *declared, const sb_rules *rules, const char *name,
                        const sb_rule **out, sb_error *err);

struct sb_declared {
    sb_dialect dialect;
    sb_declared_kv kv;
    char *file; /* the file that decides */
    sb_declaration *schemes;
    size_t scheme_count;
    int32_t base;     /* scheme of modules without a rule, or SB_NOT_QUANTIZED */
    sb_rules ignore;  /* names that are not quantized */
    sb_rules targets; /* names with their own scheme, or SB_NOT_QUANTIZED */
    sb_rules blocks;  /* auto-round: modules outside these are not quantized */
    uint8_t lm_head;  /* gptq: the head is quantized, too */
    uint8_t by_layer; /* modelopt: only targets are quantized */
    uint8_t unlisted; /* modelopt: MIXED_PRECISION without a list of layers */
    char **notes;
    size_t note_count;
    atomic_int *lost; /* 1: an answer failed for lack of memory */
};

/* The documents while they are read. `object` is the declaring object: quantization_config, or the
 * object of another file. `hf` is "quantization" of hf_quant_config.json; its json is NULL if there
 * is none. */
typedef struct sb_declared_reading {
    sb_declared *declared;
    sb_json_object object;
    sb_json_object hf;
    sb_json_object hf_root;
    int from_hf; /* object is from hf_quant_config.json; config.json declares nothing */
} sb_declared_reading;

/* Appends a copy of the scheme unless an equal scheme exists; sets *index to the place of the copy
 * or the equal scheme. */
sb_status sb_declared_scheme(sb_declared *declared, const sb_declaration *scheme, int32_t *index,
                             sb_error *err);

/* Appends a note. After 32 notes, one last note says that there are more. */
sb_status sb_declared_add_note(sb_declared *declared, sb_error *err, const char *format, ...)
    SB_PRINTF(3, 4);

sb_status sb_declared_no_memory(const sb_declared *declared, sb_error *err);

/* Visits the members of object `key` of `at` in the order of the file. Each member must be an
 * object. If if_array is not NULL, a member that is an array is refused with this message, as a
 * known form that is not supported. */
typedef sb_status (*sb_declared_visit)(void *ctx, const sb_json_object *list, const char *name,
                                       const sb_json_object *member, sb_error *err);
sb_status sb_declared_each(const sb_json_object *at, const char *key, const char *if_array,
                           sb_declared_visit visit, void *ctx, sb_error *err);

/* Adds a rule for each string of an array; an absent or null array counts as empty. kind_of chooses
 * the kind and may move *text past a prefix. */
typedef sb_rule_kind (*sb_rule_kind_fn)(const char **text);
sb_status sb_declared_names(const sb_json_object *at, const char *key, sb_rule_kind_fn kind_of,
                            int32_t scheme, sb_rules *out, sb_error *err);

/* Reads a group size, a signed integer: GPTQ and similar files write -1 for "the whole row". */
sb_status sb_declared_group(const sb_json_object *at, const char *key, int64_t otherwise,
                            int64_t *out, sb_error *err);

/* Reads kv_cache_scheme or kv_cache_quant_algo in any known form: absent, null, a name, or the
 * fields of a number format. */
sb_status sb_declared_read_kv(const sb_json_object *at, const char *key, sb_declared_kv *out,
                              sb_error *err);

/* The kind of a module, from its name. Classes are those of the model code. */
typedef enum sb_module_kind {
    SB_MODULE_LINEAR,
    SB_MODULE_HEAD,    /* lm_head, which is also an nn.Linear */
    SB_MODULE_EXPERTS, /* fused experts: parameters of a module that is not an nn.Linear */
    SB_MODULE_ROUTER,  /* mlp.gate: not an nn.Linear */
    SB_MODULE_ONE_ROW, /* shared_expert_gate: an nn.Linear with a single row, which cannot fill a
                          packed word of 8 rows */
    SB_MODULE_OTHER    /* embeddings, norms, convolutions */
} sb_module_kind;
sb_module_kind sb_module_kind_of(const char *module);
int sb_module_outside(const char *module); /* true: part of the MTP head or the vision tower */

/* The "....mlp.experts" part of the name of a module within experts, written to room; NULL for
 * other modules. */
typedef struct sb_module_name {
    char text[512];
} sb_module_name;
const char *sb_module_experts(const char *module, sb_module_name *room);

/* These functions make an answer. */
sb_declaration sb_declared_no(const char *rule);
sb_declaration sb_declared_unknown(const char *rule);
sb_declaration sb_declared_yes(const sb_declared *declared, int32_t scheme, const char *rule);
sb_declaration sb_declared_by_rule(const sb_declared *declared, const sb_rule *rule);

#define SB_DIALECT(id, method, reader)                                                             \
    sb_status sb_declared_##reader##_read(sb_declared_reading *reading, sb_error *err);            \
    sb_status sb_declared_##reader##_for(const sb_declared *declared, const char *module,          \
                                         sb_declaration *out, sb_error *err);
#include "ref/model/declared.def"
#undef SB_DIALECT

#endif
