/* dump.c - the list of readers, and reading with one of them. */
#include "tools/dump/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/judge/trace/names.h"

#define SB_DUMP(name, what) extern const sb_dump_reader sb_dump_##name;
#include "tools/dump/dumps.def"
#undef SB_DUMP

static const sb_dump_reader *const readers[] = {
#define SB_DUMP(name, what) &sb_dump_##name,
#include "tools/dump/dumps.def"
#undef SB_DUMP
    NULL};

struct sb_dump {
    const sb_dump_reader *reader;
    void *state;
    sb_trace_head head;
    const sb_config *config;
    char *path;
};

size_t sb_dump_count(void)
{
    return sizeof readers / sizeof *readers - 1;
}

const sb_dump_reader *sb_dump_at(size_t i)
{
    return readers[i];
}

const sb_dump_reader *sb_dump_find(const char *path)
{
    for (size_t i = 0; i < sb_dump_count(); i++)
        if (readers[i]->is(path))
            return readers[i];
    return NULL;
}

static const sb_dump_reader *named(const char *name)
{
    for (size_t i = 0; i < sb_dump_count(); i++)
        if (strcmp(readers[i]->name, name) == 0)
            return readers[i];
    return NULL;
}

static sb_status no_reader(const char *name, sb_error *err)
{
    char names[512] = "";
    for (size_t i = 0, used = 0; i < sb_dump_count() && used < sizeof names; i++) {
        int n =
            snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", readers[i]->name);
        used += n > 0 ? (size_t)n : sizeof names;
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no kind of file '%s'; there are: %s", SB_SHOW(name),
                   names);
}

sb_status sb_dump_open(const char *path, const sb_dump_options *options, sb_dump **out,
                       sb_error *err)
{
    const sb_dump_reader *reader = options->as ? named(options->as) : sb_dump_find(path);
    if (!reader && options->as)
        return no_reader(options->as, err);
    if (!reader)
        return sb_fail(err, SB_ERR_USAGE, "%s: not a known kind of file", SB_SHOW(path));
    if (options->map && !reader->mapped)
        return sb_fail(err, SB_ERR_USAGE,
                       "--map has no effect here: %s is read as %s, which has no named arrays",
                       SB_SHOW(path), reader->name);
    sb_dump *dump = sb_alloc(1, sizeof *dump);
    if (!dump)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a dump");
    dump->reader = reader;
    dump->config = options->config;
    dump->path = sb_strdup(path);
    if (!dump->path) {
        free(dump);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a dump");
    }
    dump->head.vocab_size = options->vocab_size;
    sb_status status = reader->open(path, options, &dump->head, &dump->state, err);
    if (status) {
        sb_dump_close(dump);
        return status;
    }
    if (!dump->head.engine[0])
        snprintf(dump->head.engine, sizeof dump->head.engine, "%s", reader->name);
    *out = dump;
    return SB_OK;
}

void sb_dump_close(sb_dump *dump)
{
    if (!dump)
        return;
    dump->reader->close(dump->state);
    free(dump->path);
    free(dump);
}

const sb_trace_head *sb_dump_info(const sb_dump *dump)
{
    return &dump->head;
}

/* The state of passing on steps, which get their numbers here. */
typedef struct counted {
    const sb_dump *dump;
    sb_step_fn take;
    void *ctx;
    uint64_t next;
} counted;

/* J-12: "An array that has another width than the model gives its tap is refused" - otherwise it
 * would silently not be compared. */
static sb_status check_width(const sb_dump *d, const sb_step_value *v, sb_error *err)
{
    sb_tap_name tap;
    int exists = 0;
    if (!d->config || !sb_tap_find(v->name, &tap))
        return SB_OK;
    uint32_t width = sb_tap_width(&tap, d->config, &exists);
    if (!exists)
        return sb_fail(err, SB_ERR_INPUT, "%s: %s: this model has no such tap", SB_SHOW(d->path),
                       SB_SHOW(v->name));
    if (width && v->cols != width)
        return sb_fail(err, SB_ERR_INPUT, "%s: %s has %zu columns, expected %u", SB_SHOW(d->path),
                       SB_SHOW(v->name), v->cols, (unsigned)width);
    return SB_OK;
}

/* Ids and their values must have the same width. */
static sb_status check_pair(const sb_dump *d, const sb_step *step, const char *ids,
                            const char *values, sb_error *err)
{
    const sb_step_value *a = sb_step_find(&step->taps, ids), *b = sb_step_find(&step->taps, values);
    if ((!a && !b) || (a && b && a->cols == b->cols && a->rows == b->rows))
        return SB_OK;
    return sb_fail(
        err, SB_ERR_INPUT,
        "%s: %s and %s belong together but have %zu and %zu columns; expected equal numbers",
        SB_SHOW(d->path), ids, values, a ? a->cols : 0, b ? b->cols : 0);
}

static sb_status take_checked(void *ctx, const sb_step *step, sb_error *err)
{
    counted *c = ctx;
    sb_step one = *step;
    sb_status status = check_pair(c->dump, step, "top_ids", "top_logprobs", err);
    if (!status)
        status = check_pair(c->dump, step, "next_ids", "next_logprobs", err);
    for (size_t i = 0; i < step->taps.count && !status; i++)
        status = check_width(c->dump, &step->taps.items[i], err);
    one.number = c->next++;
    return status ? status : c->take(c->ctx, &one, err);
}

sb_status sb_dump_play(const sb_dump *dump, sb_step_fn take, void *ctx, sb_error *err)
{
    counted c = {dump, take, ctx, 0};
    return dump->reader->play(dump->state, take_checked, &c, err);
}
