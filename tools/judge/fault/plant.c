#include "tools/judge/fault/plant.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/args.h"

static int is_planted(const sb_plant *plant, const sb_op_call *call)
{
    if (plant->layer != SB_EVERY_LAYER && plant->layer != call->layer)
        return 0;
    if (plant->name && strcmp(plant->name, call->name) != 0)
        return 0;
    if (plant->kinds && !(plant->kinds >> call->kind & 1))
        return 0;
    return call->position >= plant->from && (!plant->end || call->position < plant->end);
}

static sb_status others(const sb_plant *plant, const sb_op_call *call)
{
    return plant->next ? plant->next(plant->next_ctx, call) : sb_op_run(call);
}

/* Runs the op from the table of a mistake. */
static sb_status run_mistake(const sb_plant *plant, const sb_op_call *call)
{
    sb_op_table table = *call->table;
    sb_op_call changed = *call;
    plant->fault->plant(&table);
    changed.table = &table;
    return sb_op_run(&changed);
}

sb_status sb_plant_hook(void *ctx, const sb_op_call *call)
{
    sb_plant *plant = ctx;
    const sb_planted *fault = plant->fault;
    if (!fault || !(fault->run || fault->plant) || call->op != fault->op ||
        !is_planted(plant, call))
        return others(plant, call);
    plant->ran++;
    return fault->run ? fault->run(plant, call) : run_mistake(plant, call);
}

void sb_plant_clear(sb_plant *plant)
{
    for (size_t i = 0; i < plant->memories; i++) {
        free(plant->memory[i].row);
        free(plant->memory[i].ids);
    }
    free(plant->memory);
    plant->memory = NULL;
    plant->memories = plant->memory_room = 0;
}

/* The row from the previous call, zeros if there was none. NULL if memory is out. */
static sb_plant_memory *remembered(sb_plant *plant, const sb_op_call *call, size_t output,
                                   size_t width)
{
    sb_plant_memory *m;
    for (size_t i = 0; i < plant->memories; i++) {
        m = &plant->memory[i];
        if (m->layer == call->layer && m->slot == call->slot && m->output == output &&
            m->width == width && strcmp(m->name, call->name) == 0)
            return m;
    }
    m = sb_grow(plant->memory, plant->memories, &plant->memory_room, sizeof *m);
    if (!m)
        return NULL;
    plant->memory = m;
    m = &plant->memory[plant->memories];
    *m = (sb_plant_memory){.layer = call->layer,
                           .name = call->name,
                           .slot = call->slot,
                           .output = output,
                           .width = width,
                           .row = sb_alloc(width, sizeof *m->row),
                           .ids = sb_alloc(width, sizeof *m->ids)};
    plant->memories++;
    return m->row && m->ids ? m : NULL;
}

/* Rows of an output; some arguments give only the number of elements. */
static size_t rows_of(const sb_op_call *call, const sb_op_value *value)
{
    return sb_arg_find(call->op, "count") ? call->rows : value->rows;
}

sb_status sb_plant_stale(sb_plant *plant, const sb_op_call *call, size_t output,
                         const sb_op_value *value)
{
    size_t rows = rows_of(call, value), width = value->rows * value->cols / rows;
    sb_plant_memory *m = remembered(plant, call, output, width);
    if (!m)
        return SB_ERR_MEMORY;
    size_t last = (rows - 1) * width, size = width * sizeof *m->row;
    void *at = value->ids ? (void *)(value->ids + last) : (void *)(value->data + last);
    void *kept = value->ids ? (void *)m->ids : (void *)m->row;
    void *before = rows == 1    ? kept
                   : value->ids ? (void *)(value->ids + last - width)
                                : (void *)(value->data + last - width);
    float *now = sb_alloc(width, sizeof *now);
    if (!now)
        return SB_ERR_MEMORY;
    memcpy(now, at, size);
    memcpy(at, before, size);
    memcpy(kept, now, size);
    free(now);
    return SB_OK;
}
