#include "tools/report/check/folder_map.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

/* Larger numbers in names are no layers. */
enum { MAX_LAYERS = 4096 };

/* --- places ----------------------------------------------------------------------------------- */

static int begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* N of the part "layers.N" of a name, or MAX_LAYERS. */
static uint32_t layer_of(const char *name)
{
    static const char part[] = "layers.";
    const char *at = strstr(name, part);
    uint32_t n = 0;
    if (!at || (at != name && at[-1] != '.'))
        return MAX_LAYERS;
    at += sizeof part - 1;
    if (*at < '0' || *at > '9')
        return MAX_LAYERS;
    for (; *at >= '0' && *at <= '9' && n < MAX_LAYERS; at++)
        n = 10 * n + (uint32_t)(*at - '0');
    return (*at == '.' || !*at) && n < MAX_LAYERS ? n : MAX_LAYERS;
}

sb_folder_place sb_folder_place_of(const char *name)
{
    uint32_t layer = layer_of(name);
    if (begins(name, "mtp.") || strstr(name, ".mtp."))
        return (sb_folder_place){SB_FOLDER_mtp, 0};
    if (begins(name, "visual.") || strstr(name, ".visual."))
        return (sb_folder_place){SB_FOLDER_vision, 0};
    if (layer < MAX_LAYERS)
        return (sb_folder_place){SB_FOLDER_layer, layer};
    if (strstr(name, "embed_tokens"))
        return (sb_folder_place){SB_FOLDER_embed, 0};
    if (begins(name, "lm_head") || strstr(name, ".lm_head") || begins(name, "norm.") ||
        strstr(name, ".norm."))
        return (sb_folder_place){SB_FOLDER_head, 0};
    return (sb_folder_place){SB_FOLDER_other, 0};
}

sb_folder_text sb_folder_place_text(sb_folder_place place)
{
    static const char *const names[] = {"embedding", "layer",  "output",
                                        "MTP head",  "vision", "other"};
    sb_folder_text out;
    if (place.part == SB_FOLDER_layer)
        snprintf(out.text, sizeof out.text, "layer %u", (unsigned)place.layer);
    else
        snprintf(out.text, sizeof out.text, "%s", names[place.part]);
    return out;
}

sb_folder_text sb_folder_place_short(sb_folder_place place)
{
    static const char *const names[] = {"embed", "", "output", "MTP", "vision", "other"};
    sb_folder_text out;
    if (place.part == SB_FOLDER_layer)
        snprintf(out.text, sizeof out.text, "%u", (unsigned)place.layer);
    else
        snprintf(out.text, sizeof out.text, "%s", names[place.part]);
    return out;
}

/* --- rows and columns ------------------------------------------------------------------------- */

typedef struct maker {
    const sb_report *report;
    const sb_checkpoint *checkpoint;
    const sb_index *index;
    sb_folder_map *map;
    uint32_t layers;
    int has[SB_FOLDER_PARTS];
    int lost_is_bad; /* what the index names and is not there is damage */
} maker;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_files(maker *m)
{
    sb_folder_map *map = m->map;
    size_t own = sb_checkpoint_shards(m->checkpoint), more = m->index ? m->index->shard_count : 0;
    map->files = sb_alloc(own + more, sizeof *map->files);
    if (!map->files)
        return 0;
    for (size_t i = 0; i < own; i++)
        map->files[i] = sb_checkpoint_shard_name(m->checkpoint, (uint32_t)i);
    for (size_t i = 0; i < more; i++)
        map->files[own + i] = m->index->shards[i].name;
    qsort(map->files, own + more, sizeof *map->files, by_name);
    for (size_t i = 0; i < own + more; i++)
        if (!i || strcmp(map->files[i], map->files[map->file_count - 1]) != 0)
            map->files[map->file_count++] = map->files[i];
    return 1;
}

static void meet(maker *m, const char *name)
{
    sb_folder_place p = sb_folder_place_of(name);
    m->has[p.part] = 1;
    if (p.part == SB_FOLDER_layer && p.layer >= m->layers)
        m->layers = p.layer + 1;
}

static int list_places(maker *m)
{
    sb_folder_map *map = m->map;
    const sb_findings *f = &m->report->check->findings;
    for (size_t i = 0; i < sb_checkpoint_count(m->checkpoint); i++)
        meet(m, sb_checkpoint_at(m->checkpoint, i)->name);
    for (size_t i = 0; m->index && i < m->index->count; i++)
        meet(m, m->index->entries[i].tensor);
    for (size_t i = 0; i < f->count; i++)
        if (*f->rows[i].tensor)
            meet(m, f->rows[i].tensor);
    for (size_t i = 0; i < f->place_count; i++)
        meet(m, f->places[i].tensor);
    map->places = sb_alloc((size_t)m->layers + SB_FOLDER_PARTS, sizeof *map->places);
    if (!map->places)
        return 0;
    m->has[SB_FOLDER_other] |= !m->layers; /* findings about no tensor need a column, too */
    for (int part = 0; part < SB_FOLDER_PARTS; part++) {
        map->first[part] = map->place_count;
        for (uint32_t i = 0; i < (part == SB_FOLDER_layer ? m->layers : m->has[part] != 0); i++)
            map->places[map->place_count++] = (sb_folder_place){(sb_folder_part)part, i};
    }
    return 1;
}

