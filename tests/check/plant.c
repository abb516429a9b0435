#include "tests/check/plant.h"

#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder_parts.h"

folder_tensor *plant_tensor(folder *f, const plant_words *w)
{
    return folder_find(f, w->word[1]);
}

uint64_t plant_number(const char *word)
{
    char *end;
    uint64_t value = strtoull(word, &end, 0);
    if (*end || end == word)
        fail_msg("%s is no number", word);
    return value;
}

/* "-" stands for no name. */
static const char *or_none(const char *word)
{
    return word && strcmp(word, "-") != 0 ? word : NULL;
}

/* "128,64"; "[]" is a scalar. */
static unsigned shape_of(const char *word, uint64_t *shape)
{
    unsigned rank = 0;
    char *end = NULL;
    for (const char *at = word; strcmp(word, "[]") != 0; at = end + 1) {
        assert_true(rank < SB_MAX_RANK);
        shape[rank++] = strtoull(at, &end, 10);
        if (*end != ',')
            break;
    }
    return rank;
}

static sb_dtype dtype_of(const char *word)
{
    sb_dtype dtype;
    if (!sb_dtype_find(word, &dtype))
        fail_msg("%s is no dtype", word);
    return dtype;
}

/* --- names and shapes ------------------------------------------------------------------------- */

static void drop(folder *f, const plant_words *w)
{
    folder_drop(f, w->word[1]);
}

static void drop_all(folder *f, const plant_words *w)
{
    folder_drop_all(f, w->word[1]);
}

static void rename_one(folder *f, const plant_words *w)
{
    folder_rename(f, w->word[1], w->word[2]);
}

static void rename_all(folder *f, const plant_words *w)
{
    folder_rename_all(f, w->word[1], w->word[2]);
}

static void twin(folder *f, const plant_words *w) /* NAME NEW [FILE] */
{
    folder_twin(f, w->word[1], w->word[2], w->word[3]);
}

static void add(folder *f, const plant_words *w) /* NAME DTYPE SHAPE [FILE] */
{
    uint64_t shape[SB_MAX_RANK];
    unsigned rank = shape_of(w->word[3], shape);
    folder_add(f, w->word[1], dtype_of(w->word[2]), rank, shape, w->word[4]);
}

static void move(folder *f, const plant_words *w)
{
    folder_move(f, w->word[1], w->word[2]);
}

static void reshape(folder *f, const plant_words *w)
{
    uint64_t shape[SB_MAX_RANK];
    unsigned rank = shape_of(w->word[2], shape);
    folder_reshape(plant_tensor(f, w), rank, shape);
}

static void resize(folder *f, const plant_words *w)
{
    uint64_t shape[SB_MAX_RANK];
    unsigned rank = shape_of(w->word[2], shape);
    folder_resize(plant_tensor(f, w), rank, shape);
}

static void retype(folder *f, const plant_words *w)
{
    folder_retype(plant_tensor(f, w), dtype_of(w->word[2]));
}

/* Replaces the tensors with PART in their names by those of another vehicle ('+' for ' '). */
static void take(folder *f, const plant_words *w) /* PART VEHICLE */
{
    char vehicle[128];
    snprintf(vehicle, sizeof vehicle, "%s", w->word[2]);
    for (char *c = vehicle; *c; c++)
        *c = *c == '+' ? ' ' : *c;
    folder *other = folder_of(vehicle);
    size_t taken = 0;
    folder_drop_all(f, w->word[1]);
    for (size_t i = 0; i < other->count; i++) {
        const folder_tensor *t = other->tensors[i];
        if (!strstr(t->name, w->word[1]))
            continue;
        folder_copy_bytes(folder_add(f, t->name, t->dtype, t->rank, t->shape, NULL), t);
        taken++;
    }
    assert_true(taken > 0);
    folder_free(other);
}

/* --- bytes of whole tensors ------------------------------------------------------------------- */

static void copy(folder *f, const plant_words *w) /* TO FROM */
{
    folder_copy_bytes(plant_tensor(f, w), folder_find(f, w->word[2]));
}

