/* config.h - the configuration of a graft: changes it so that every module is declared as it is
 * stored. For graft.c. */
#ifndef SB_GRAFT_CONFIG_H
#define SB_GRAFT_CONFIG_H

#include <jansson.h>

#include "ref/model/declared.h"
#include "ref/model/detect.h"
#include "tools/check/graft/graft.h"

enum { SB_DOC_CONFIG, SB_DOC_HF_QUANT, SB_DOC_QUANTIZATION, SB_DOC_COUNT };

/* One configuration file. */
typedef struct sb_graft_doc {
    char *path, *text; /* text: as on disk; NULL: no such file */
    json_t *root;
    json_t *object; /* the declaration within root; NULL: none */
    char *new_text; /* NULL: unchanged */
    int changed;    /* `object` was changed */
    sb_dialect dialect;
} sb_graft_doc;

/* A layer of the result. */
typedef struct sb_graft_layer {
    char *name;
    sb_found found;
    int taken;
    int due;    /* 1: must be declared as stored; 0: not taken, and the source did not declare it as
                   stored, either */
    int hybrid; /* W-6: the dialect cannot declare it; declared as not quantized */
    sb_declaration now; /* its declaration in the current document */
} sb_graft_layer;

typedef struct sb_graft_config {
    const sb_checkpoint *result; /* overlaid in memory, not yet written */
    int reindex; /* counts as taken: layers missing in the index, and float layers of the head */
    const char *folder; /* folder of the source */
    const char *prefix; /* prefix of the text model's names in the result */
    sb_graft_doc doc[SB_DOC_COUNT];
    sb_graft_doc theirs; /* config.json of the other folder */
    const char *their_prefix;
    sb_declared *their_declared;
    sb_graft_layer *layers; /* in order of name */
    size_t layer_count;
    sb_graft_lines *changes, *notes;
    int adopted; /* the source declared nothing, so theirs was taken over */
} sb_graft_config;

/* Adds a line; 0 if memory is out. */
int sb_graft_line(sb_graft_lines *lines, const char *format, ...) SB_PRINTF(2, 3);
void sb_graft_lines_free(sb_graft_lines *lines);

/* Reads the files of the source and makes the new texts. other: the folder to take from, or NULL.
 * out->result: the result in memory. Call sb_graft_config_free in any case. */
sb_status sb_graft_config_make(sb_graft_config *out, const char *folder, const char *other,
                               sb_error *err);
void sb_graft_config_free(sb_graft_config *config);

/* rounds.c: changes a document until it declares every due layer as it is stored. */
sb_status sb_graft_edit(sb_graft_config *c, int which, sb_error *err);

/* Sets `now` of every layer. *open: the number of due layers with a wrong declaration. */
sb_status sb_graft_look(sb_graft_config *c, const sb_declared *declared, size_t *open,
                        sb_error *err);

/* SB_ERR_UNSUPPORTED, naming the layer, if a due layer is not declared as it is stored. */
sb_status sb_graft_not_said(const sb_graft_config *c, const sb_graft_doc *doc, sb_error *err);

/* notes.c: errors and notes about layers that the dialect cannot declare, inputs that are no longer
 * quantized, rules that engines read differently, and layers that engines fuse but that are stored
 * differently. */
sb_status sb_graft_refuse_unsaid(const sb_graft_config *c, sb_error *err);
sb_status sb_graft_note_inputs(sb_graft_config *c, sb_error *err);
sb_status sb_graft_note_hybrid(sb_graft_config *c, sb_error *err);
sb_status sb_graft_note_engines(sb_graft_config *c, const sb_declared *declared, sb_error *err);
sb_status sb_graft_note_fused(sb_graft_config *c, sb_error *err);

/* How a rule selects modules. */
typedef enum sb_name_kind {
    SB_NAME_exact,
    SB_NAME_experts, /* all experts of a layer: "...mlp.experts" */
    SB_NAME_head     /* all names that begin with "mtp." */
} sb_name_kind;

/* rules.c. Declares a module as not quantized. */
sb_status sb_graft_exclude(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                           sb_name_kind kind, sb_error *err);

/* Declares a layer as quantized the way it is stored; *done is 0 if the dialect cannot declare
 * that. whole: all experts of its layer are alike. */
sb_status sb_graft_include(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                           int whole, int *done, sb_error *err);

/* True if the dialect can declare this layer. */
int sb_graft_can(const sb_graft_config *c, const sb_graft_doc *doc, const sb_graft_layer *layer);

/* Removes the list entry that `rule` names. 0 if it names none. */
int sb_graft_drop_rule(sb_graft_config *c, sb_graft_doc *doc, const char *rule);
void sb_graft_compact(sb_graft_doc *doc); /* call after the last removal */

/* groups.c: the same for groups and lists of schemes. */
sb_status sb_graft_ct_target(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                             int whole, int *done, sb_error *err);
int sb_graft_ct_can(const sb_graft_config *c, const sb_graft_layer *layer);
int sb_graft_modelopt_can(const sb_graft_config *c, const sb_graft_layer *layer);
sb_status sb_graft_modelopt_layer(sb_graft_config *c, sb_graft_doc *doc,
                                  const sb_graft_layer *layer, int whole, int *done, sb_error *err);
int sb_graft_modelopt_unlist(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                             sb_name_kind kind);

/* The declaration in the other folder; its answer is "no" if nothing is declared. */
sb_declaration sb_graft_theirs(const sb_graft_config *c, const char *name);

/* 1, and writes "....mlp.experts", for a layer within experts; else 0. */
int sb_graft_experts(const char *name, char *experts, size_t size);

/* A regular expression for a name with any prefix of the text model, without "^". */
void sb_graft_regex(const char *name, char *regex, size_t size);

#endif