static size_t over(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Two rows may follow those of the files. */
static int make_cells(sb_folder_map *map, sb_folder_limits most)
{
    map->per_row = over(map->file_count, most.rows - 2);
    map->file_rows = over(map->file_count, map->per_row);
    if (most.columns > most.fields / (map->file_rows + 2))
        most.columns = most.fields / (map->file_rows + 2);
    map->per_column = over(map->place_count, most.columns);
    map->columns = over(map->place_count, map->per_column);
    map->cells = sb_alloc((map->file_rows + 2) * map->columns, sizeof *map->cells);
    return map->cells != NULL;
}

/* The row of a file; that of tensors in no file for a file that is not in the list. */
static size_t row_of(const sb_folder_map *map, const char *file)
{
    const char **at = bsearch(&file, map->files, map->file_count, sizeof *map->files, by_name);
    return at ? (size_t)(at - map->files) / map->per_row : map->file_rows;
}

static sb_folder_cell *cell_of(const sb_folder_map *map, size_t row, const char *tensor)
{
    sb_folder_place p = sb_folder_place_of(tensor);
    return &map->cells[row * map->columns + (map->first[p.part] + p.layer) / map->per_column];
}

static void worsen(sb_folder_cell *cell, sb_folder_state state)
{
    cell->state = state > cell->state ? state : cell->state;
}

static void place_tensors(const maker *m)
{
    for (size_t i = 0; i < sb_checkpoint_count(m->checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(m->checkpoint, i);
        const char *file = sb_checkpoint_shard_name(m->checkpoint, t->shard);
        sb_folder_cell *cell = cell_of(m->map, row_of(m->map, file), t->name);
        cell->tensors++;
        worsen(cell, SB_FOLDER_sound);
    }
    for (size_t i = 0; m->index && i < m->index->count; i++) {
        const sb_index_entry *e = &m->index->entries[i];
        if (sb_checkpoint_find(m->checkpoint, e->tensor))
            continue;
        sb_folder_cell *cell = cell_of(m->map, row_of(m->map, e->shard_name), e->tensor);
        cell->missing++;
        worsen(cell, m->lost_is_bad ? SB_FOLDER_bad : SB_FOLDER_waived);
    }
}

/* --- findings --------------------------------------------------------------------------------- */

static sb_folder_state state_of(const sb_finding *f)
{
    return f->waived                    ? SB_FOLDER_waived
           : f->level >= SB_LEVEL_error ? SB_FOLDER_bad
           : f->level == SB_LEVEL_warn  ? SB_FOLDER_warn
                                        : SB_FOLDER_none;
}

static void mark(const sb_folder_map *map, size_t row, const char *tensor, const sb_finding *f)
{
    sb_folder_cell *cell = cell_of(map, row, tensor);
    cell->findings += !f->waived;
    worsen(cell, state_of(f));
}

/* 1 if the name is that of a tensor or of a layer with this tensor. */
static int is_of(const char *tensor, const char *name, size_t n)
{
    return strncmp(tensor, name, n) == 0 && (tensor[n] == '.' || !tensor[n]);
}

/* The first tensor, or entry of the index, that is not before the name. */
static size_t first_tensor(const maker *m, const char *name)
{
    size_t low = 0, high = sb_checkpoint_count(m->checkpoint);
    while (low < high) {
        size_t i = low + (high - low) / 2;
        if (strcmp(sb_checkpoint_at(m->checkpoint, i)->name, name) < 0)
            low = i + 1;
        else
            high = i;
    }
    return low;
}

static size_t first_entry(const sb_index *index, const char *name)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t i = low + (high - low) / 2;
        if (strcmp(index->entries[i].tensor, name) < 0)
            low = i + 1;
        else
            high = i;
    }
    return low;
}

/* Marks the cell of a tensor, once for tensors of one cell that follow each other. */
static void mark_once(const maker *m, const char *file, const char *tensor, const sb_finding *f,
                      const sb_folder_cell **last)
{
    size_t row = row_of(m->map, file);
    if (cell_of(m->map, row, tensor) != *last)
        mark(m->map, row, tensor, f);
    *last = cell_of(m->map, row, tensor);
}

