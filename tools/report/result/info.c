#include "tools/report/result/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/fast/dot/dot.h"
#include "ref/model/layers.h"
#include "ref/ops/knob.h"
#include "ref/run/backend.h"
#include "tools/report/part/document.h"

enum { KIND = 128 };

static json_int_t add_to(json_t *object, const char *key, uint64_t more)
{
    json_int_t sum = json_integer_value(json_object_get(object, key)) + (json_int_t)more;
    SB_PUT(object, key, sum);
    return sum;
}

/* --- containers ------------------------------------------------------------------------------- */

static sb_status add_container(void *ctx, const char *name, const sb_found *found, sb_error *err)
{
    json_t *rows = ctx;
    char kind[KIND], key[KIND + 64];
    uint64_t bytes = 0;
    (void)err;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        bytes += found->part[p] ? found->part[p]->bytes : 0;
    sb_layer_kind(name, kind, sizeof kind);
    snprintf(key, sizeof key, "%s %s", kind, sb_container_name(found->container));
    json_t *row = json_object_get(rows, key);
    if (!row) {
        row = json_pack("{s:s,s:s,s:i,s:i}", "layers", kind, "container",
                        sb_container_name(found->container), "count", 0, "bytes", 0);
        SB_PUT(rows, key, row);
    }
    add_to(row, "count", found->experts ? found->experts : 1);
    add_to(row, "bytes", bytes);
    return SB_OK;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The values of an object in the order of their keys, or NULL; takes ownership of the object. */
static json_t *in_order(json_t *object)
{
    size_t n = json_object_size(object), i = 0;
    const char **keys = sb_alloc(n, sizeof *keys);
    json_t *out = keys ? json_array() : NULL, *value;
    const char *key;
    json_object_foreach(object, key, value)
    {
        if (keys)
            keys[i++] = key;
    }
    if (keys)
        qsort(keys, n, sizeof *keys, by_text);
    for (i = 0; keys && i < n; i++)
        json_array_append(out, json_object_get(object, keys[i]));
    free(keys);
    json_decref(object);
    return out;
}

sb_status sb_containers_json(const sb_checkpoint *checkpoint, json_t **out, sb_error *err)
{
    json_t *rows = json_object();
    sb_status status = sb_each_layer(checkpoint, add_container, rows, err);
    *out = in_order(rows);
    return status || *out ? status : sb_fail(err, SB_ERR_MEMORY, "out of memory for containers");
}

static void print_containers(const json_t *containers)
{
    size_t i;
    json_t *row;
    json_array_foreach(containers, i, row)
    {
        printf("  %-32s %-14s %6" PRId64 " matrices, %" PRId64 " bytes\n",
               json_string_value(json_object_get(row, "layers")),
               json_string_value(json_object_get(row, "container")),
               (int64_t)json_integer_value(json_object_get(row, "count")),
               (int64_t)json_integer_value(json_object_get(row, "bytes")));
    }
}

static void list_ops(void)
{
    for (size_t i = 0; i < sb_op_count(); i++)
        printf("%-18s %s\n", sb_op_name(i), sb_op_clause(i));
}

static void list_knobs(void)
{
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        printf("%-14s %-5s %s:", sb_knob_name((sb_knob)k), sb_knob_clause((sb_knob)k),
               sb_knob_help((sb_knob)k));
        for (unsigned v = 0; v < SB_VALUE_COUNT; v++)
            if (sb_knob_of_value((sb_knob_value)v) == (sb_knob)k)
                printf(" %s", sb_knob_value_name((sb_knob_value)v));
        printf("\n");
    }
}

static void list_profiles(void)
{
    sb_knobs exact, knobs;
    sb_knobs_exact(&exact);
    for (size_t i = 0; i < sb_profile_count(); i++) {
        printf("%s: %s\n", sb_profile_name(i), sb_profile_help(i));
        if (sb_knobs_profile(&knobs, sb_profile_name(i), NULL))
            continue;
        for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
            if (knobs.value[k] != exact.value[k])
                printf("  %s=%s\n", sb_knob_name((sb_knob)k), sb_knob_value_name(knobs.value[k]));
    }
}

