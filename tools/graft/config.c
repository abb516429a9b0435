#include "tools/graft/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/show.h"
#include "ref/model/config.h"
#include "ref/model/held.h"
#include "ref/model/layers.h"
#include "tools/convert/plan.h"

enum { MAX_CONFIG = 64 << 20, ROUNDS = 6, NAME = SB_MAX_TENSOR_NAME };

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

/* --- the files ---------------------------------------------------------------------------------
 */

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

/* What one document alone declares. */
static sb_status declared_of(const sb_graft_doc *doc, int which, sb_declared **out, sb_error *err)
{
    char *text = json_dumps(doc->root, 0);
    if (!text)
        return no_memory(err);
    const sb_declared_file file = {doc->path, text, strlen(text)};
    sb_status status = sb_declared_parse(which == SB_DOC_CONFIG ? &file : NULL,
                                         which == SB_DOC_HF_QUANT ? &file : NULL,
                                         which == SB_DOC_QUANTIZATION ? &file : NULL, out, err);
    free(text);
    return status;
}

/* --- the layers --------------------------------------------------------------------------------
 */

typedef struct gathering {
    sb_graft_config *c;
    size_t room;
} gathering;

static sb_status add_layer(void *ctx, const char *name, uint32_t experts, sb_error *err)
{
    gathering *g = ctx;
    sb_graft_config *c = g->c;
    if (c->layer_count == g->room) {
        size_t room = g->room ? 2 * g->room : 256;
        sb_graft_layer *grown = sb_realloc(c->layers, room, sizeof *grown);
        if (!grown)
            return no_memory(err);
        c->layers = grown;
        g->room = room;
    }
    sb_graft_layer *l = &c->layers[c->layer_count];
    *l = (sb_graft_layer){.name = sb_strdup(name)};
    if (!l->name)
        return no_memory(err);
    c->layer_count++;
    sb_error why;
    sb_status status = sb_detect_unjudged(c->result, name, experts, 0, 0, &l->found, &why);
    l->taken = sb_found_origin(c->result, &l->found) != NULL;
    if (status && l->taken)
        return sb_fail(err, status, "%s", why.text);
    if (status || l->found.container == SB_CONTAINER_COUNT) { /* as damaged as it was before */
        free(l->name);
        c->layer_count--;
    }
    return SB_OK;
}

/* --- what is declared, against what is there -------------------------------------------------- */

/* Of what comes, an answer is wanted; but not where a dialect has none to give. */
static int is_settled(const sb_graft_layer *l, sb_dialect dialect)
{
    int open = l->now.answer == SB_DECLARED_UNKNOWN;
    if (l->hybrid)
        return l->now.answer == SB_DECLARED_NO;
    if (l->taken && l->found.zeros_open && l->now.packing == SB_PACKED_GPTQ_V2)
        return 0;
    if (open && l->taken && dialect != SB_DIALECT_awq)
        return 0;
    return sb_declaration_agrees(&l->now, &l->found);
}

static sb_status look(sb_graft_config *c, const sb_declared *declared, size_t *open, sb_error *err)
{
    sb_status status = SB_OK;
    *open = 0;
    for (size_t i = 0; i < c->layer_count && !status; i++) {
        sb_graft_layer *l = &c->layers[i];
        status = sb_declared_for(declared, l->name, &l->now, err);
        *open +=
            l->due && !is_settled(l, declared ? sb_declared_dialect(declared) : SB_DIALECT_COUNT);
    }
    return status;
}

/* Whether all layers whose names begin so are plain (or said to be), or alike and quantized. */
static int all_alike(const sb_graft_config *c, const char *begin)
{
    size_t n = strlen(begin);
    const sb_graft_layer *first = NULL;
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i];
        if (strncmp(l->name, begin, n) != 0)
            continue;
        first = first ? first : l;
        if (l->found.container != first->found.container || l->hybrid != first->hybrid)
            return 0;
    }
    return 1;
}

static int is_plain(const sb_graft_layer *l)
{
    return l->found.container == SB_CONTAINER_plain || l->hybrid;
}