/* Marks every tensor of the layer; returns 0 if there is none. */
static int mark_tensors(const maker *m, const sb_finding *f, const char *name)
{
    size_t n = strlen(name), marked = 0;
    const sb_folder_cell *last = NULL;
    for (size_t i = first_tensor(m, name); i < sb_checkpoint_count(m->checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(m->checkpoint, i);
        if (strncmp(t->name, name, n) != 0)
            break;
        if (!is_of(t->name, name, n))
            continue;
        mark_once(m, sb_checkpoint_shard_name(m->checkpoint, t->shard), t->name, f, &last);
        marked++;
    }
    return marked != 0;
}

/* The same for tensors that only the index has. */
static int mark_entries(const maker *m, const sb_finding *f)
{
    size_t n = strlen(f->tensor), marked = 0;
    const sb_folder_cell *last = NULL;
    for (size_t i = m->index ? first_entry(m->index, f->tensor) : 0;
         m->index && i < m->index->count; i++) {
        const sb_index_entry *e = &m->index->entries[i];
        if (strncmp(e->tensor, f->tensor, n) != 0)
            break;
        if (!is_of(e->tensor, f->tensor, n))
            continue;
        mark_once(m, e->shard_name, e->tensor, f, &last);
        marked++;
    }
    return marked != 0;
}

/* A matrix of a stack of experts has no tensor of its own: the stack's tensors are marked. */
static int mark_member(const maker *m, const sb_finding *f)
{
    const sb_units *units = &m->report->check->self.units;
    const char *plain = f->tensor;
    if (begins(plain, units->prefix))
        plain += strlen(units->prefix);
    const sb_member *member = sb_member_plain(units, plain);
    return member && member->unit && mark_tensors(m, f, member->unit->name);
}

/* Marks the file with whose name the message begins, or no file: the folder as a whole. */
static void mark_whole(const maker *m, const sb_finding *f)
{
    const sb_folder_map *map = m->map;
    size_t row = map->file_rows + 1;
    for (size_t i = 0; i < map->file_count; i++) {
        const char *name = SB_SHOW(map->files[i]);
        size_t n = strlen(name);
        if (strncmp(f->message, name, n) == 0 && f->message[n] == ':')
            row = i / map->per_row;
    }
    for (size_t i = 0; i < map->columns; i++) {
        sb_folder_cell *cell = &map->cells[row * map->columns + i];
        if (row < map->file_rows && !cell->state)
            continue;
        cell->findings += !f->waived;
        worsen(cell, state_of(f));
    }
}

static void mark_finding(const maker *m, const sb_finding *f)
{
    if (f->level < SB_LEVEL_warn)
        return;
    if (!*f->tensor)
        mark_whole(m, f);
    else if (!mark_tensors(m, f, f->tensor) && !mark_member(m, f) && !mark_entries(m, f))
        mark(m->map, m->map->file_rows, f->tensor, f);
}

/* --- the map ---------------------------------------------------------------------------------- */

static int is_used(const sb_folder_map *map, size_t row)
{
    for (size_t i = 0; i < map->columns; i++)
        if (map->cells[row * map->columns + i].state)
            return 1;
    return 0;
}

static int fill(maker *m, sb_folder_limits most)
{
    const sb_findings *f = &m->report->check->findings;
    sb_folder_map *map = m->map;
    if (!list_files(m) || !list_places(m) || !make_cells(map, most))
        return 0;
    place_tensors(m);
    for (size_t i = 0; i < f->count; i++)
        mark_finding(m, &f->rows[i]);
    for (size_t i = 0; i < f->place_count; i++)
        mark_finding(m, &f->places[i]);
    map->rows = map->file_rows;
    for (size_t i = 0; i < 2; i++)
        if (is_used(map, map->file_rows + i))
            map->extra[map->rows++ - map->file_rows] = i;
    return 1;
}

sb_status sb_folder_map_make(const sb_report *report, sb_folder_limits most, sb_folder_map *out,
                             sb_error *err)
{
    const sb_report_check *files = &report->checks[2];
    *out = (sb_folder_map){.files = NULL};
    maker m = {.report = report,
               .checkpoint = report->check->self.checkpoint,
               .index = sb_checkpoint_index(report->check->self.checkpoint),
               .map = out,
               .lost_is_bad = files->level[SB_LEVEL_error] + files->level[SB_LEVEL_fatal] > 0};
    if (fill(&m, most))
        return SB_OK;
    sb_folder_map_free(out);
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the map of the folder");
}

void sb_folder_map_free(sb_folder_map *map)
{
    free(map->files);
    free(map->places);
    free(map->cells);
    *map = (sb_folder_map){.files = NULL};
}

const sb_folder_cell *sb_folder_cell_at(const sb_folder_map *map, size_t row, size_t column)
{
    if (row >= map->file_rows)
        row = map->file_rows + map->extra[row - map->file_rows];
    return &map->cells[row * map->columns + column];
}

const char *sb_folder_row_name(const sb_folder_map *map, size_t row, size_t *more)
{
    *more = 0;
    if (row >= map->file_rows)
        return map->extra[row - map->file_rows] ? "the folder" : "in no file";
    size_t first = row * map->per_row, left = map->file_count - first;
    *more = (left < map->per_row ? left : map->per_row) - 1;
    return map->files[first];
}

sb_folder_place sb_folder_first(const sb_folder_map *map, size_t column)
{
    return map->places[column * map->per_column];
}

sb_folder_place sb_folder_last(const sb_folder_map *map, size_t column)
{
    size_t end = (column + 1) * map->per_column;
    return map->places[(end < map->place_count ? end : map->place_count) - 1];
}
