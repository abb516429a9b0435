#include "tools/cli/diff_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/judge/fault/planted.h"
#include "tools/judge/trace/trace_file.h"

int sb_plant_find(const char *name, sb_plant *plant)
{
    /* samebit fault --list shows the names with their kind */
    static const char *const kinds[] = {"mistake.", "op."};
    for (size_t i = 0; i < 2; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0) {
            name += strlen(kinds[i]);
            break;
        }
    const sb_planted *const lists[] = {sb_mistakes, sb_op_faults, sb_specials};
    *plant = (sb_plant){.layer = SB_EVERY_LAYER};
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !plant->fault; i++)
        plant->fault = sb_planted_find(lists[i], name);
    return plant->fault && (plant->fault->plant || plant->fault->run);
}

static sb_status plant(sb_side *side, const char *name, sb_error *err)
{
    side->has_fault = sb_plant_find(name, &side->plant);
    if (side->has_fault)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "--engine: there is no mistake '%s' for engines; expected a mistake.* or op.* "
                   "name of samebit fault --list",
                   SB_SHOW(name));
}

/* Copies the part before "+MISTAKE"; returns 0 if it is too long for a name. */
static int engine_name(const char *spec, char name[64])
{
    size_t n = strcspn(spec, "+");
    if (n >= 64)
        return 0;
    memcpy(name, spec, n);
    name[n] = '\0';
    return 1;
}

static sb_status open_live(sb_side *side, sb_error *err)
{
    char name[64];
    side->kind = SB_SIDE_live;
    engine_name(side->spec, name);
    sb_status status = sb_runner_find(name, &side->runner, err);
    const char *mistake = strchr(side->spec, '+');
    return status || !mistake ? status : plant(side, mistake + 1, err);
}

int sb_side_is_live(const char *spec)
{
    char name[64];
    return engine_name(spec, name) && sb_runner_is(name);
}

static sb_status nothing(const char *spec, sb_error *err)
{
    return sb_fail(err, SB_ERR_USAGE,
                   "engine '%s' is not known; expected ref, emu, gpu, sim:NAME, a trace folder, a "
                   "file of another program (samebit trace --kinds) or a file of token ids",
                   SB_SHOW(spec));
}

sb_status sb_side_open(const char *spec, const sb_dumped *dumped, sb_side *side, sb_error *err)
{
    struct stat st;
    *side = (sb_side){.spec = spec};
    if (sb_side_is_live(spec) && dumped->as)
        return sb_fail(err, SB_ERR_USAGE, "--as applies to files, but '%s' is an engine",
                       SB_SHOW(spec));
    if (sb_side_is_live(spec))
        return open_live(side, err);
    if (stat(spec, &st) != 0)
        return nothing(spec, err);
    if (sb_dumped_is(dumped, spec))
        side->kind = SB_SIDE_dump;
    else
        side->kind = S_ISDIR(st.st_mode) ? SB_SIDE_trace : SB_SIDE_ids;
    return side->kind == SB_SIDE_trace ? sb_trace_open(spec, &side->trace, err) : SB_OK;
}

sb_status sb_side_open_dump(sb_side *side, sb_dumped *dumped, const sb_model *model,
                            const char *folder, sb_error *err)
{
    if (side->kind != SB_SIDE_dump)
        return SB_OK;
    return sb_dumped_open(dumped, side->spec, &model->config, folder, &side->dump, err);
}

int sb_side_recorded(const sb_side *side)
{
    return side->kind == SB_SIDE_trace || side->kind == SB_SIDE_dump;
}

int sb_side_alike(const sb_side *a, const sb_side *b)
{
    return a->kind == b->kind || (sb_side_recorded(a) && sb_side_recorded(b));
}

sb_status sb_side_play(const sb_side *side, sb_step_fn take, void *ctx, sb_error *err)
{
    return side->dump ? sb_dump_play(side->dump, take, ctx, err)
                      : sb_trace_play_again(side->trace, take, ctx, err);
}

void sb_side_close(sb_side *side)
{
    sb_trace_close(side->trace);
    sb_dump_close(side->dump);
    if (side->has_fault)
        sb_plant_clear(&side->plant);
    *side = (sb_side){.spec = ""};
}

int sb_side_is_reference(const sb_side *side)
{
    if (side->kind == SB_SIDE_live)
        return side->runner.backend == sb_backend_ref() && !side->has_fault;
    return side->trace && strcmp(sb_trace_info(side->trace)->engine, "samebit ref") == 0;
}

const sb_arithmetic *sb_side_arithmetic(const sb_side *side)
{
    if (side->kind == SB_SIDE_live)
        return sb_runner_arithmetic(&side->runner);
    return sb_side_is_reference(side) ? &sb_arithmetic_reference : &sb_arithmetic_library;
}

/* True if both folders have a file of this name with the same bytes. */
static int same_bytes(const char *a, const char *b, const char *name)
{
    const char *const folders[2] = {a, b};
    unsigned char *bytes[2] = {NULL, NULL};
    size_t count[2] = {0, 0};
    sb_status status = SB_OK;
    for (int i = 0; i < 2 && !status; i++) {
        size_t room = strlen(folders[i]) + strlen(name) + 2;
        char *path = malloc(room);
        if (!path)
            break;
        snprintf(path, room, "%s/%s", folders[i], name);
        status = sb_read_file(path, SIZE_MAX, &bytes[i], &count[i], NULL);
        free(path);
    }
    int same =
        bytes[0] && bytes[1] && count[0] == count[1] && memcmp(bytes[0], bytes[1], count[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

static int same_traces(const sb_side *a, const sb_side *b)
{
    size_t steps = sb_trace_steps(a->trace);
    int same = same_bytes(a->spec, b->spec, SB_TRACE_LIST);
    for (size_t i = 0; i < steps && same; i++)
        same = same_bytes(a->spec, b->spec, sb_trace_file_name(i).text);
    return same;
}

int sb_side_same(const sb_side *a, const sb_side *b)
{
    struct stat first, second;
    if (a->kind != b->kind)
        return 0;
    if (a->kind == SB_SIDE_live || strcmp(a->spec, b->spec) == 0)
        return strcmp(a->spec, b->spec) == 0;
    if (stat(a->spec, &first) == 0 && stat(b->spec, &second) == 0 &&
        first.st_dev == second.st_dev && first.st_ino == second.st_ino)
        return 1;
    return a->kind == SB_SIDE_trace && same_traces(a, b);
}

sb_status sb_side_check(const sb_side *side, const sb_model *model, int *unknown, sb_error *err)
{
    sb_digest own;
    *unknown = 1;
    if (!sb_side_recorded(side))
        return SB_OK;
    const sb_trace_head *head = side->dump ? sb_dump_info(side->dump) : sb_trace_info(side->trace);
    if (head->vocab_size && head->vocab_size != model->config.vocab_size)
        return sb_fail(err, SB_ERR_INPUT, "%s: the vocabulary has %u ids, but %u in the checkpoint",
                       SB_SHOW(side->spec), (unsigned)head->vocab_size,
                       (unsigned)model->config.vocab_size);
    if (!*head->checkpoint.hex)
        return SB_OK;
    *unknown = 0;
    sb_status status = sb_checkpoint_digest(model->checkpoint, &own, err);
    if (!status && strcmp(own.hex, head->checkpoint.hex) != 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: recorded from a checkpoint with digest %s, but this checkpoint has %s",
                       SB_SHOW(side->spec), head->checkpoint.hex, own.hex);
    return status;
}
