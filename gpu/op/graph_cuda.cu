/* graph_cuda.cu - a graph on a device, captured from its stream.
 *
 * The capture mode is thread-local: a cudaMalloc of this thread ends the capture with an error, as
 * Y-18 demands; calls of other threads of the program do not disturb the capture. */
#include "gpu/op/graph.h"

#include <stdlib.h>

#include "gpu/op/body.h"

namespace sb_on_device
{
struct sb_graph {
    cudaGraphExec_t exec;
    size_t launches;
};
} // namespace sb_on_device

static sb_status did(sb_gpu *gpu, const char *what, cudaError_t status)
{
    return status == cudaSuccess
               ? SB_OK
               : sb_fail(&gpu->err, status == cudaErrorMemoryAllocation ? SB_ERR_MEMORY : SB_ERR_IO,
                         "graph: %s: %s", what, cudaGetErrorString(status));
}

sb_status sb_graph_begin(sb_gpu *gpu)
{
    if (gpu->records)
        return sb_fail(&gpu->err, SB_ERR_USAGE, "launches are recorded already");
    gpu->recorded = SB_OK;
    const sb_status status = did(
        gpu, "begin", cudaStreamBeginCapture(gpu->queue.stream, cudaStreamCaptureModeThreadLocal));
    gpu->records = status == SB_OK;
    return status;
}

/* The upload makes the first replay as fast as later ones. */
static sb_status instantiate(sb_gpu *gpu, cudaGraph_t captured, sb_graph *graph)
{
    sb_status status = did(gpu, "nodes", cudaGraphGetNodes(captured, nullptr, &graph->launches));
    if (!status)
        status = did(gpu, "instance", cudaGraphInstantiate(&graph->exec, captured, 0));
    return status ? status : did(gpu, "upload", cudaGraphUpload(graph->exec, gpu->queue.stream));
}

sb_status sb_graph_end(sb_gpu *gpu, sb_graph **out)
{
    *out = nullptr;
    if (!gpu->records)
        return sb_fail(&gpu->err, SB_ERR_USAGE, "no launches are recorded");
    gpu->records = false;
    cudaGraph_t captured = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(gpu->queue.stream, &captured);
    sb_status status = gpu->recorded ? gpu->recorded : did(gpu, "end", ended);
    sb_graph *graph = static_cast<sb_graph *>(sb_alloc(1, sizeof(sb_graph)));
    if (!status && !graph)
        status = sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for a graph");
    if (!status)
        status = instantiate(gpu, captured, graph);
    if (captured)
        cudaGraphDestroy(captured);
    if (status) {
        cudaGetLastError(); /* clears the error */
        sb_graph_free(graph);
    } else {
        *out = graph;
    }
    return status;
}

void sb_gpu_dependent(sb_gpu *gpu, bool dependent)
{
    gpu->queue.dependent = dependent;
}

bool sb_gpu_records(const sb_gpu *gpu)
{
    return gpu->records;
}

sb_status sb_graph_run(sb_gpu *gpu, const sb_graph *graph)
{
    const sb_status status = sb_gpu_unrecorded(gpu, "a graph");
    return status ? status : did(gpu, "launch", cudaGraphLaunch(graph->exec, gpu->queue.stream));
}

size_t sb_graph_launches(const sb_graph *graph)
{
    return graph->launches;
}

void sb_graph_free(sb_graph *graph)
{
    if (graph && graph->exec)
        cudaGraphExecDestroy(graph->exec);
    free(graph);
}
