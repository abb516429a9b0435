#include "tools/check/graft/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/model/config.h"
#include "ref/model/layers.h"
#include "tools/check/convert/plan.h"
#include "tools/check/graft/reindex.h"

enum { MAX_CONFIG = 64 << 20, NAME = SB_MAX_TENSOR_NAME };

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a configuration");
}

int sb_graft_line(sb_graft_lines *lines, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char **grown = sb_realloc(lines->line, lines->count + 1, sizeof *grown);
    if (!grown)
        return 0;
    lines->line = grown;
    grown[lines->count] = sb_strdup(text);
    return grown[lines->count] && ++lines->count;
}

void sb_graft_lines_free(sb_graft_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->line[i]);
    free(lines->line);
    *lines = (sb_graft_lines){0};
}

/* --- the files -------------------------------------------------------------------------------- */

static const char *const file_names[SB_DOC_COUNT] = {"config.json", "hf_quant_config.json",
                                                     "quantization_config.json"};

static sb_status read_doc(sb_graft_doc *doc, const char *folder, int which, sb_error *err)
{
    size_t n = 0;
    unsigned char *text = NULL;
    doc->path = sb_path_join(folder, file_names[which]);
    if (!doc->path)
        return no_memory(err);
    if (access(doc->path, F_OK) != 0)
        return SB_OK;
    sb_status status = sb_read_file(doc->path, MAX_CONFIG, &text, &n, err);
    doc->text = (char *)text;
    if (!status)
        status = sb_json_parse(doc->text, n, doc->path, &doc->root, err);
    if (status)
        return status;
    json_t *inner = json_object_get(doc->root, "text_config");
    json_t *found = doc->root;
    if (which == SB_DOC_CONFIG) {
        found = json_object_get(doc->root, "quantization_config");
        if (!json_is_object(found))
            found = json_object_get(inner, "quantization_config");
        if (!json_is_object(found))
            found = json_object_get(doc->root, "compression_config");
    } else if (which == SB_DOC_HF_QUANT) {
        found = json_object_get(doc->root, "quantization");
    }
    doc->object = json_is_object(found) ? found : NULL;
    return SB_OK;
}

/* --- the layers ------------------------------------------------------------------------------- */

typedef struct gathering {
    sb_graft_config *c;
    size_t room;
} gathering;

