#include "tools/check/judge/held_by.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/container/checkpoint_parts.h"
#include "ref/container/file.h"
#include "ref/container/overlay.h"
#include "ref/container/show.h"
#include "ref/model/layers.h"
#include "tools/check/read/word.h"

/* --- files ------------------------------------------------------------------------------------ */

int sb_file_is_open(const sb_checkpoint *c, const char *file)
{
    size_t from = 0, to = sb_checkpoint_own_shards(c);
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(sb_checkpoint_shard_name(c, (uint32_t)middle), file);
        if (order == 0)
            return 1;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return 0;
}

sb_file_state sb_file_state_of(const sb_checkpoint *c, const char *file)
{
    struct stat info;
    if (sb_file_is_open(c, file))
        return SB_FILE_OPEN;
    char *path = sb_path_join(sb_checkpoint_folder(c), file);
    int there = path && lstat(path, &info) == 0;
    free(path);
    return there ? SB_FILE_UNREADABLE : SB_FILE_MISSING;
}

int sb_file_is_named(const sb_check *check, const char *file)
{
    const sb_index *index = sb_checkpoint_index(check->self.checkpoint);
    return index ? sb_index_has_shard(index, file) : strcmp(file, SB_SINGLE_NAME) == 0;
}

/* Returns 0 if there is no room; then nothing is appended. */
static int append(char *text, size_t size, const char *format, ...) SB_PRINTF(3, 4);
static int append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + used, size - used, format, args);
    va_end(args);
    if (more >= 0 && (size_t)more < size - used)
        return 1;
    text[used] = '\0';
    return 0;
}

size_t sb_files_in_state(const sb_check *check, sb_file_state state, sb_files_text *text)
{
    const sb_index *index = sb_checkpoint_index(check->self.checkpoint);
    const char *last = "";
    size_t count = 0;
    int fits = 1;
    *text = (sb_files_text){"", ""};
    for (size_t i = 0; index && i < index->shard_count; i++) {
        const char *name = index->shards[i].name;
        if (sb_file_state_of(check->self.checkpoint, name) != state)
            continue;
        last = name;
        if (count++ < 4)
            append(text->names, sizeof text->names, "%s%s", count > 1 ? ", " : "", SB_SHOW(name));
        fits &= append(text->patterns, sizeof text->patterns, " --include %s", SB_QUOTED(name));
    }
    if (!fits)
        text->patterns[0] = '\0';
    if (count > 4)
        append(text->names, sizeof text->names, " and %zu more, to %s", count - 4, SB_SHOW(last));
    return count;
}

/* --- what files hold -------------------------------------------------------------------------- */

enum { KINDS = 64, KIND_TEXT = 48 };

typedef struct tally {
    char kind[KINDS][KIND_TEXT];
    size_t modules[KINDS];
    size_t kinds, others; /* others: modules of all other kinds */
    size_t tensors, mtp;
    char last[SB_MAX_TENSOR_NAME]; /* the module of the last tensor */
    uint32_t first_layer, last_layer;
    int has_layer;
} tally;

/* Writes the kind of a module. The MTP head is one kind, and the vision tower another. */
static void kind_of(const char *module, char *kind, size_t size)
{
    char full[SB_MAX_TENSOR_NAME];
    sb_layer_kind(module, full, sizeof full);
    if (strncmp(full, "mtp.", 4) == 0)
        snprintf(full, sizeof full, "mtp.*");
    else if (strncmp(full, "visual.", 7) == 0)
        snprintf(full, sizeof full, "visual.*");
    snprintf(kind, size, "%.40s", full);
}

static void add_kind(tally *t, const char *kind)
{
    for (size_t i = 0; i < t->kinds; i++)
        if (strcmp(t->kind[i], kind) == 0) {
            t->modules[i]++;
            return;
        }
    if (t->kinds == KINDS) {
        t->others++;
        return;
    }
    snprintf(t->kind[t->kinds], KIND_TEXT, "%s", kind);
    t->modules[t->kinds++] = 1;
}

static void add_tensor(tally *t, const char *name)
{
    char module[SB_MAX_TENSOR_NAME], kind[KIND_TEXT];
    const char *at = strstr(name, "layers.");
    t->tensors++;
    t->mtp += strncmp(name, "mtp.", 4) == 0;
    if (!sb_layer_of(name, module, sizeof module))
        snprintf(module, sizeof module, "%s", name);
    if (strcmp(module, t->last) == 0)
        return;
    memcpy(t->last, module, strlen(module) + 1);
    kind_of(module, kind, sizeof kind);
    add_kind(t, kind);
    if (!at || strcmp(kind, "mtp.*") == 0)
        return;
    uint32_t layer = (uint32_t)strtoul(at + strlen("layers."), NULL, 10);
    if (!t->has_layer || layer < t->first_layer)
        t->first_layer = layer;
    if (!t->has_layer || layer > t->last_layer)
        t->last_layer = layer;
    t->has_layer = 1;
}

/* The next kind to report: the head first, then the kinds with the most modules. */
static size_t next_kind(const tally *t)
{
    size_t best = 0;
    for (size_t i = 1; i < t->kinds; i++)
        if (t->modules[best] == 0 || (t->modules[i] && strcmp(t->kind[i], "mtp.*") == 0) ||
            (t->modules[i] > t->modules[best] && strcmp(t->kind[best], "mtp.*") != 0))
            best = i;
    return best;
}

static void write_tally(tally *t, sb_held_by *out)
{
    *out = (sb_held_by){.tensors = t->tensors, .mtp = t->mtp};
    for (size_t i = 0; i < t->kinds; i++) {
        size_t k = next_kind(t);
        if (strlen(out->text) + 130 < sizeof out->text)
            append(out->text, sizeof out->text, "%s%s %zu",
                   i ? ", " : "modules: ", SB_SHOW(t->kind[k]), t->modules[k]);
        else
            t->others += t->modules[k];
        t->modules[k] = 0;
    }
    if (t->others)
        append(out->text, sizeof out->text, ", other modules: %zu", t->others);
    if (t->has_layer)
        append(out->text, sizeof out->text, ", in layers %u to %u", (unsigned)t->first_layer,
               (unsigned)t->last_layer);
}

void sb_held_by_files(const sb_check *check, sb_file_state state, sb_held_by *out)
{
    const sb_index *index = sb_checkpoint_index(check->self.checkpoint);
    tally t = {.kinds = 0};
    uint32_t known = UINT32_MAX;
    int yes = 0;
    for (size_t i = 0; index && i < index->count; i++) {
        const sb_index_entry *e = &index->entries[i];
        if (e->shard != known) /* neighbours are mostly in the same file */
            yes = sb_file_state_of(check->self.checkpoint, e->shard_name) == state;
        known = e->shard;
        if (yes)
            add_tensor(&t, e->tensor);
    }
    write_tally(&t, out);
}

void sb_held_by_shard(const sb_check *check, uint32_t shard, sb_held_by *out)
{
    const sb_checkpoint *c = check->self.checkpoint;
    tally t = {.kinds = 0};
    for (size_t i = 0; i < sb_checkpoint_count(c); i++)
        if (sb_checkpoint_at(c, i)->shard == shard)
            add_tensor(&t, sb_checkpoint_at(c, i)->name);
    write_tally(&t, out);
}
