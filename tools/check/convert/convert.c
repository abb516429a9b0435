#include "tools/check/convert/convert.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/show.h"
#include "ref/container/writer.h"
#include "ref/model/origin.h"
#include "tools/check/convert/plan.h"

enum { MAX_CONFIG = 64 << 20 };

typedef struct job {
    const sb_convert_options *options;
    sb_convert_plan plan;
    sb_item **by_place; /* items in the order of the source's files */
    sb_item **by_name;  /* sorted by their new names */
    sb_target target;
    char *config, *hf_quant; /* texts of the result */
    uint64_t done;
} job;

static const char *name_of(const sb_item *item)
{
    return item->name ? item->name : item->from->name;
}

static int compare_places(const void *left, const void *right)
{
    const sb_item *a = *(sb_item *const *)left;
    const sb_item *b = *(sb_item *const *)right;
    if (a->from->shard != b->from->shard)
        return a->from->shard < b->from->shard ? -1 : 1;
    return (a->from->data > b->from->data) - (a->from->data < b->from->data);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(name_of(*(sb_item *const *)left), name_of(*(sb_item *const *)right));
}

static int against_name(const void *key, const void *element)
{
    return strcmp(key, name_of(*(sb_item *const *)element));
}

static sb_status order_items(job *j, sb_error *err)
{
    size_t n = sb_checkpoint_count(j->plan.source);
    j->by_place = sb_alloc(n, sizeof *j->by_place);
    j->by_name = sb_alloc(n, sizeof *j->by_name);
    if (!j->by_place || !j->by_name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++)
        j->by_place[i] = j->by_name[i] = &j->plan.items[i];
    qsort(j->by_place, n, sizeof *j->by_place, compare_places);
    qsort(j->by_name, n, sizeof *j->by_name, compare_names);
    return SB_OK;
}

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    job *j = ctx;
    sb_item *const *item = bsearch(tensor->name, j->by_name, sb_checkpoint_count(j->plan.source),
                                   sizeof *j->by_name, against_name);
    const unsigned char *data = (*item)->bytes ? (*item)->bytes : (*item)->from->data;
    (void)err;
    memcpy(bytes, data + first_byte, count);
    j->done += count;
    if (j->options->progress)
        j->options->progress(NULL, "bytes", j->done, sb_checkpoint_bytes(j->plan.source));
    return SB_OK;
}

/* Keeps the metadata of the source's files, except entries of changed tensors. */
static sb_status keep_metadata(const job *j, sb_writer *writer, const sb_item *first, sb_error *err)
{
    static const char *const prefixes[] = {SB_ORIGIN_PREFIX, SB_STORED_PREFIX};
    const sb_checkpoint *c = j->plan.source;
    uint32_t shard = first->from->shard;
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_checkpoint_metadata_count(c, shard) && !status; i++) {
        const sb_metadata_pair *pair = sb_checkpoint_metadata_at(c, shard, i);
        int used = strcmp(pair->key, "format") == 0;
        for (size_t p = 0; p < 2; p++) {
            size_t n = strlen(prefixes[p]);
            const sb_tensor *t = strncmp(pair->key, prefixes[p], n) == 0
                                     ? sb_checkpoint_find(c, pair->key + n)
                                     : NULL;
            used |= t && j->plan.items[t - sb_checkpoint_at(c, 0)].changed;
        }
        if (!used)
            status = sb_writer_metadata(writer, name_of(first), pair->key, pair->value, err);
    }
    return status;
}

/* D-7: "A conversion keeps each number that it replaces" */
static sb_status put_metadata(sb_writer *writer, const sb_item *item, const char *prefix,
                              const char *value, sb_error *err)
{
    char key[SB_ORIGIN_KEY];
    if (!value)
        return SB_OK;
    snprintf(key, sizeof key, "%s%s", prefix, name_of(item));
    return sb_writer_metadata(writer, name_of(item), key, value, err);
}

/* Writes one shard per shard of the source. */
static sb_status write_tensors(job *j, sb_error *err)
{
    sb_writer *writer = NULL;
    sb_status status = sb_writer_new(j->target.partial, 0, 0, &writer, err);
    for (size_t i = 0; i < sb_checkpoint_count(j->plan.source) && !status; i++) {
        const sb_item *item = j->by_place[i];
        int begins = i == 0 || item->from->shard != j->by_place[i - 1]->from->shard;
        if (begins)
            status = sb_writer_cut(writer, err);
        if (!status)
            status =
                sb_writer_add(writer, name_of(item), item->dtype, item->rank, item->shape, err);
        if (!status && begins)
            status = keep_metadata(j, writer, item, err);
        if (!status)
            status = put_metadata(writer, item, SB_ORIGIN_PREFIX, item->origin, err);
        if (!status)
            status = put_metadata(writer, item, SB_STORED_PREFIX, item->stored, err);
    }
    if (!status)
        status = sb_writer_run(writer, fill, j, err);
    sb_writer_free(writer);
    return status;
}

static sb_status write_text(const char *folder, const char *name, const char *text, sb_error *err)
{
    char *path = sb_path_join(folder, name);
    sb_status status = path ? sb_write_file(path, text, strlen(text), err)
                            : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    free(path);
    return status;
}

