/* config.h - the configuration of a graft: what must be said so that every module is declared as
 * it is stored. For graft.c. */
#ifndef SB_GRAFT_CONFIG_H
#define SB_GRAFT_CONFIG_H

#include <jansson.h>

#include "ref/model/declared.h"
#include "ref/model/detect.h"
#include "tools/graft/graft.h"

enum { SB_DOC_CONFIG, SB_DOC_HF_QUANT, SB_DOC_QUANTIZATION, SB_DOC_COUNT };

/* One configuration file. */
typedef struct sb_graft_doc {
    char *path, *text; /* text as it is on disk; NULL: there is no such file */
    json_t *root;
    json_t *object; /* what declares, within root; NULL: it declares nothing */
    char *new_text; /* NULL: it stays as it is */
    int changed;    /* object was */
    sb_dialect dialect;
} sb_graft_doc;

/* A layer of the result. */
typedef struct sb_graft_layer {
    char *name;
    sb_found found;
    int taken;
    int due;            /* 1: must be declared as it is stored; 0: it was not before, either */
    int hybrid;         /* W-6: cannot be said, so it is said to be no quantized layer */
    sb_declaration now; /* by the document that is looked at */
} sb_graft_layer;

typedef struct sb_graft_config {
    const sb_checkpoint *result; /* overlaid, not yet written */
    int reindex;                 /* what the index lacks counts as taken, and the head's floats */
    const char *folder;          /* of the source */
    const char *prefix;          /* of the names of the text model in the result */
    sb_graft_doc doc[SB_DOC_COUNT];
    sb_graft_doc theirs; /* config.json of what is taken from */
    const char *their_prefix;
    sb_declared *their_declared;
    sb_graft_layer *layers; /* in order of name */
    size_t layer_count;
    sb_graft_lines *changes, *notes;
    int adopted; /* nothing was declared; their declaration was taken over */
} sb_graft_config;

/* Adds a line; 0 if memory is out. */
int sb_graft_line(sb_graft_lines *lines, const char *format, ...) SB_PRINTF(2, 3);
void sb_graft_lines_free(sb_graft_lines *lines);

/* Reads the files of the source and decides the new texts. other is the folder that is taken from
 * (NULL: nothing is taken), out->result the result in memory. Free in any case. */
sb_status sb_graft_config_make(sb_graft_config *out, const char *folder, const char *other,
                               sb_error *err);
void sb_graft_config_free(sb_graft_config *config);

/* rounds.c: changes a document until it says of every layer that is due what it is stored as. */
sb_status sb_graft_edit(sb_graft_config *c, int which, sb_error *err);

/* Sets `now` of every layer, and counts the due ones of which something else is said. */
sb_status sb_graft_look(sb_graft_config *c, const sb_declared *declared, size_t *open,
                        sb_error *err);

/* SB_ERR_UNSUPPORTED if there is one, which is named. */
sb_status sb_graft_not_said(const sb_graft_config *c, const sb_graft_doc *doc, sb_error *err);

/* notes.c: about layers that no dialect has words for (and the key that says so); that engines
 * judge differently; that engines compute as one, and that are not stored as one. */
sb_status sb_graft_refuse_unsaid(const sb_graft_config *c, sb_error *err);
sb_status sb_graft_note_inputs(sb_graft_config *c, sb_error *err);
sb_status sb_graft_note_hybrid(sb_graft_config *c, sb_error *err);
sb_status sb_graft_note_engines(sb_graft_config *c, const sb_declared *declared, sb_error *err);
sb_status sb_graft_note_fused(sb_graft_config *c, sb_error *err);

/* How a rule names modules. */
typedef enum sb_name_kind {
    SB_NAME_exact,
    SB_NAME_experts, /* all experts of a layer: "...mlp.experts" */
    SB_NAME_head     /* everything that begins with "mtp." */
} sb_name_kind;

/* rules.c. Says of a module that it is not quantized. */
sb_status sb_graft_exclude(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                           sb_name_kind kind, sb_error *err);

/* Says of a layer that it is quantized as it is stored; *done is 0 if the dialect has no words for
 * that. whole: the experts of its layer are all alike. */
sb_status sb_graft_include(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                           int whole, int *done, sb_error *err);

/* Whether the dialect has words for a layer stored so. */
int sb_graft_can(const sb_graft_config *c, const sb_graft_doc *doc, const sb_graft_layer *layer);

/* Takes the entry of a list away that now.rule names: 1, or 0 if it names none. */
int sb_graft_drop_rule(sb_graft_config *c, sb_graft_doc *doc, const char *rule);
void sb_graft_compact(sb_graft_doc *doc); /* after the last of them, before it is read again */

/* groups.c: the same for groups of schemes. */
sb_status sb_graft_ct_target(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *layer,
                             int whole, int *done, sb_error *err);
int sb_graft_ct_can(const sb_graft_config *c, const sb_graft_layer *layer);
int sb_graft_modelopt_can(const sb_graft_config *c, const sb_graft_layer *layer);
sb_status sb_graft_modelopt_layer(sb_graft_config *c, sb_graft_doc *doc,
                                  const sb_graft_layer *layer, int whole, int *done, sb_error *err);
int sb_graft_modelopt_unlist(sb_graft_config *c, sb_graft_doc *doc, const char *name,
                             sb_name_kind kind);

/* What is declared where it comes from; the answer is no if nothing is. */
sb_declaration sb_graft_theirs(const sb_graft_config *c, const char *name);

/* "....mlp.experts" of a layer within experts: 1, else 0. */
int sb_graft_experts(const char *name, char *experts, size_t size);

/* "re" of a name with any prefix of the text model, "^" not included. */
void sb_graft_regex(const char *name, char *regex, size_t size);

#endif
