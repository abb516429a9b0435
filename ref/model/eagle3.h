/* eagle3.h - the configuration of an EAGLE-3 drafter, in each of its published dialects (M-12). */
#ifndef SB_MODEL_EAGLE3_H
#define SB_MODEL_EAGLE3_H

#include "ref/container/json.h"
#include "ref/model/config.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SB_EAGLE3_STATES = 8 }; /* the most states of the target that a drafter reads */

typedef enum sb_eagle3_dialect {
    SB_EAGLE3_specforge,   /* SafeAILab, SpecForge, ModelOpt: LlamaForCausalLMEagle3 */
    SB_EAGLE3_speculators, /* speculators_model_type "eagle3" */
} sb_eagle3_dialect;

typedef struct sb_eagle3_config {
    sb_eagle3_dialect dialect;
    sb_config layer;      /* of the drafter: one layer of attention; V is the target's vocabulary */
    uint32_t draft_vocab; /* Vd: rows of its head */
    uint32_t target_hidden; /* Ht */
    uint32_t states;        /* n: states of the target that it reads */
    /* (states) number of layers after which each state is taken, 0: the embedding */
    uint32_t after[SB_EAGLE3_STATES];
    int has_after;            /* 0: not in the file, which means 2, L/2 and L - 3 layers */
    int counts_outputs;       /* 1: the numbers of the file count outputs of layers, from layer 0 */
    int qk_norm;              /* 1: norms of queries and keys, as in Qwen3 */
    int norm_before_residual; /* 1: the residual is the normed state */
    int norm_before_fc;       /* 1: one norm of all states before fc */
    int fc_norm;              /* 1: a norm for each state before fc */
    int norm_output;          /* 1: the next step gets the output of the final norm */
} sb_eagle3_config;

/* Reads config.json of a drafter. SB_ERR_UNSUPPORTED names what is not computed: more layers than
 * one, parallel drafting, another activation, scaled or partial rotation. SB_ERR_INPUT names what
 * is missing; a key whose default the engines disagree about must be there (M-13). */
sb_status sb_eagle3_config_load(const char *path, sb_eagle3_config *out, sb_error *err);
sb_status sb_eagle3_config_parse(const char *text, size_t n, const char *name,
                                 sb_eagle3_config *out, sb_error *err);
sb_status sb_eagle3_config_read(json_t *root, const char *name, sb_eagle3_config *out,
                                sb_error *err);

/* M-12: 1 if this config.json is that of an EAGLE-3 drafter, of either dialect. */
int sb_eagle3_is_drafter(const json_t *root);
int sb_eagle3_in(const char *folder); /* the same for the config.json of a folder */

/* The key with the numbers of the states, at the root or in eagle_config. */
extern const char sb_eagle3_ids_key[];

/* M-13: the numbers of layers that absent numbers mean. */
void sb_eagle3_usual_states(uint32_t layers, uint32_t after[3]);

#ifdef __cplusplus
}
#endif

#endif
