#include "tools/make/vision.h"

#include <stdio.h>

typedef enum scope { SCOPE_root, SCOPE_block } scope;

typedef enum dim { DIM_one, DIM_h, DIM_h3, DIM_i, DIM_c, DIM_t, DIM_p, DIM_n, DIM_m, DIM_o } dim;

static const struct {
    scope scope;
    const char *name;
    sb_vision_kind kind;
    unsigned rank;
    dim dims[5];
} rows[] = {
#define SB_VISION(scope, name, kind, rank, d0, d1, d2, d3, d4)                                     \
    {SCOPE_##scope,                                                                                \
     name,                                                                                         \
     SB_VISION_##kind,                                                                             \
     rank,                                                                                         \
     {DIM_##d0, DIM_##d1, DIM_##d2, DIM_##d3, DIM_##d4}},
#include "tools/make/vision.def"
#undef SB_VISION
};

static uint64_t dim_value(const sb_config *c, dim d)
{
    static const uint64_t values[] = {
        [DIM_one] = 1,
        [DIM_h] = SB_VISION_HIDDEN,
        [DIM_h3] = 3 * SB_VISION_HIDDEN,
        [DIM_i] = SB_VISION_INTERMEDIATE,
        [DIM_c] = SB_VISION_CHANNELS,
        [DIM_t] = SB_VISION_TEMPORAL,
        [DIM_p] = SB_VISION_PATCH,
        [DIM_n] = SB_VISION_POSITIONS,
        [DIM_m] = SB_VISION_HIDDEN * SB_VISION_MERGE * SB_VISION_MERGE,
    };
    return d == DIM_o ? c->hidden_size : values[d];
}

/* The tensors of one scope, from row `first` up to the first of another scope. */
static sb_status visit_scope(const sb_config *c, const char *prefix, size_t first, size_t *end,
                             sb_vision_fn visit, void *ctx, sb_error *err)
{
    size_t i = first;
    for (; i < sizeof rows / sizeof *rows && rows[i].scope == rows[first].scope; i++) {
        sb_vision_tensor t = {.kind = rows[i].kind, .rank = rows[i].rank};
        snprintf(t.name, sizeof t.name, "%s%s", prefix, rows[i].name);
        for (unsigned d = 0; d < t.rank; d++)
            t.shape[d] = dim_value(c, rows[i].dims[d]);
        sb_status status = visit(ctx, &t, err);
        if (status)
            return status;
    }
    *end = i;
    return SB_OK;
}

sb_status sb_vision_each(const sb_config *config, sb_vision_fn visit, void *ctx, sb_error *err)
{
    sb_status status = SB_OK;
    size_t end = 0;
    for (size_t first = 0; first < sizeof rows / sizeof *rows && !status; first = end) {
        unsigned times = rows[first].scope == SCOPE_block ? SB_VISION_DEPTH : 1;
        for (unsigned i = 0; i < times && !status; i++) {
            char prefix[64] = "model.visual.";
            if (rows[first].scope == SCOPE_block)
                snprintf(prefix, sizeof prefix, "model.visual.blocks.%u.", i);
            status = visit_scope(config, prefix, first, &end, visit, ctx, err);
        }
    }
    return status;
}