/* --- the same as JSON ------------------------------------------------------------------------- */

static json_t *ops_json(void)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sb_op_count(); i++) {
        json_t *row = json_object();
        SB_PUT(row, "name", sb_op_name(i));
        SB_PUT(row, "clause", sb_op_clause(i));
        SB_ADD(rows, row);
    }
    return rows;
}

static json_t *knobs_json(void)
{
    json_t *rows = json_array();
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        json_t *values = json_array();
        for (unsigned v = 0; v < SB_VALUE_COUNT; v++)
            if (sb_knob_of_value((sb_knob_value)v) == (sb_knob)k)
                SB_ADD(values, sb_knob_value_name((sb_knob_value)v));
        json_t *row = json_object();
        SB_PUT(row, "name", sb_knob_name((sb_knob)k));
        SB_PUT(row, "clause", sb_knob_clause((sb_knob)k));
        SB_PUT(row, "help", sb_knob_help((sb_knob)k));
        SB_PUT(row, "values", values);
        SB_ADD(rows, row);
    }
    return rows;
}

static json_t *profiles_json(void)
{
    json_t *rows = json_array();
    sb_knobs exact, knobs;
    sb_knobs_exact(&exact);
    for (size_t i = 0; i < sb_profile_count(); i++) {
        json_t *set = json_object();
        int known = !sb_knobs_profile(&knobs, sb_profile_name(i), NULL);
        for (unsigned k = 0; known && k < SB_KNOB_COUNT; k++)
            if (knobs.value[k] != exact.value[k])
                SB_PUT(set, sb_knob_name((sb_knob)k), sb_knob_value_name(knobs.value[k]));
        json_t *row = json_object();
        SB_PUT(row, "name", sb_profile_name(i));
        SB_PUT(row, "help", sb_profile_help(i));
        SB_PUT(row, "set", set);
        SB_ADD(rows, row);
    }
    return rows;
}

static json_t *config_json(const sb_config *c)
{
    json_t *layers = json_array();
    for (uint32_t i = 0; i < c->layers; i++)
        SB_ADD(layers, c->layer_is_full[i] ? "full_attention" : "linear_attention");
    json_t *out = json_object();
    SB_PUT(out, "model_type", sb_family_name(c->family));
    SB_PUT(out, "architecture", c->architecture);
    SB_PUT(out, "hidden_size", c->hidden_size);
    SB_PUT(out, "num_hidden_layers", c->layers);
    SB_PUT(out, "vocab_size", c->vocab_size);
    SB_PUT(out, "num_attention_heads", c->heads);
    SB_PUT(out, "num_key_value_heads", c->kv_heads);
    SB_PUT(out, "head_dim", c->head_dim);
    SB_PUT(out, "rotary_dim", c->rotary_dim);
    SB_PUT(out, "rope_theta", c->rope_theta);
    if (c->yarn.factor > 0)
        SB_PUT(out, "yarn",
               json_pack("{s:f,s:f,s:i,s:i,s:i}", "factor", (double)c->yarn.factor,
                         "attention_factor", (double)c->yarn.attention, "low", (int)c->yarn.low,
                         "high", (int)c->yarn.high, "original_max_position_embeddings",
                         (int)c->yarn.original));
    SB_PUT(out, "linear_key_heads", c->lin_k_heads);
    SB_PUT(out, "linear_value_heads", c->lin_v_heads);
    SB_PUT(out, "linear_key_head_dim", c->lin_k_dim);
    SB_PUT(out, "linear_value_head_dim", c->lin_v_dim);
    SB_PUT(out, "experts", c->experts);
    SB_PUT(out, "experts_per_token", c->experts_per_token);
    SB_PUT(out, "moe_intermediate", c->moe_intermediate);
    SB_PUT(out, "shared_intermediate", c->shared_intermediate);
    SB_PUT(out, "intermediate", c->intermediate);
    SB_PUT(out, "tied_head", json_boolean(c->tie_embeddings));
    SB_PUT(out, "layers", layers);
    return out;
}

