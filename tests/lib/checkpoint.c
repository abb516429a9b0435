#include "tests/lib/checkpoint.h"

#include "tests/lib/cmocka.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "ref/container/writer.h"
#include "ref/fast/dot/dot.h"
#include "tools/make/scheme.h"

/* The paths given out; they stay until the program ends. */
typedef struct path {
    struct path *next;
    char text[1024];
} path;

static path *paths;

/* At the end of the program, removes these folders and their files. Folders that a test made inside
 * them stay. */
static void remove_folders(void)
{
    for (const path *p = paths; p; p = p->next) {
        DIR *folder = opendir(p->text);
        struct dirent *entry;
        char file[2048];
        while (folder && (entry = readdir(folder)))
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                snprintf(file, sizeof file, "%s/%s", p->text, entry->d_name);
                (void)unlink(file);
            }
        if (folder)
            closedir(folder);
        (void)rmdir(p->text);
    }
}

static const char *keep(const char *text)
{
    path *p = malloc(sizeof *p);
    assert_non_null(p);
    assert_true(strlen(text) < sizeof p->text);
    if (!paths && !getenv("SAMEBIT_KEEP"))
        atexit(remove_folders);
    p->next = paths;
    strcpy(p->text, text);
    paths = p;
    return p->text;
}

/* mkdir -p */
static void make_folders(const char *folder)
{
    char part[1024];
    struct stat info;
    assert_true(strlen(folder) < sizeof part);
    for (size_t i = 1; i <= strlen(folder); i++)
        if (folder[i] == '/' || folder[i] == '\0') {
            memcpy(part, folder, i);
            part[i] = '\0';
            (void)mkdir(part, 0777);
        }
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
        fail_msg("cannot make the folder %s", folder);
}

const char *test_path(const char *test, const char *name)
{
    char folder[512], whole[1024];
    const char *tmp = getenv("SAMEBIT_TMP"), *build = getenv("BUILD");
    if (tmp && *tmp)
        snprintf(folder, sizeof folder, "%s", tmp);
    else
        snprintf(folder, sizeof folder, "%s/test-data", build && *build ? build : "build");
    make_folders(folder);
    snprintf(whole, sizeof whole, "%s/%s-%s", folder, test, name);
    return keep(whole);
}

const char *test_checkpoint_with(const char *test, const sb_make_options *options)
{
    sb_make_options o = *options;
    sb_error err;
    o.dir = test_path(test, options->dir);
    o.seed = options->seed ? options->seed : 42;
    o.replace = 1;
    if (sb_make(&o, &err))
        fail_msg("make %s: %s", o.dir, err.text);
    return o.dir;
}

const char *test_checkpoint(const char *test, const char *preset, const char *recipe,
                            const char *format, const char *layout)
{
    char name[256];
    snprintf(name, sizeof name, "%s-%s-%s-%s", preset, recipe, format, layout);
    return test_checkpoint_with(
        test,
        &(sb_make_options){
            .dir = name, .preset = preset, .recipe = recipe, .format = format, .layout = layout});
}

sb_model *test_model_open(const char *folder)
{
    sb_model *model = NULL;
    sb_error err;
    if (sb_math_start(NULL, &err) || sb_model_open(folder, &model, &err))
        fail_msg("%s", err.text);
    return model;
}

test_folder test_folder_load(const char *folder)
{
    test_folder f = {NULL, NULL, 0, 0};
    sb_checkpoint *checkpoint = NULL;
    unsigned char *text = NULL;
    size_t bytes;
    char *config = sb_path_join(folder, "config.json");
    assert_int_equal(sb_read_file(config, 1 << 20, &text, &bytes, NULL), SB_OK);
    assert_int_equal(sb_checkpoint_open(folder, &checkpoint, NULL), SB_OK);
    f.config = (char *)text;
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
        test_tensor *copy = test_folder_add(&f, t->name, t->dtype, t->rank, t->shape);
        memcpy(copy->bytes, t->data, (size_t)t->bytes);
    }
    sb_checkpoint_close(checkpoint);
    free(config);
    return f;
}

void test_folder_free(test_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        free(folder->tensors[i].bytes);
    free(folder->tensors);
    free(folder->config);
}

test_tensor *test_folder_find(const test_folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->count; i++)
        if (strcmp(folder->tensors[i].name, name) == 0)
            return &folder->tensors[i];
    fail_msg("the folder has no tensor %s", name);
    return NULL;
}

void test_folder_remove(test_folder *folder, const char *name)
{
    test_tensor *t = test_folder_find(folder, name);
    free(t->bytes);
    *t = folder->tensors[--folder->count];
}

test_tensor *test_folder_add(test_folder *folder, const char *name, sb_dtype dtype, unsigned rank,
                             const uint64_t *shape)
{
    if (folder->count == folder->room) {
        folder->room = 2 * folder->room + 16;
        folder->tensors = realloc(folder->tensors, folder->room * sizeof *folder->tensors);
        assert_non_null(folder->tensors);
    }
    test_tensor *t = &folder->tensors[folder->count++];
    *t = (test_tensor){.dtype = dtype, .rank = rank};
    assert_true(strlen(name) < sizeof t->name);
    strcpy(t->name, name);
    for (unsigned d = 0; d < rank; d++)
        t->shape[d] = shape[d];
    assert_int_equal(sb_dtype_bytes(dtype, rank, t->shape, &t->size, NULL), SB_OK);
    t->bytes = calloc(1, (size_t)t->size);
    assert_non_null(t->bytes);
    return t;
}

void test_folder_configure(test_folder *folder, const char *old, const char *with)
{
    char *at = strstr(folder->config, old);
    if (!at)
        fail_msg("config.json has no %s", old);
    size_t before = (size_t)(at - folder->config);
    char *text = malloc(strlen(folder->config) + strlen(with) + 1);
    assert_non_null(text);
    memcpy(text, folder->config, before);
    sprintf(text + before, "%s%s", with, at + strlen(old));
    free(folder->config);
    folder->config = text;
}

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const test_tensor *t = test_folder_find(ctx, tensor->name);
    (void)err;
    memcpy(bytes, t->bytes + first_byte, count);
    return SB_OK;
}

const char *test_folder_save(const test_folder *folder, const char *test, const char *name)
{
    const char *target = test_path(test, name);
    sb_writer *writer = NULL;
    sb_error err = {""};
    test_folder copy = *folder;
    sb_status status = sb_writer_new(target, 0, SB_WRITER_REPLACE, &writer, &err);
    for (size_t i = 0; i < folder->count && !status; i++) {
        const test_tensor *t = &folder->tensors[i];
        status = sb_writer_add(writer, t->name, t->dtype, t->rank, t->shape, &err);
    }
    if (!status)
        status = sb_writer_run(writer, fill, &copy, &err);
    sb_writer_free(writer);
    char *config = sb_path_join(target, "config.json");
    if (!status)
        status = sb_write_file(config, folder->config, strlen(folder->config), &err);
    free(config);
    if (status)
        fail_msg("%s: %s", target, err.text);
    return target;
}

const char *test_quantized_format(size_t i)
{
    for (size_t k = 0; k < sb_make_format_count(); k++)
        if (sb_make_format_at(k)->scheme[0] != SB_SCHEME_plain && i-- == 0)
            return sb_make_format_at(k)->name;
    return NULL;
}