static void swap(folder *f, const plant_words *w)
{
    folder_swap(plant_tensor(f, w), folder_find(f, w->word[2]));
}

/* Tensors whose names differ only in one part exchange their bytes. */
static void swap_all(folder *f, const plant_words *w)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        char other[512];
        const char *name = f->tensors[i]->name, *at = strstr(name, w->word[1]);
        if (!at)
            continue;
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - name), name, w->word[2],
                 at + strlen(w->word[1]));
        folder_swap(f->tensors[i], folder_find(f, other));
        count++;
    }
    assert_true(count > 0);
}

static void zero(folder *f, const plant_words *w) /* NAME [FIRST COUNT] */
{
    folder_tensor *t = plant_tensor(f, w);
    if (w->word[2])
        folder_zero_rows(t, plant_number(w->word[2]), plant_number(w->word[3]));
    else
        memset(t->bytes, 0, (size_t)t->size);
}

static void repeat(folder *f, const plant_words *w) /* NAME ROW FROM */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t size = t->size / t->shape[0];
    memcpy(t->bytes + plant_number(w->word[2]) * size, t->bytes + plant_number(w->word[3]) * size,
           (size_t)size);
}

static void columns(folder *f, const plant_words *w) /* NAME FIRST COUNT, in stored numbers */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t cols = t->shape[t->rank - 1], size = sb_dtype_bits(t->dtype) / 8;
    uint64_t first = plant_number(w->word[2]) * size, count = plant_number(w->word[3]) * size;
    assert_true(first + count <= cols * size);
    for (uint64_t at = 0; at < t->size; at += cols * size)
        memset(t->bytes + at + first, 0, (size_t)count);
}

static void flip(folder *f, const plant_words *w) /* NAME BYTE BITS */
{
    folder_flip(plant_tensor(f, w), plant_number(w->word[2]), (unsigned)plant_number(w->word[3]));
}

static void byte(folder *f, const plant_words *w) /* NAME BYTE VALUE */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t at = plant_number(w->word[2]);
    assert_true(at < t->size && t->bytes[at] != plant_number(w->word[3]));
    t->bytes[at] = (unsigned char)plant_number(w->word[3]);
}

/* --- files ------------------------------------------------------------------------------------ */

static void config(folder *f, const plant_words *w) /* PATH JSON */
{
    folder_json(f, "config.json", w->word[1], w->rest[2]);
}

static void unset(folder *f, const plant_words *w) /* PATH */
{
    folder_json(f, "config.json", w->word[1], NULL);
}

static void json(folder *f, const plant_words *w) /* FILE PATH JSON */
{
    folder_json(f, w->word[1], w->word[2], w->rest[3]);
}

static void remove_file(folder *f, const plant_words *w)
{
    folder_remove(f, w->word[1]);
}

static void no_index(folder *f, const plant_words *w)
{
    (void)w;
    f->has_index = 0;
}

static void unindex(folder *f, const plant_words *w)
{
    plant_tensor(f, w)->unindexed = 1;
}

static void unindex_all(folder *f, const plant_words *w)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i]->name, w->word[1])) {
            f->tensors[i]->unindexed = 1;
            count++;
        }
    assert_true(count > 0);
}

static void move_all(folder *f, const plant_words *w) /* PART FILE */
{
    /* after a move, the next tensor has the same index; `left` counts the tensors to come */
    for (size_t i = 0, left = f->count; left > 0; left--) {
        if (!strstr(f->tensors[i]->name, w->word[1]) ||
            strcmp(f->tensors[i]->file, w->word[2]) == 0)
            i++;
        else
            folder_move(f, f->tensors[i]->name, w->word[2]);
    }
}

static void index_to(folder *f, const plant_words *w) /* TENSOR FILE */
{
    folder_damage_index(f, w->word[1], or_none(w->word[2]));
}

static void lost(folder *f, const plant_words *w)
{
    folder_damage_lost(f, or_none(w->word[1]));
}

static void cut(folder *f, const plant_words *w) /* FILE BYTES */
{
    folder_damage_cut(f, or_none(w->word[1]), plant_number(w->word[2]));
}