static sb_status add_layer(void *ctx, const char *name, uint32_t experts, sb_error *err)
{
    gathering *g = ctx;
    sb_graft_config *c = g->c;
    sb_graft_layer *grown = sb_grow(c->layers, c->layer_count, &g->room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    c->layers = grown;
    sb_graft_layer *l = &c->layers[c->layer_count];
    *l = (sb_graft_layer){.name = sb_strdup(name)};
    if (!l->name)
        return no_memory(err);
    c->layer_count++;
    sb_error why;
    /* headers alone are quick; only taken layers need their payload (W-8) */
    sb_status status = sb_detect_headers(c->result, name, experts, &l->found, &why);
    l->taken = c->reindex ? sb_reindex_is_new(c->result, name, &l->found)
                          : sb_found_origin(c->result, &l->found) != NULL;
    if (c->reindex)
        l->found.zeros_open = 0; /* W-8: this folder declares the zero points */
    else if (l->taken)
        status = sb_detect_unjudged(c->result, name, experts, 0, 0, &l->found, &why);
    if (status && l->taken && !c->reindex)
        return sb_fail(err, status, "%s", why.text);
    if (status || l->found.container == SB_CONTAINER_COUNT) { /* the damage was there before */
        free(l->name);
        c->layer_count--;
    }
    return SB_OK;
}

/* --- nothing was declared --------------------------------------------------------------------- */

/* Translates names of the other side's text model to names of this side's. */
static json_t *renamed(const sb_graft_config *c, json_t *value)
{
    const char *text = json_string_value(value), *name;
    size_t n = strlen(c->their_prefix);
    char full[NAME + 64];
    json_t *out, *member;
    size_t i;
    if (text && n && strncmp(text, c->their_prefix, n) == 0 &&
        strncmp(text, "model.visual", 12) != 0) {
        snprintf(full, sizeof full, "%s%s", c->prefix, text + n);
        return json_string(full);
    }
    if (json_is_array(value)) {
        out = json_array();
        json_array_foreach(value, i, member) json_array_append_new(out, renamed(c, member));
        return out;
    }
    if (!json_is_object(value))
        return json_deep_copy(value);
    out = json_object();
    json_object_foreach(value, name, member)
    {
        json_t *key = json_string(name), *fresh = key ? renamed(c, key) : NULL;
        if (fresh)
            json_object_set_new(out, json_string_value(fresh), renamed(c, member));
        json_decref(key);
        json_decref(fresh);
    }
    return out;
}

static sb_status adopt(sb_graft_config *c, sb_error *err)
{
    sb_graft_doc *doc = &c->doc[SB_DOC_CONFIG];
    int quantized = 0, declared = 0;
    for (int i = 0; i < SB_DOC_COUNT; i++)
        declared |= c->doc[i].object != NULL;
    for (size_t i = 0; i < c->layer_count; i++)
        quantized |= c->layers[i].taken && c->layers[i].found.container != SB_CONTAINER_plain;
    if (declared || !quantized || !doc->root)
        return SB_OK;
    if (!c->theirs.object)
        return sb_fail(
            err, SB_ERR_UNSUPPORTED,
            "%s: declares no quantization%s: engines could not know how the layers are stored",
            SB_SHOW(c->folder),
            c->reindex ? ", but layers that the index lacks are quantized"
                       : ", and config.json of the other checkpoint does not either");
    json_t *object = renamed(c, c->theirs.object);
    if (!object || json_object_set_new(doc->root, "quantization_config", object) != 0)
        return no_memory(err);
    doc->object = object;
    doc->changed = c->adopted = 1;
    return sb_graft_line(c->changes, "config.json: + quantization_config of %s",
                         SB_SHOW(c->theirs.path))
               ? SB_OK
               : no_memory(err);
}

/* --- the whole configuration ------------------------------------------------------------------ */

static sb_status load_theirs(sb_graft_config *c, const char *other, sb_error *err)
{
    sb_status status = read_doc(&c->theirs, other, SB_DOC_CONFIG, err);
    if (status || !c->theirs.text)
        return status;
    status = sb_declared_load(other, &c->their_declared, err);
    if (!status && c->their_declared)
        c->theirs.dialect = sb_declared_dialect(c->their_declared);
    return status;
}

/* W-13: "no release has a head of more layers". Qwen3-Next has no such key in its configuration.
 */
static json_int_t layers_of_head(const sb_graft_config *c, json_t *theirs)
{
    const char *type = json_string_value(json_object_get(c->doc[SB_DOC_CONFIG].root, "model_type"));
    if (!c->reindex)
        return json_integer_value(theirs);
    return type && strcmp(type, "qwen3_next") == 0 ? 0 : 1;
}

/* W-9: "A head that comes to a model whose configuration has none brings its number of layers" */
static sb_status set_head(sb_graft_config *c, char **text, sb_error *err)
{
    static const char key[] = "mtp_num_hidden_layers";
    sb_graft_doc *doc = &c->doc[SB_DOC_CONFIG];
    const sb_tensor *fc = sb_checkpoint_find(c->result, "mtp.fc.weight");
    json_t *ours = json_object_get(doc->root, "text_config");
    json_t *theirs = json_object_get(c->theirs.root, "text_config");
    ours = json_object_get(json_is_object(ours) ? ours : doc->root, key);
    theirs = json_object_get(json_is_object(theirs) ? theirs : c->theirs.root, key);
    json_int_t layers = layers_of_head(c, theirs);
    int comes = fc && (c->reindex || sb_checkpoint_origin(c->result, fc));
    if (!comes || json_integer_value(ours) > 0 || layers <= 0)
        return SB_OK;
    char value[32];
    snprintf(value, sizeof value, "%" JSON_INTEGER_FORMAT, layers);
    char *fresh = NULL;
    sb_status status = sb_splice_value(doc->path, *text, key, value, &fresh, err);
    if (status)
        return status;
    free(*text);
    *text = fresh;
    return sb_graft_line(c->changes, "config.json: %s: %s", key, value) ? SB_OK : no_memory(err);
}

/* In config.json all unchanged bytes stay. The other files are written as one object each. */
static sb_status make_texts(sb_graft_config *c, sb_error *err)
{
    sb_graft_doc *doc = &c->doc[SB_DOC_CONFIG];
    sb_status status = SB_OK;
    for (int i = SB_DOC_HF_QUANT; i < SB_DOC_COUNT; i++)
        if (c->doc[i].changed) {
            c->doc[i].new_text = sb_json_dumps(c->doc[i].root, JSON_INDENT(4));
            if (!c->doc[i].new_text)
                return no_memory(err);
        }
    if (!doc->text)
        return SB_OK;
    char *value = doc->changed ? sb_json_dumps(doc->object, JSON_INDENT(2)) : NULL;
    char *text = doc->changed ? NULL : sb_strdup(doc->text);
    if (doc->changed)
        status = value ? sb_splice_quantization(doc->path, doc->text, value, &text, err)
                       : no_memory(err);
    free(value);
    if (!status)
        status = text ? set_head(c, &text, err) : no_memory(err);
    if (!status && strcmp(text, doc->text) != 0)
        doc->new_text = text;
    else
        free(text);
    return status;
}

/* W-10: "All files together are read as an engine would read them" */
static sb_status prove(sb_graft_config *c, sb_error *err)
{
    sb_declared_file file[SB_DOC_COUNT];
    sb_declared *declared = NULL;
    for (int i = 0; i < SB_DOC_COUNT; i++) {
        const char *text = c->doc[i].new_text ? c->doc[i].new_text : c->doc[i].text;
        file[i] = (sb_declared_file){c->doc[i].path, text, text ? strlen(text) : 0};
    }
    sb_status status = sb_declared_parse(&file[0], &file[1], &file[2], &declared, err);
    size_t open = 0;
    for (size_t i = 0; i < c->layer_count; i++)
        c->layers[i].due = c->layers[i].taken;
    if (!status)
        status = sb_graft_look(c, declared, &open, err);
    if (!status && open && c->doc[SB_DOC_CONFIG].text)
        status = sb_graft_not_said(c, &c->doc[SB_DOC_CONFIG], err);
    if (!status)
        status = sb_graft_note_engines(c, declared, err);
    if (!status)
        status = sb_graft_note_inputs(c, err);
    if (!status)
        status = sb_graft_note_fused(c, err);
    sb_declared_free(declared);
    return status;
}

sb_status sb_graft_config_make(sb_graft_config *c, const char *folder, const char *other,
                               sb_error *err)
{
    gathering g = {c, 0};
    sb_status status = SB_OK;
    c->folder = folder;
    for (int i = 0; i < SB_DOC_COUNT && !status; i++)
        status = read_doc(&c->doc[i], folder, i, err);
    if (!status && other)
        status = load_theirs(c, other, err);
    if (!status)
        status = sb_each_layer_name(c->result, add_layer, &g, err);
    if (!status)
        status = adopt(c, err);
    for (int i = 0; i < SB_DOC_COUNT && !status; i++)
        if (c->doc[i].object)
            status = sb_graft_edit(c, i, err);
    if (!status)
        status = sb_graft_refuse_unsaid(c, err);
    if (!status)
        status = sb_graft_note_hybrid(c, err);
    if (!status)
        status = make_texts(c, err);
    return status ? status : prove(c, err);
}

static void free_doc(sb_graft_doc *doc)
{
    json_decref(doc->root);
    free(doc->path);
    free(doc->text);
    free(doc->new_text);
}

void sb_graft_config_free(sb_graft_config *c)
{
    for (int i = 0; i < SB_DOC_COUNT; i++)
        free_doc(&c->doc[i]);
    free_doc(&c->theirs);
    sb_declared_free(c->their_declared);
    for (size_t i = 0; i < c->layer_count; i++)
        free(c->layers[i].name);
    free(c->layers);
}