/* W-5: "one rule for the whole head, one for all experts of a layer, else the full name" */
static sb_status exclude(sb_graft_config *c, sb_graft_doc *doc, const sb_graft_layer *l, int round,
                         char said[NAME], sb_error *err)
{
    char group[NAME + 1];
    sb_name_kind kind = SB_NAME_exact;
    snprintf(group, sizeof group, "%s", l->name);
    int experts = sb_graft_experts(l->name, group, NAME);
    if (experts)
        strcat(group, ".");
    if (round == 0 && doc->dialect != SB_DIALECT_fp8 && strncmp(l->name, "mtp.", 4) == 0 &&
        all_alike(c, "mtp.")) {
        kind = SB_NAME_head;
        strcpy(group, "mtp.");
    } else if (round <= 1 && experts && all_alike(c, group)) {
        kind = SB_NAME_experts;
    } else {
        snprintf(group, sizeof group, "%s", l->name);
    }
    if (strcmp(group, said) == 0)
        return SB_OK;
    snprintf(said, NAME, "%s", group);
    if (kind == SB_NAME_experts)
        group[strlen(group) - 1] = '\0';
    return sb_graft_exclude(c, doc, group, kind, err);
}

static sb_status include(sb_graft_config *c, sb_graft_doc *doc, sb_graft_layer *l, int round,
                         sb_error *err)
{
    char experts[NAME + 1];
    int done, whole = 0;
    if (!sb_graft_can(c, doc, l)) {
        l->hybrid = 1;
        return SB_OK;
    }
    if (l->now.answer == SB_DECLARED_NO && sb_graft_drop_rule(c, doc, l->now.rule))
        return SB_OK;
    if (round <= 1 && sb_graft_experts(l->name, experts, NAME)) {
        strcat(experts, ".");
        whole = all_alike(c, experts);
    }
    sb_status status = sb_graft_include(c, doc, l, whole, &done, err);
    l->hybrid |= !status && !done;
    return status;
}

/* One round: a rule for each layer of which something else is said. Rules that are taken away may
 * have spoken of others, which is why there are several. */
static sb_status change(sb_graft_config *c, sb_graft_doc *doc, int round, sb_error *err)
{
    char said[NAME] = "";
    sb_status status = SB_OK;
    for (size_t i = 0; i < c->layer_count && !status; i++) {
        sb_graft_layer *l = &c->layers[i];
        if (!l->due || is_settled(l, doc->dialect))
            continue;
        if (!is_plain(l))
            status = include(c, doc, l, round, err);
        if (!status && is_plain(l) && l->now.answer != SB_DECLARED_NO)
            status = exclude(c, doc, l, round, said, err);
    }
    sb_graft_compact(doc);
    return status;
}

static sb_status not_said(const sb_graft_config *c, const sb_graft_doc *doc, sb_error *err)
{
    sb_declared_text room;
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i];
        if (l->due && !is_settled(l, doc->dialect))
            return sb_fail(
                err, SB_ERR_UNSUPPORTED,
                "%s: layer %s would be %s, but declared: %s (%s); this graft is not made",
                SB_SHOW(doc->path), SB_SHOW(l->name), sb_container_name(l->found.container),
                sb_declaration_text(&l->now, &room), l->now.rule);
    }
    return SB_OK;
}

static sb_status edit(sb_graft_config *c, int which, sb_error *err)
{
    sb_graft_doc *doc = &c->doc[which];
    sb_declared *declared = NULL;
    size_t open = 1;
    sb_status status = SB_OK;
    for (int round = 0; round < ROUNDS && open && !status; round++) {
        status = declared_of(doc, which, &declared, err);
        if (status)
            break;
        if (!declared)
            return SB_OK;
        doc->dialect = sb_declared_dialect(declared);
        for (size_t i = 0; i < c->layer_count && round == 0; i++)
            c->layers[i].due = 1;
        status = look(c, declared, &open, err);
        for (size_t i = 0; i < c->layer_count && round == 0 && !c->adopted; i++)
            c->layers[i].due = c->layers[i].taken || is_settled(&c->layers[i], doc->dialect);
        if (!status && round == 0)
            open = 1;
        if (!status && open)
            status = round + 1 < ROUNDS ? change(c, doc, round, err) : not_said(c, doc, err);
        sb_declared_free(declared);
        declared = NULL;
    }
    return status;
}

/* --- what cannot be said -----------------------------------------------------------------------
 */

