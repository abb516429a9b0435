/* notes.c - tells the user what a configuration cannot declare, or what engines read differently.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/graft/config.h"

enum { NAME = SB_MAX_TENSOR_NAME };

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a configuration");
}

/* --- layers that the dialect cannot declare --------------------------------------------------- */

/* W-15: true for layers that published hybrids have in this form; the check knows these hybrids. */
static int is_published(const sb_graft_config *c, const sb_graft_layer *l)
{
    sb_dialect dialect = c->doc[SB_DOC_CONFIG].dialect;
    return sb_container_has_grid(l->found.container) &&
           (dialect == SB_DIALECT_auto_round ||
            (dialect == SB_DIALECT_gptq && strncmp(l->name, "mtp.", 4) != 0));
}

/* W-15: "Everything else that a dialect cannot declare is refused by the name of the dialect" */
sb_status sb_graft_refuse_unsaid(const sb_graft_config *c, sb_error *err)
{
    size_t count = 0;
    const sb_graft_layer *first = NULL;
    const sb_graft_doc *doc = &c->doc[SB_DOC_CONFIG];
    for (size_t i = 0; i < c->layer_count; i++)
        if (c->layers[i].hybrid && !is_published(c, &c->layers[i])) {
            first = first ? first : &c->layers[i];
            count++;
        }
    return !count
               ? SB_OK
               : sb_fail(err, SB_ERR_UNSUPPORTED,
                         "%s: quant_method \"%s\" cannot declare %zu layers stored as %s, the "
                         "first %s: engines would not read them%s",
                         SB_SHOW(doc->path), doc->object ? sb_dialect_name(doc->dialect) : "none",
                         count, sb_container_name(first->found.container), SB_SHOW(first->name),
                         c->reindex ? "" : "; --as bf16 decodes them");
}

/* W-16: "a note gives the number of layers whose inputs are no longer quantized" */
sb_status sb_graft_note_inputs(sb_graft_config *c, sb_error *err)
{
    size_t count = 0;
    const sb_graft_layer *first = NULL;
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i];
        sb_declaration theirs = sb_graft_theirs(c, l->name);
        if (!l->taken || l->found.container != SB_CONTAINER_fp8_block_ct ||
            l->now.answer != SB_DECLARED_YES || l->now.activation != SB_ACTIVATION_NONE ||
            theirs.answer != SB_DECLARED_YES || theirs.activation == SB_ACTIVATION_NONE)
            continue;
        first = first ? first : l;
        count++;
    }
    return !count ||
                   sb_graft_line(c->notes,
                                 "%zu layers, the first %s, were declared with quantized inputs. "
                                 "They are now declared as FP8_PB_WO, which quantizes weights only",
                                 count, SB_SHOW(first->name))
               ? SB_OK
               : no_memory(err);
}

/* W-6: "a free key that no engine reads" */
sb_status sb_graft_note_hybrid(sb_graft_config *c, sb_error *err)
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
    return sb_graft_line(c->notes,
                         "%zu layers, the first %s, are stored as %s, which quant_method \"%s\" "
                         "cannot declare. They are declared as not quantized in %s; only an engine "
                         "that follows their tensors reads them",
                         count, SB_SHOW(first->name), stored,
                         doc->object ? sb_dialect_name(doc->dialect) : "none", key)
               ? SB_OK
               : no_memory(err);
}

sb_status sb_graft_note_engines(sb_graft_config *c, const sb_declared *declared, sb_error *err)
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
                         "engines read the configuration of %zu layers that were taken, the first "
                         "%s, in different ways: %s",
                         count, SB_SHOW(first->name),
                         first->now.vllm_rule ? first->now.vllm_rule : first->now.rule)
               ? SB_OK
               : no_memory(err);
}

/* Layers that engines fuse, by their last names. */
static const char *const fused[][3] = {
    {"q_proj", "k_proj", "v_proj"},
    {"gate_proj", "up_proj", NULL},
    {"in_proj_qkv", "in_proj_z", NULL},
    {"in_proj_b", "in_proj_a", NULL},
};

static int layer_order(const void *key, const void *element)
{
    return strcmp(key, ((const sb_graft_layer *)element)->name);
}

/* Another layer of its group that is stored differently, or NULL. */
static const sb_graft_layer *unlike(const sb_graft_config *c, const sb_graft_layer *l)
{
    const char *last = strrchr(l->name, '.');
    for (size_t i = 0; last && i < sizeof fused / sizeof *fused; i++) {
        int member = 0;
        for (size_t k = 0; k < 3 && fused[i][k]; k++)
            member |= strcmp(last + 1, fused[i][k]) == 0;
        for (size_t k = 0; member && k < 3 && fused[i][k]; k++) {
            char name[NAME + 16];
            snprintf(name, sizeof name, "%.*s%s", (int)(last + 1 - l->name), l->name, fused[i][k]);
            const sb_graft_layer *other =
                bsearch(name, c->layers, c->layer_count, sizeof *c->layers, layer_order);
            if (other && other->found.container != l->found.container)
                return other;
        }
    }
    return NULL;
}

/* W-6: "engines that fuse such layers refuse the folder" */
sb_status sb_graft_note_fused(sb_graft_config *c, sb_error *err)
{
    for (size_t i = 0; i < c->layer_count; i++) {
        const sb_graft_layer *l = &c->layers[i], *other = l->taken ? unlike(c, l) : NULL;
        if (other)
            return sb_graft_line(c->notes,
                                 "%s is stored as %s, but %s is stored as %s: engines that fuse "
                                 "such layers refuse the folder",
                                 SB_SHOW(l->name), sb_container_name(l->found.container),
                                 SB_SHOW(strrchr(other->name, '.') + 1),
                                 sb_container_name(other->found.container))
                       ? SB_OK
                       : no_memory(err);
    }
    return SB_OK;
}