static void append(folder *f, const plant_words *w) /* FILE BYTES */
{
    folder_damage_append(f, or_none(w->word[1]), plant_number(w->word[2]));
}

static void header(folder *f, const plant_words *w) /* FILE OLD NEW */
{
    folder_damage_header(f, or_none(w->word[1]), w->word[2], w->rest[3]);
}

static void file_byte(folder *f, const plant_words *w) /* FILE BYTE BITS */
{
    folder_damage_byte(f, or_none(w->word[1]), plant_number(w->word[2]),
                       (unsigned)plant_number(w->word[3]));
}

static void pages(folder *f, const plant_words *w) /* NAME FIRST COUNT */
{
    folder_damage_pages(f, w->word[1], plant_number(w->word[2]),
                        (unsigned)plant_number(w->word[3]));
}

/* Adds a file with this text, which cannot contain ';'. */
static void side(folder *f, const plant_words *w)
{
    char *text = folder_string(w->rest[2]);
    folder_put(f, w->word[1], text, strlen(text));
    free(text);
}

/* Writes the metadata that a download leaves beside a file, with this hash. */
static void metadata(folder *f, const plant_words *w)
{
    char name[512], text[256];
    snprintf(name, sizeof name, ".cache/huggingface/download/%s.metadata", w->word[1]);
    int n = snprintf(text, sizeof text, "0123456789abcdef0123456789abcdef01234567\n%s\n0.0\n",
                     w->word[2]);
    folder_put(f, name, text, (size_t)n);
}

static const plant_command commands[] = {
    {"drop", 1, drop},
    {"drop-all", 1, drop_all},
    {"rename", 2, rename_one},
    {"rename-all", 2, rename_all},
    {"twin", 2, twin},
    {"add", 3, add},
    {"move", 2, move},
    {"move-all", 2, move_all},
    {"reshape", 2, reshape},
    {"resize", 2, resize},
    {"retype", 2, retype},
    {"take", 2, take},
    {"copy", 2, copy},
    {"swap", 2, swap},
    {"swap-all", 2, swap_all},
    {"zero", 1, zero},
    {"repeat", 3, repeat},
    {"columns", 3, columns},
    {"flip", 3, flip},
    {"byte", 3, byte},
    {"config", 2, config},
    {"unset", 1, unset},
    {"json", 3, json},
    {"remove", 1, remove_file},
    {"side", 2, side},
    {"metadata", 2, metadata},
    {"no-index", 0, no_index},
    {"unindex", 1, unindex},
    {"unindex-all", 1, unindex_all},
    {"index", 2, index_to},
    {"lost", 1, lost},
    {"cut", 2, cut},
    {"append", 2, append},
    {"header", 3, header},
    {"file-byte", 3, file_byte},
    {"pages", 3, pages},
    {NULL, 0, NULL},
};

static const plant_command *command_of(const plant_command *list, const char *name)
{
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

static void run(folder *f, const char *text)
{
    plant_words w = {.count = 0};
    char *rest = folder_string(text), *copy_of = folder_string(text), *next = NULL;
    for (char *word = strtok_r(copy_of, " ", &next); word; word = strtok_r(NULL, " ", &next)) {
        if (w.count == PLANT_WORDS - 1)
            break; /* the rest is part of a value */
        w.word[w.count] = word;
        w.rest[w.count++] = rest + (word - copy_of);
    }
    if (w.count) {
        const plant_command *c = command_of(commands, w.word[0]);
        c = c ? c : command_of(plant_value_commands, w.word[0]);
        c = c ? c : command_of(plant_byte_commands, w.word[0]);
        if (!c || w.count <= c->words)
            fail_msg("no such command: %s", text);
        c->run(f, &w);
    }
    free(rest);
    free(copy_of);
}

void plant(folder *f, const char *text)
{
    char *all = folder_string(text), *next = NULL;
    for (char *one = strtok_r(all, ";", &next); one; one = strtok_r(NULL, ";", &next))
        run(f, one + strspn(one, " "));
    free(all);
}
