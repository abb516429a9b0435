/* graph.cc - the parts of a step as graphs. The first time, a part is launched directly. This
 * launch brings missing weights and allocates missing memory. The second time the part is recorded,
 * and from then on it is one launch. Prompts, and all parts under the option `eager`, are always
 * launched directly. */
#include "gpu/op/graph.h"

#include <stdlib.h>

#include "gpu/step/call.h"

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
/* A part that was started before. */
struct sb_step_graph {
    sb_step_part part;
    sb_graph *graph; /* NULL: started only once */
    sb_step_graph *next;
};
}

static sb_step_graph *find(const sb_queued_step *step, const sb_step_part &part)
{
    sb_step_graph *g = step->graphs;
    while (g && (g->part.kind != part.kind || g->part.rows != part.rows ||
                 g->part.reach != part.reach || g->part.first != part.first))
        g = g->next;
    return g;
}

static sb_status came(sb_queued_step *step, const sb_step_part &part, sb_error *err)
{
    sb_step_graph *g = static_cast<sb_step_graph *>(sb_alloc(1, sizeof *g));
    if (!g)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    *g = {part, nullptr, step->graphs};
    step->graphs = g;
    return SB_OK;
}

static sb_status said(const sb_queued_step *step, sb_status status, sb_error *err)
{
    return status ? sb_fail(err, status, "%s", sb_gpu_said(step->gpu)->text) : SB_OK;
}

static sb_status record(sb_queued_step *step, sb_step_graph *g, sb_error *err)
{
    sb_graph *graph = nullptr;
    sb_status status = said(step, sb_graph_begin(step->gpu), err);
    if (status)
        return status;
    status = sb_step_launch(step, g->part, err);
    const sb_status ended = sb_graph_end(step->gpu, &graph);
    if (!status)
        status = said(step, ended, err);
    if (status)
        sb_graph_free(graph);
    else
        g->graph = graph;
    return status;
}

/* Y-19: "Whether a part of a step is launched or replayed changes no bit" */
sb_status sb_step_start(sb_queued_step *step, const sb_step_part &part, sb_error *err)
{
    sb_step_graph *const g = find(step, part);
    sb_status status = SB_OK;
    if (step->options.eager || part.kind == SB_STEP_prompt)
        return sb_step_launch(step, part, err);
    if (!g) {
        status = sb_step_launch(step, part, err);
        return status ? status : came(step, part, err);
    }
    if (!g->graph)
        status = record(step, g, err);
    return status ? status : said(step, sb_graph_run(step->gpu, g->graph), err);
}

void sb_step_forget_graphs(sb_queued_step *step)
{
    while (step->graphs) {
        sb_step_graph *const gone = step->graphs;
        step->graphs = gone->next;
        sb_graph_free(gone->graph);
        free(gone);
    }
}
