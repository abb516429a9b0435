#include "tests/lib/sparse.h"

#include "tests/lib/cmocka.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/writer_layout.h"
#include "tools/make/plan.h"
#include "tools/make/quant_config.h"

#define INDEX "model.safetensors.index.json"

enum { SHARD = 2000000000 };

test_sparse *test_sparse_new(const char *folder, uint64_t shard_bytes)
{
    sb_error err;
    test_sparse *s;
    if (sb_writer_new(folder, shard_bytes, SB_WRITER_REPLACE, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

void test_sparse_add(test_sparse *s, const char *name, sb_dtype dtype, unsigned rank,
                     const uint64_t *shape)
{
    sb_error err;
    if (sb_writer_add(s, name, dtype, rank, shape, &err))
        fail_msg("%s", err.text);
}

/* Writes a file of `size` bytes that begins with `text`. Fails the test if `text` is NULL: memory
 * ran out. */
static void write_start(const char *folder, const char *name, const char *text, size_t count,
                        uint64_t size)
{
    char *path = sb_path_join(folder, name);
    assert_non_null(text);
    assert_non_null(path);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, count, f) != count || fflush(f) != 0 ||
        ftruncate(fileno(f), (off_t)size) != 0 || fclose(f) != 0)
        fail_msg("cannot write %s", path);
    free(path);
}

/* Writes the shard of by_place[first]; returns the index of the next shard's first tensor. */
static size_t write_shard(const test_sparse *s, size_t first)
{
    size_t end = first;
    uint64_t bytes = 0;
    sb_text header = {0};
    size_t shard = s->by_place[first]->shard;
    for (; end < s->count && s->by_place[end]->shard == shard; end++)
        bytes += s->by_place[end]->bytes;
    sb_writer_header(s, first, end, &header);
    assert_false(header.failed);
    write_start(s->path, sb_writer_shard_name(s, shard).text, header.bytes, header.used,
                header.used + bytes);
    free(header.bytes);
    return end;
}

/* Makes the folder, or removes the shards and the index of an earlier checkpoint from it. */
static void prepare_folder(const char *folder)
{
    (void)mkdir(folder, 0777);
    DIR *dir = opendir(folder);
    if (!dir)
        fail_msg("cannot make the folder %s", folder);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!sb_writer_is_shard_name(entry->d_name) && strcmp(entry->d_name, INDEX) != 0)
            continue;
        char *path = sb_path_join(folder, entry->d_name);
        assert_non_null(path);
        (void)unlink(path);
        free(path);
    }
    closedir(dir);
}

void test_sparse_save(test_sparse *s, const char *config)
{
    sb_error err;
    sb_text index = {0};
    if (sb_writer_plan(s, &err))
        fail_msg("%s", err.text);
    prepare_folder(s->path);
    for (size_t first = 0; first < s->count;)
        first = write_shard(s, first);
    if (s->shards > 1) {
        sb_writer_index(s, &index);
        assert_false(index.failed);
        write_start(s->path, INDEX, index.bytes, index.used, index.used);
        free(index.bytes);
    }
    if (config)
        write_start(s->path, "config.json", config, strlen(config), strlen(config));
    sb_writer_free(s);
}

static void plan_new(const sb_make_options *options, sb_make_plan *plan)
{
    sb_error err;
    if (sb_make_plan_new(options, plan, &err))
        fail_msg("%s", err.text);
}

void test_sparse_make(const sb_make_options *options)
{
    sb_error err;
    sb_make_plan plan;
    plan_new(options, &plan);
    test_sparse *s = test_sparse_new(options->dir,
                                     options->shard_bytes ? options->shard_bytes : (uint64_t)SHARD);
    for (size_t i = 0; i < plan.count; i++)
        test_sparse_add(s, plan.tensors[i].name, plan.tensors[i].dtype, plan.tensors[i].rank,
                        plan.tensors[i].shape);
    test_sparse_save(s, plan.config_text);
    if (sb_make_write_side_files(&plan, options->dir, &err))
        fail_msg("%s", err.text);
    sb_make_plan_free(&plan);
}

typedef struct model {
    test_sparse *sparse;
    const sb_config *config;
    test_sparse_choice choose;
    void *ctx;
} model;

static sb_scheme scheme_of(const model *m, const sb_expected *x)
{
    return m->choose(m->ctx, x, x->layer >= m->config->layers && strncmp(x->name, "mtp.", 4) == 0);
}

/* Adds a layer and its parts. In a stack, every shape begins with the number of experts. */
static void add_layer(const model *m, const char *layer, int name, const sb_expected *x,
                      sb_scheme scheme)
{
    sb_scheme_tensor part;
    char full[SB_NAME_MAX + 32];
    unsigned stack = x->rank - 2;
    for (size_t i = 0; sb_scheme_tensor_at(scheme, i, x->shape[stack], x->shape[stack + 1],
                                           sb_scheme_at(scheme)->group, &part);
         i++) {
        uint64_t shape[3] = {x->shape[0]};
        memcpy(shape + stack, part.shape, sizeof part.shape);
        snprintf(full, sizeof full, "%.*s.%s", name, layer, part.suffix);
        test_sparse_add(m->sparse, full, part.dtype, part.rank + stack, shape);
    }
}

static sb_status add_expected(void *ctx, const sb_expected *x, sb_error *err)
{
    const model *m = ctx;
    sb_expected expert = *x;
    size_t n = strlen(x->name);
    (void)err;
    if (x->role == SB_ROLE_experts_gate_up || x->role == SB_ROLE_experts_down)
        expert.role = SB_ROLE_expert_gate;
    else
        n -= n > 7 && strcmp(x->name + n - 7, ".weight") == 0 ? 7 : 0;
    sb_scheme scheme =
        x->rank == 2 || expert.role != x->role ? scheme_of(m, &expert) : SB_SCHEME_plain;
    if (scheme == SB_SCHEME_plain)
        test_sparse_add(m->sparse, x->name, SB_DTYPE_BF16, x->rank, x->shape);
    else
        add_layer(m, x->name, (int)n, x, scheme);
    return SB_OK;
}

void test_sparse_model(const char *folder, const char *preset, int stacked,
                       test_sparse_choice choose, void *ctx)
{
    sb_error err;
    sb_make_plan plan;
    sb_make_options options = {.dir = folder, .preset = preset};
    plan_new(&options, &plan);
    model m = {test_sparse_new(folder, SHARD), &plan.config, choose, ctx};
    sb_expected trunk = {.role = SB_ROLE_expert_gate, .rank = 2};
    sb_expected mtp = {.name = "mtp.", .role = SB_ROLE_expert_gate, .rank = 2};
    mtp.layer = plan.config.layers;
    plan.storage.fused_experts = stacked || scheme_of(&m, &trunk) == SB_SCHEME_plain;
    plan.storage.fused_mtp_experts = stacked || scheme_of(&m, &mtp) == SB_SCHEME_plain;
    if (sb_each_tensor(&plan.config, &plan.storage, add_expected, &m, &err))
        fail_msg("%s", err.text);
    test_sparse_save(m.sparse, plan.config_text);
    sb_make_plan_free(&plan);
}
