/* graph.h - launches that are recorded once and then started together: a CUDA graph on a device, a
 * list on the emulator.
 *
 *     sb_graph_begin(gpu);
 *     ... launches: they are not run
 *     sb_graph_end(gpu, &graph);
 *     sb_graph_run(gpu, graph);          any number of times
 *
 * A recording copies the arguments of launches. Memory that these arguments point to must live
 * until sb_graph_free. */
#ifndef SB_GPU_OP_GRAPH_H
#define SB_GPU_OP_GRAPH_H

#include "gpu/op/gpu.h"

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
struct sb_graph;
}

/* Y-18: "While launches are recorded, nothing is copied, allocated or waited for": sb_graph_end
 * returns the error of such an attempt. sb_graph_end always ends the recording; *out is NULL on
 * failure. */
sb_status sb_graph_begin(sb_gpu *gpu);
sb_status sb_graph_end(sb_gpu *gpu, sb_graph **out);

/* Makes later launches of a device dependent (Y-16) or independent, which is the default. On the
 * emulator all launches are dependent. */
void sb_gpu_dependent(sb_gpu *gpu, bool dependent);

/* Appends the launches to the queue; does not wait. */
sb_status sb_graph_run(sb_gpu *gpu, const sb_graph *graph);
size_t sb_graph_launches(const sb_graph *graph);
void sb_graph_free(sb_graph *graph);

#endif