/* Tensors and bytes per stored type. */
static json_t *formats_json(const sb_checkpoint *checkpoint)
{
    json_t *out = json_object();
    for (unsigned d = 0; d < SB_DTYPE_COUNT; d++) {
        uint64_t tensors = 0, bytes = 0;
        for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++) {
            const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
            if (t->dtype != (sb_dtype)d)
                continue;
            tensors++;
            bytes += t->bytes;
        }
        if (tensors) {
            json_t *row = json_object();
            SB_PUT(row, "tensors", tensors);
            SB_PUT(row, "bytes", bytes);
            SB_PUT(out, sb_dtype_name((sb_dtype)d), row);
        }
    }
    return out;
}

static json_t *storage_json(const sb_weights *w)
{
    json_t *out = json_object();
    SB_PUT(out, "prefix", w->storage.prefix);
    SB_PUT(out, "experts", w->storage.fused_experts ? "fused" : "per expert");
    SB_PUT(out, "mtp", json_boolean(w->storage.has_mtp));
    SB_PUT(out, "bound_tensors", w->bound);
    SB_PUT(out, "bound_bytes", w->bound_bytes);
    SB_PUT(out, "ignored_vision_tensors", w->ignored);
    SB_PUT(out, "ignored_vision_bytes", w->ignored_bytes);
    return out;
}

/* The declarations of the configuration files; a missing one keeps its key. */
static json_t *declared_json(const sb_declared *d)
{
    json_t *notes = json_array();
    for (size_t i = 0; d && i < sb_declared_notes(d); i++)
        SB_ADD(notes, sb_declared_note(d, i));
    json_t *out = json_object();
    SB_PUT(out, "dialect", SB_KNOWN(d, sb_dialect_name(sb_declared_dialect(d))));
    SB_PUT(out, "kv_cache", sb_declared_kv_name(d ? sb_declared_kv_cache(d) : SB_KV_NONE));
    SB_PUT(out, "notes", notes);
    return out;
}

static size_t kept_disagreements(const sb_weights *w)
{
    return w->disagreements < SB_DISAGREEMENTS ? w->disagreements : SB_DISAGREEMENTS;
}

/* "read as its tensors say, and counted as a disagreement" */
static json_t *disagreements_json(const sb_weights *w)
{
    json_t *first = json_array();
    for (size_t i = 0; i < kept_disagreements(w); i++)
        SB_ADD(first, w->disagreement[i]);
    json_t *out = json_object();
    SB_PUT(out, "count", w->disagreements);
    SB_PUT(out, "first", first);
    return out;
}

static void print_declared(const sb_model *m)
{
    const sb_declared *d = m->declared;
    const sb_weights *w = m->weights;
    if (d)
        printf("declared: %s, KV cache %s\n", sb_dialect_name(sb_declared_dialect(d)),
               sb_declared_kv_name(sb_declared_kv_cache(d)));
    else
        printf("declared: no quantization\n");
    for (size_t i = 0; d && i < sb_declared_notes(d); i++)
        printf("  note: %s\n", SB_SHOW(sb_declared_note(d, i)));
    if (w->disagreements)
        printf("layers that are not stored as declared, and are read as stored: %zu\n",
               w->disagreements);
    else
        printf("every layer is stored as declared\n");
    for (size_t i = 0; i < kept_disagreements(w); i++)
        printf("  %s\n", SB_SHOW(w->disagreement[i]));
    if (w->disagreements > SB_DISAGREEMENTS)
        printf("  and %zu more\n", w->disagreements - SB_DISAGREEMENTS);
}

static void print_mlp(const sb_config *c, const sb_weights *w)
{
    char shared[64] = "no shared expert";
    uint32_t dense = 0;
    for (uint32_t i = 0; i < c->layers; i++)
        dense += sb_config_layer_experts(c, i) == 0;
    if (c->shared_intermediate)
        snprintf(shared, sizeof shared, "shared expert of width %u",
                 (unsigned)c->shared_intermediate);
    if (c->experts)
        printf("%u experts of width %u, %u per token, %s, stored %s\n", (unsigned)c->experts,
               (unsigned)c->moe_intermediate, (unsigned)c->experts_per_token, shared,
               w->storage.fused_experts ? "fused" : "per expert");
    if (c->experts && dense)
        printf("dense MLP of width %u in %u layers\n", (unsigned)c->intermediate, (unsigned)dense);
    else if (dense)
        printf("dense MLP of width %u\n", (unsigned)c->intermediate);
}

