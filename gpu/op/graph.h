/* graph.h - launches that are recorded once and then started together: a CUDA graph on a device, a
 * list on the emulator.
 *
 *     sb_graph_begin(gpu);
 *     ... launches: they are not run
 *     sb_graph_end(gpu, &graph);
 *     sb_graph_run(gpu, graph);          as often as one likes
 *
 * Arguments are kept as they were, pointers too: the memory that they point to must live until
 * sb_graph_free. */
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
 * returns the error of such an attempt. It ends the recording in any case; *out is NULL on
 * failure. */
sb_status sb_graph_begin(sb_gpu *gpu);
sb_status sb_graph_end(sb_gpu *gpu, sb_graph **out);

/* Makes later launches of a device dependent (Y-16) or not; at first they are not. On the emulator
 * all launches are dependent. */
void sb_gpu_dependent(sb_gpu *gpu, bool dependent);

/* Appends the launches to the queue; does not wait. */
sb_status sb_graph_run(sb_gpu *gpu, const sb_graph *graph);
size_t sb_graph_launches(const sb_graph *graph);
void sb_graph_free(sb_graph *graph);

#endif
