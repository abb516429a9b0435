/* graph_emu.cc - a graph on the emulator is the list of its launches. */
#include "gpu/op/graph.h"

#include <stdlib.h>

#include "gpu/emu/record.h"
#include "gpu/op/body.h"

namespace sb_on_host
{
struct sb_graph {
    sb_emu_record record;
};
} // namespace sb_on_host

sb_status sb_graph_begin(sb_gpu *gpu)
{
    if (gpu->queue.record)
        return sb_fail(&gpu->err, SB_ERR_USAGE, "launches are recorded already");
    gpu->recorded = SB_OK;
    gpu->queue.record = static_cast<sb_emu_record *>(sb_alloc(1, sizeof(sb_graph)));
    return gpu->queue.record ? SB_OK
                             : sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for a graph");
}

/* The cast is valid, since the record is the first member of a graph. */
sb_status sb_graph_end(sb_gpu *gpu, sb_graph **out)
{
    sb_graph *const graph = reinterpret_cast<sb_graph *>(gpu->queue.record);
    *out = nullptr;
    if (!graph)
        return sb_fail(&gpu->err, SB_ERR_USAGE, "no launches are recorded");
    gpu->queue.record = nullptr;
    if (gpu->recorded)
        sb_graph_free(graph);
    else
        *out = graph;
    return gpu->recorded;
}

void sb_gpu_dependent(sb_gpu *, bool)
{
}

bool sb_gpu_records(const sb_gpu *gpu)
{
    return gpu->queue.record != nullptr;
}

sb_status sb_graph_run(sb_gpu *gpu, const sb_graph *graph)
{
    const sb_status status = sb_gpu_unrecorded(gpu, "a graph");
    return status ? status : sb_emu_replay(gpu->queue.emu, &graph->record, &gpu->err);
}

size_t sb_graph_launches(const sb_graph *graph)
{
    return graph->record.launches;
}

void sb_graph_free(sb_graph *graph)
{
    if (graph)
        sb_emu_record_free(&graph->record);
    free(graph);
}