static void print_model(const sb_model *m)
{
    const sb_config *c = &m->config;
    const sb_weights *w = m->weights;
    uint32_t full = 0;
    for (uint32_t i = 0; i < c->layers; i++)
        full += c->layer_is_full[i];
    printf("%s (%s), %u layers: %u gated delta rule, %u full attention\n",
           sb_family_name(c->family), c->architecture, (unsigned)c->layers,
           (unsigned)(c->layers - full), (unsigned)full);
    printf("hidden %u, vocabulary %u%s, attention %u/%u heads of %u (rotary %u, theta %.17g)\n",
           (unsigned)c->hidden_size, (unsigned)c->vocab_size,
           c->tie_embeddings ? " (tied head)" : "", (unsigned)c->heads, (unsigned)c->kv_heads,
           (unsigned)c->head_dim, (unsigned)c->rotary_dim, c->rope_theta);
    if (c->yarn.factor > 0)
        printf("yarn: factor %.9g for %u positions, cos and sin times %.9g\n",
               (double)c->yarn.factor, (unsigned)c->yarn.original, (double)c->yarn.attention);
    if (full < c->layers)
        printf("delta rule %u key heads of %u, %u value heads of %u, convolution %u\n",
               (unsigned)c->lin_k_heads, (unsigned)c->lin_k_dim, (unsigned)c->lin_v_heads,
               (unsigned)c->lin_v_dim, (unsigned)c->conv_kernel);
    print_mlp(c, w);
    printf("MTP head: %s\n", w->storage.has_mtp ? "present"
                             : c->mtp_declared && c->mtp_layers
                                 ? "ABSENT, although config.json declares one"
                                 : "absent");
    printf("tensors: %zu bound (%" PRIu64
           " bytes), %zu of the vision tower ignored, in %zu shards\n",
           w->bound, w->bound_bytes, w->ignored, sb_checkpoint_shards(m->checkpoint));
    json_t *formats = formats_json(m->checkpoint);
    const char *name;
    json_t *row;
    json_object_foreach(formats, name, row)
    {
        printf("  %-6s %" PRId64 " tensors, %" PRId64 " bytes\n", name,
               (int64_t)json_integer_value(json_object_get(row, "tensors")),
               (int64_t)json_integer_value(json_object_get(row, "bytes")));
    }
    json_decref(formats);
}

void sb_info_print(const sb_model *model, const json_t *containers)
{
    print_model(model);
    printf("layers by the way they are stored:\n");
    print_containers(containers);
    print_declared(model);
}

json_t *sb_info_json(const sb_model *model, json_t *containers)
{
    json_t *out = sb_document("info");
    SB_PUT(out, "config", config_json(&model->config));
    SB_PUT(out, "storage", storage_json(model->weights));
    SB_PUT(out, "formats", formats_json(model->checkpoint));
    SB_PUT(out, "containers", json_incref(containers));
    SB_PUT(out, "declared", declared_json(model->declared));
    SB_PUT(out, "disagreements", disagreements_json(model->weights));
    return out;
}

/* --- lists ------------------------------------------------------------------------------------ */

void sb_info_lists_print(const sb_info_lists *l)
{
    if (l->ops)
        list_ops();
    if (l->knobs)
        list_knobs();
    if (l->profiles)
        list_profiles();
    if (l->machine)
        printf("dot product kernels: %s\n", sb_dot_selected());
}

json_t *sb_info_lists_json(const sb_info_lists *l)
{
    json_t *out = sb_document("info");
    if (l->ops)
        SB_PUT(out, "ops", ops_json());
    if (l->knobs)
        SB_PUT(out, "knobs", knobs_json());
    if (l->profiles)
        SB_PUT(out, "profiles", profiles_json());
    if (l->machine)
        SB_PUT(out, "dot", sb_dot_selected());
    return out;
}