static sb_status make_config(job *j, sb_error *err)
{
    unsigned char *text = NULL;
    size_t n;
    json_t *document = NULL;
    char *path = sb_path_join(sb_checkpoint_folder(j->plan.source), "config.json");
    sb_status status = path ? sb_read_file(path, MAX_CONFIG, &text, &n, err)
                            : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    sb_json_object root;
    if (!status)
        status = sb_json_parse((char *)text, n, path, &document, err);
    if (!status)
        status = sb_json_object_at(document, path, "", &root, err);
    if (!status)
        status = sb_convert_config(&j->plan, path, (char *)text, &j->config, &j->hf_quant, err);
    json_decref(document);
    free(text);
    free(path);
    return status;
}

/* --- the result, read again ------------------------------------------------------------------- */

typedef struct proof {
    const job *j;
    const sb_checkpoint *result;
    const sb_declared *declared;
    size_t seen;
} proof;

/* Checks that every layer is there in the wanted dialect, and that the configuration does not
 * contradict it. The configuration may leave open whether a module is quantized if engines differ
 * on it. */
static sb_status prove_layer(void *ctx, const char *layer, const sb_found *found, sb_error *err)
{
    proof *p = ctx;
    const sb_module *m = &p->j->plan.modules[p->seen];
    sb_declaration said;
    sb_status status = sb_declared_for(p->declared, layer, &said, err);
    sb_container wanted = p->j->plan.to_ct ? SB_CONTAINER_nvfp4_ct : SB_CONTAINER_nvfp4_modelopt;
    int plain = found->container == SB_CONTAINER_plain;
    if (status)
        return status;
    if (p->seen++ >= p->j->plan.module_count || strcmp(m->name, layer) != 0 ||
        plain != (m->scheme == SB_SCHEME_plain) ||
        (!plain && found->container != wanted && found->container != SB_CONTAINER_fp8_tensor) ||
        said.answer == (plain ? SB_DECLARED_YES : SB_DECLARED_NO))
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "layer %s would be stored as %s and declared as %s (%s): this checkpoint "
                       "cannot be converted",
                       SB_SHOW(layer), sb_container_name(found->container),
                       said.answer == SB_DECLARED_YES ? "quantized" : "not quantized",
                       SB_SHOW(said.rule));
    return SB_OK;
}

static sb_status prove(const job *j, sb_error *err)
{
    sb_checkpoint *result = NULL;
    sb_declared *declared = NULL;
    sb_status status = sb_checkpoint_open(j->target.partial, &result, err);
    if (!status)
        status = sb_declared_load(j->target.partial, &declared, err);
    if (!status) {
        proof p = {j, result, declared, 0};
        status = sb_each_layer(result, prove_layer, &p, err);
        if (!status && p.seen != j->plan.module_count)
            status = sb_fail(
                err, SB_ERR_UNSUPPORTED,
                "the result would have %zu layers, but %zu would be read: this checkpoint cannot "
                "be converted",
                j->plan.module_count, p.seen);
    }
    sb_declared_free(declared);
    sb_checkpoint_close(result);
    return status;
}

/* --- the whole conversion --------------------------------------------------------------------- */

static sb_status write_all(job *j, sb_error *err)
{
    const char *partial = j->target.partial;
    sb_status status = sb_target_begin(&j->target, NULL, err);
    if (!status)
        status = write_tensors(j, err);
    if (!status && j->hf_quant)
        status = write_text(partial, "hf_quant_config.json", j->hf_quant, err);
    if (!status)
        status = sb_target_copy(j->options->source, partial, j->plan.out, err);
    if (!status)
        status = write_text(partial, "config.json", j->config, err);
    if (!status)
        status = prove(j, err);
    return status ? status : sb_target_commit(&j->target, j->options->replace, NULL, err);
}

static sb_status run(job *j, sb_checkpoint **source, sb_declared **declared, sb_error *err)
{
    const sb_convert_options *o = j->options;
    sb_status status = sb_target_check(o->source, o->target, o->replace, &j->target, err);
    if (!status)
        status = sb_checkpoint_open(o->source, source, err);
    j->plan.source = *source;
    if (!status)
        status = sb_declared_load(sb_checkpoint_folder(*source), declared, err);
    j->plan.declared = *declared;
    if (!status)
        status = sb_convert_plan_make(&j->plan, err);
    if (!status)
        status = make_config(j, err);
    if (!status)
        status = order_items(j, err);
    return status ? status : write_all(j, err);
}

sb_status sb_convert(const sb_convert_options *options, sb_conversion *out, sb_error *err)
{
    static const char ct[] = "nvfp4-ct", modelopt[] = "nvfp4-modelopt";
    job j = {.options = options, .target = {.fd = -1}};
    sb_checkpoint *source = NULL;
    sb_declared *declared = NULL;
    *out = (sb_conversion){0};
    j.plan.out = out;
    j.plan.to_ct = options->to && strcmp(options->to, ct) == 0;
    if (!options->to || (!j.plan.to_ct && strcmp(options->to, modelopt) != 0))
        return sb_fail(err, SB_ERR_USAGE, "--to is %s; expected %s or %s",
                       options->to ? SB_SHOW(options->to) : "absent", ct, modelopt);
    sb_status status = run(&j, &source, &declared, err);
    sb_convert_plan_free(&j.plan);
    sb_declared_free(declared);
    sb_checkpoint_close(source);
    free(j.by_place);
    free(j.by_name);
    sb_target_close(&j.target);
    free(j.config);
    free(j.hf_quant);
    if (status)
        sb_conversion_free(out);
    return status;
}

void sb_conversion_free(sb_conversion *conversion)
{
    for (size_t i = 0; i < conversion->folder_count; i++)
        free(conversion->folders[i]);
    free(conversion->folders);
    free(conversion->scalars);
    *conversion = (sb_conversion){0};
}
