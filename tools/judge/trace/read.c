#include "tools/judge/trace/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <dirent.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "tools/judge/trace/level.h"
#include "tools/judge/trace/nothing.h"
#include "tools/judge/trace/prefix.h"
#include "tools/judge/trace/reader.h"

/* U-9: "A file that no step announces is refused, as is a missing one" */
static sb_status check_files(const sb_trace *t, sb_error *err)
{
    DIR *d = opendir(t->dir);
    sb_status status = SB_OK;
    if (!d)
        return sb_fail(err, SB_ERR_IO, "%s: cannot list this folder", SB_SHOW(t->dir));
    for (struct dirent *e = readdir(d); e && !status; e = readdir(d)) {
        if (!sb_trace_is_step(e->d_name))
            continue;
        uint64_t step = (uint64_t)strtoull(e->d_name + 5, NULL, 10);
        if (step >= t->count || !t->tensors[step] ||
            strcmp(sb_trace_file_name(step).text, e->d_name) != 0)
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s: has the file %s, but " SB_TRACE_LIST
                             " has no such step with tensors among its %zu",
                             SB_SHOW(t->dir), SB_SHOW(e->d_name), t->count);
    }
    closedir(d);
    return status;
}

static sb_status load_list(sb_trace *t, sb_error *err)
{
    struct stat found;
    unsigned char *bytes = NULL;
    size_t size = 0;
    char *path = sb_path_join(t->dir, SB_TRACE_LIST);
    sb_status status = path ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status && stat(path, &found) != 0)
        status = sb_trace_nothing(t->dir, err);
    if (!status)
        status = sb_read_file(path, SB_JSON_MAX_BYTES, &bytes, &size, err);
    if (!status)
        status = sb_trace_read_list((const char *)bytes, size, path, t, err);
    free(bytes);
    free(path);
    return status;
}

sb_status sb_trace_open(const char *dir, sb_trace **out, sb_error *err)
{
    sb_trace *t = sb_alloc(1, sizeof *t);
    if (t)
        t->dir = sb_strdup(dir);
    sb_status status =
        t && t->dir ? load_list(t, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory for a trace");
    if (!status)
        status = check_files(t, err);
    if (status) {
        sb_trace_close(t);
        return status;
    }
    t->head.level = t->claimed;
    *out = t;
    return SB_OK;
}

void sb_trace_close(sb_trace *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->steps && i < t->count; i++)
        sb_step_clear(&t->steps[i]);
    free(t->steps);
    free(t->tensors);
    free(t->dir);
    free(t);
}

const sb_trace_head *sb_trace_info(const sb_trace *trace)
{
    return &trace->head;
}

size_t sb_trace_steps(const sb_trace *trace)
{
    return trace->count;
}

size_t sb_trace_rows(const sb_trace *trace)
{
    return trace->rows;
}

const sb_step *sb_trace_outline(const sb_trace *trace, size_t i)
{
    return &trace->steps[i];
}

/* A copy of an array. */
static void *copy_of(const void *items, size_t count, size_t size)
{
    void *copy = sb_alloc(count, size);
    if (copy && count)
        memcpy(copy, items, count * size);
    return copy;
}

/* Copies the prefixes, too, with their tokens. */
static sb_status copy_prefixes(const sb_step *from, sb_step *out, sb_error *err)
{
    int whole = 1;
    for (size_t i = 0; i < from->prefix_count && whole; i++) {
        sb_step_prefix *prefix = sb_step_add_prefix(out);
        whole = prefix != NULL;
        if (!whole)
            break;
        *prefix = from->prefixes[i];
        if (prefix->tokens)
            prefix->tokens =
                copy_of(prefix->tokens, (size_t)prefix->position, sizeof *prefix->tokens);
        whole = prefix->tokens || !from->prefixes[i].tokens;
    }
    return whole ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
}

static sb_status copy_outline(const sb_step *from, sb_step *out, sb_error *err)
{
    *out = (sb_step){.number = from->number,
                     .rows = copy_of(from->rows, from->row_count, sizeof *from->rows),
                     .states = copy_of(from->states, from->state_count, sizeof *from->states),
                     .rounds = copy_of(from->rounds, from->round_count, sizeof *from->rounds)};
    if (from->logits_rows)
        out->logits_rows =
            copy_of(from->logits_rows, from->logits_count, sizeof *from->logits_rows);
    out->logits_count = from->logits_count;
    int whole = out->rows && out->states && out->rounds && (out->logits_rows || !from->logits_rows);
    if (from->sampling_count)
        out->samplings = copy_of(from->samplings, from->sampling_count, sizeof *from->samplings);
    whole = whole && (out->samplings || !from->sampling_count);
    out->sampling_count = out->samplings ? from->sampling_count : 0;
    if (out->rows)
        out->row_count = from->row_count;
    if (out->states)
        out->state_count = from->state_count;
    if (out->rounds)
        out->round_count = from->round_count;
    return whole ? copy_prefixes(from, out, err)
                 : sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
}