/* W-6: "a free key that no engine reads, as in the published hybrids" */
static sb_status note_hybrid(sb_graft_config *c, sb_error *err)
{
    static const char key[] = "_hybrid_quant_info";
    size_t count = 0;
    const sb_graft_layer *first = NULL;
    for (size_t i = 0; i < c->layer_count; i++)
        if (c->layers[i].hybrid) {
            first = first ? first : &c->layers[i];
            count++;
        }
    if (!count)
        return SB_OK;
    char text[NAME + 200];
    const char *stored = sb_container_name(first->found.container);
    sb_graft_doc *doc = &c->doc[SB_DOC_CONFIG];
    const char *before = json_string_value(json_object_get(doc->object, key));
    snprintf(text, sizeof text, "%.100s%s%zu layers are stored as %s, the first %s",
             before ? before : "", before ? "; " : "", count, stored, first->name);
    if (doc->object && json_object_set_new(doc->object, key, json_string(text)) != 0)
        return no_memory(err);
    doc->changed |= doc->object != NULL;
    return sb_graft_line(
               c->notes,
               "%zu layers, the first %s, are stored as %s, for which quant_method \"%s\" "
               "has no words: they are declared as not quantized, and %s says so; only an "
               "engine that goes by their tensors reads them",
               count, SB_SHOW(first->name), stored,
               doc->object ? sb_dialect_name(doc->dialect) : "none", key)
               ? SB_OK
               : no_memory(err);
}

static sb_status note_engines(sb_graft_config *c, const sb_declared *declared, sb_error *err)
{
    size_t count = 0;
    const sb_graft_layer *first = NULL;
    sb_status status = SB_OK;
    for (size_t i = 0; i < c->layer_count && !status; i++) {
        sb_graft_layer *l = &c->layers[i];
        status = sb_declared_for(declared, l->name, &l->now, err);
        if (!status && l->taken && (l->now.vllm_rule || l->now.answer == SB_DECLARED_UNKNOWN)) {
            first = first ? first : l;
            count++;
        }
    }
    if (status || !count)
        return status;
    return sb_graft_line(c->notes,
                         "of %zu layers that came, the first %s, engines read the configuration "
                         "differently: %s",
                         count, SB_SHOW(first->name),
                         first->now.vllm_rule ? first->now.vllm_rule : first->now.rule)
               ? SB_OK
               : no_memory(err);
}

/* --- nothing was declared ----------------------------------------------------------------------
 */

/* Names of the other side's text model, in the names of this one. */
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
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: declares no quantization, and neither does config.json of what is to "
                       "be taken: there is nothing from which engines could know its layers",
                       SB_SHOW(c->folder));
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

/* --- all of it ---------------------------------------------------------------------------------
 */

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
    if (!fc || !sb_checkpoint_origin(c->result, fc) || json_integer_value(ours) > 0 ||
        json_integer_value(theirs) <= 0)
        return SB_OK;
    char value[32];
    snprintf(value, sizeof value, "%" JSON_INTEGER_FORMAT, json_integer_value(theirs));
    char *fresh = NULL;
    sb_status status = sb_splice_value(doc->path, *text, key, value, &fresh, err);
    if (status)
        return status;
    free(*text);
    *text = fresh;
    return sb_graft_line(c->changes, "config.json: %s: %s", key, value) ? SB_OK : no_memory(err);
}

/* The text of config.json keeps every byte that is not changed; the others are one object each. */
static sb_status make_texts(sb_graft_config *c, sb_error *err)
{
    sb_graft_doc *doc = &c->doc[SB_DOC_CONFIG];
    sb_status status = SB_OK;
    for (int i = SB_DOC_HF_QUANT; i < SB_DOC_COUNT; i++)
        if (c->doc[i].changed) {
            c->doc[i].new_text = json_dumps(c->doc[i].root, JSON_INDENT(4));
            if (!c->doc[i].new_text)
                return no_memory(err);
        }
    if (!doc->text)
        return SB_OK;
    char *value = doc->changed ? json_dumps(doc->object, JSON_INDENT(2)) : NULL;
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
        status = look(c, declared, &open, err);
    if (!status && open && c->doc[SB_DOC_CONFIG].text)
        status = not_said(c, &c->doc[SB_DOC_CONFIG], err);
    if (!status)
        status = note_engines(c, declared, err);
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
    if (!status)
        status = load_theirs(c, other, err);
    if (!status)
        status = sb_each_layer_name(c->result, add_layer, &g, err);
    if (!status)
        status = adopt(c, err);
    for (int i = 0; i < SB_DOC_COUNT && !status; i++)
        if (c->doc[i].object)
            status = edit(c, i, err);
    if (!status)
        status = note_hybrid(c, err);
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
