#include "tests/check/folder.h"

#include "tests/lib/cmocka.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/container/checkpoint.h"
#include "ref/container/file.h"
#include "tests/check/folder_parts.h"
#include "tests/lib/checkpoint.h"

/* A vehicle that was made. It lives as long as the program. */
typedef struct made {
    struct made *next;
    char *vehicle;
    const char *path;
} made;

static made *all_made;

/* Reads one word of a vehicle behind preset and format. */
static void option(const char *word, sb_make_options *o)
{
    const char *value = strchr(word, '=');
    size_t n = value ? (size_t)(value++ - word) : strlen(word);
    const struct {
        const char *name, **text;
        unsigned *number;
        int *flag;
    } options[] = {
        {"recipe", &o->recipe, NULL, NULL},   {"layout", &o->layout, NULL, NULL},
        {"storage", &o->storage, NULL, NULL}, {"experts", &o->experts, NULL, NULL},
        {"rule", &o->scale_rule, NULL, NULL}, {"group", NULL, &o->group_size, NULL},
        {"layers", NULL, &o->layers, NULL},   {"no-mtp", NULL, NULL, &o->no_mtp},
        {"kv", NULL, NULL, &o->kv_scales},    {"tokenizer", NULL, NULL, &o->tokenizer},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strlen(options[i].name) != n || strncmp(options[i].name, word, n) != 0)
            continue;
        if (options[i].flag)
            *options[i].flag = 1;
        else if (options[i].number)
            *options[i].number = (unsigned)strtoul(value, NULL, 10);
        else
            *options[i].text = value;
        return;
    }
    if (strcmp(word, "shards=one") == 0)
        o->shard_bytes = (uint64_t)1 << 40;
    else if (strncmp(word, "seed=", 5) == 0)
        o->seed = strtoull(value, NULL, 10);
    else
        fail_msg("%s is no word of a vehicle", word);
}

/* "@PATH" takes the weights of that checkpoint. T3 takes those of SAMEBIT_WEIGHTS, so that whole
 * tables of faults can be planted in trained weights. A T3 with a seed or a number of layers of its
 * own keeps drawn weights. */
static void choose_weights(const char *vehicle, sb_make_options *o)
{
    const char *other = getenv("SAMEBIT_WEIGHTS");
    if (*o->preset == '@')
        o->weights = o->preset + 1;
    else if (other && strcmp(o->preset, "T3") == 0 && !strstr(vehicle, " seed=") &&
             !strstr(vehicle, " layers="))
        o->weights = other;
    if (o->weights)
        o->preset = NULL;
}

static const char *make(const char *vehicle)
{
    char text[256], name[320], *next = NULL;
    sb_make_options o = {.seed = 42, .replace = 1};
    sb_error err;
    assert_true(strlen(vehicle) < sizeof text);
    strcpy(text, vehicle);
    o.preset = strtok_r(text, " ", &next);
    choose_weights(vehicle, &o);
    o.format = strtok_r(NULL, " ", &next);
    for (char *word; (word = strtok_r(NULL, " ", &next));)
        option(word, &o);
    snprintf(name, sizeof name, "%ld-%s", (long)getpid(), vehicle);
    for (char *c = name; *c; c++)
        *c = strchr(" =/@", *c) ? '-' : *c;
    o.dir = test_path("check", name);
    if (sb_make(&o, &err))
        fail_msg("make %s: %s", vehicle, err.text);
    return o.dir;
}

const char *folder_path(const char *vehicle)
{
    if (*vehicle != '@' && strchr(vehicle, '/'))
        return vehicle;
    for (made *m = all_made; m; m = m->next)
        if (strcmp(m->vehicle, vehicle) == 0)
            return m->path;
    made *m = malloc(sizeof *m);
    assert_non_null(m);
    *m = (made){all_made, folder_string(vehicle), make(vehicle)};
    all_made = m;
    return m->path;
}

static void load_files(folder *f, const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        size_t n = strlen(entry->d_name), size;
        unsigned char *bytes;
        int tensors = n > 12 && strcmp(entry->d_name + n - 12, ".safetensors") == 0;
        char *file = sb_path_join(path, entry->d_name);
        if (strcmp(entry->d_name, "model.safetensors.index.json") == 0)
            f->has_index = 1;
        else if (entry->d_name[0] != '.' && !tensors) {
            assert_int_equal(sb_read_file(file, 1 << 26, &bytes, &size, NULL), SB_OK);
            folder_put(f, entry->d_name, bytes, size);
            free(bytes);
        }
        free(file);
    }
    closedir(dir);
}

static int data_order(const void *a, const void *b)
{
    const sb_tensor *x = *(const sb_tensor *const *)a, *y = *(const sb_tensor *const *)b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return (x->data > y->data) - (x->data < y->data);
}

folder *folder_at(const char *path)
{
    folder *f = calloc(1, sizeof *f);
    sb_checkpoint *c = NULL;
    sb_error err;
    assert_non_null(f);
    if (sb_checkpoint_open(path, &c, &err))
        fail_msg("%s", err.text);
    load_files(f, path);
    size_t count = sb_checkpoint_count(c);
    const sb_tensor **order = malloc(count * sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < count; i++)
        order[i] = sb_checkpoint_at(c, i);
    qsort(order, count, sizeof *order, data_order);
    for (size_t i = 0; i < count; i++) {
        const sb_tensor *t = order[i];
        folder_tensor *own = folder_add(f, t->name, t->dtype, t->rank, t->shape,
                                        sb_checkpoint_shard_name(c, t->shard));
        memcpy(own->bytes, t->data, (size_t)t->bytes);
    }
    free(order);
    sb_checkpoint_close(c);
    return f;
}

folder *folder_of(const char *vehicle)
{
    return folder_at(folder_path(vehicle));
}

folder *folder_copy(const folder *from)
{
    folder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_null(from->damages);
    f->has_index = from->has_index;
    for (size_t i = 0; i < from->file_count; i++)
        folder_put(f, from->files[i].name, from->files[i].bytes, from->files[i].size);
    for (size_t i = 0; i < from->count; i++) {
        const folder_tensor *t = from->tensors[i];
        folder_tensor *own = folder_add(f, t->name, t->dtype, t->rank, t->shape, t->file);
        folder_copy_bytes(own, t);
        own->unindexed = t->unindexed;
    }
    return f;
}

void folder_free(folder *f)
{
    for (size_t i = 0; i < f->count; i++)
        folder_tensor_free(f->tensors[i]);
    for (size_t i = 0; i < f->file_count; i++) {
        free(f->files[i].name);
        free(f->files[i].bytes);
    }
    while (f->damages) {
        folder_damage *d = f->damages;
        f->damages = d->next;
        free(d->file);
        free(d->old);
        free(d->by);
        free(d);
    }
    free(f->tensors);
    free(f->files);
    free(f);
}