sb_status sb_trace_step(const sb_trace *t, size_t i, sb_step *out, sb_error *err)
{
    sb_map map = {.size = 0};
    sb_status status = copy_outline(&t->steps[i], out, err);
    char *path = sb_path_join(t->dir, sb_trace_file_name(i).text);
    if (!status && !path)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
    if (!status && t->tensors[i]) {
        status = sb_map_open(path, &map, err);
        if (!status) {
            status = sb_trace_read_arrays(t, i, map.data, map.size, path, out, err);
            sb_map_close(&map);
        }
    }
    free(path);
    if (status)
        sb_step_clear(out);
    return status;
}

/* For each sequence, the number of its last step, counted from 1; 0: none. */
static void find_ends(const sb_trace *t, size_t *last)
{
    for (size_t i = 0; i < t->count; i++) {
        const sb_step *step = sb_trace_outline(t, i);
        for (size_t k = 0; k < step->row_count; k++)
            last[step->rows[k].sequence] = i + 1;
        for (size_t k = 0; k < step->state_count; k++)
            last[step->states[k].sequence] = i + 1;
    }
}

/* Adds a sequence, once, to the sequences that end with step i, if i is its last step. */
static sb_status add_end(size_t *last, size_t i, uint32_t sequence, sb_step *step)
{
    if (last[sequence] != i + 1)
        return SB_OK;
    last[sequence] = 0;
    return sb_step_add_ended(step, sequence);
}

static sb_status add_ends(size_t *last, size_t i, sb_step *step, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t k = 0; k < step->row_count && !status; k++)
        status = add_end(last, i, step->rows[k].sequence, step);
    for (size_t k = 0; k < step->state_count && !status; k++)
        status = add_end(last, i, step->states[k].sequence, step);
    return status ? sb_fail(err, status, "out of memory for a step") : SB_OK;
}

/* Passes on the steps that fed the prefix of a sequence, cut to its rows. */
static sb_status feed_again(const sb_trace *t, size_t before, const sb_step_prefix *prefix,
                            sb_step_fn take, void *ctx, sb_error *err)
{
    sb_prefix_part *parts = NULL;
    size_t count = 0;
    sb_status status = sb_prefix_plan(t->steps, before, prefix, &parts, &count, err);
    for (size_t i = 0; i < count && !status; i++) {
        sb_step whole, step;
        status = sb_trace_step(t, parts[i].step, &whole, err);
        if (!status)
            status = sb_prefix_step(&whole, &parts[i], prefix->sequence, &step, err);
        if (status)
            break;
        status = take(ctx, &step, err);
        sb_prefix_step_free(&step);
        sb_step_clear(&whole);
    }
    free(parts);
    return status;
}

static sb_status play(const sb_trace *t, int with_prefixes, sb_step_fn take, void *ctx,
                      sb_error *err)
{
    size_t *last = sb_alloc(SB_TRACE_MAX_SEQUENCES, sizeof *last);
    if (!last)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a trace");
    sb_status status = SB_OK;
    find_ends(t, last);
    for (size_t i = 0; i < t->count && !status; i++) {
        sb_step step;
        for (size_t k = 0; k < t->steps[i].prefix_count && with_prefixes && !status; k++)
            status = feed_again(t, i, &t->steps[i].prefixes[k], take, ctx, err);
        if (status)
            break;
        status = sb_trace_step(t, i, &step, err);
        if (!status)
            status = add_ends(last, i, &step, err);
        if (!status)
            status = take(ctx, &step, err);
        sb_step_clear(&step);
    }
    free(last);
    return status;
}

sb_status sb_trace_play(const sb_trace *t, sb_step_fn take, void *ctx, sb_error *err)
{
    return play(t, 0, take, ctx, err);
}

sb_status sb_trace_play_again(const sb_trace *t, sb_step_fn take, void *ctx, sb_error *err)
{
    return play(t, 1, take, ctx, err);
}
