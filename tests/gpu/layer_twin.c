#include "tests/gpu/layer_twin.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "ref/ops/rounding.h"
#include "tests/gpu/linear_layers.h"

enum { EXPERTS = 4 };

/* A call of a layer, or of experts with one expert per row. */
typedef struct call {
    layer_kind kind;
    uint32_t n, k;
    const char *profile;
    int experts;
    size_t rows;
} call;

/* The last call of each kind has blocks of many rows (Y-61, Y-85), except for quantized inputs. */
static const call calls[] = {
    {LAYER_mxfp4, 40, 32, "sm121", 0, 1},           {LAYER_mxfp4, 40, 32, "sm121", 0, 9},
    {LAYER_mxfp4, 40, 32, "sm121", 0, 17},          {LAYER_mxfp4, 8072, 32, "sm121", 0, 65},
    {LAYER_mxfp4, 24, 32, "sm121", 1, 3},           {LAYER_mxfp4, 24, 32, "sm121", 1, 40},
    {LAYER_mxfp4, 24, 32, "sm121", 1, 200},         {LAYER_nvfp4_ct, 24, 128, "sm121-w4a4", 1, 3},
    {LAYER_nvfp4_ct, 24, 128, "sm121-w4a4", 1, 40},
};

typedef struct side {
    layer drawn[EXPERTS];
    sb_matrix weight[EXPERTS];
    uint32_t *ids;
    float *in, *out[2]; /* of the first and the second backend */
    sb_knobs knobs;
} side;

static int draw(const call *c, side *s)
{
    const size_t inputs = c->rows * c->k, outputs = c->rows * c->n;
    int drawn = 1;
    for (uint32_t e = 0; e < EXPERTS && drawn; e++) {
        drawn = layer_draw(&s->drawn[e], c->kind, c->n, c->k, 100 + e);
        s->weight[e] = s->drawn[e].matrix;
        if (c->kind != LAYER_nvfp4_ct)
            continue;
        s->weight[e].quant.container = SB_CONTAINER_nvfp4_ct;
        s->weight[e].quant.input = (sb_factor){SB_DIVISOR, 200.0f + 60.0f * (float)e};
    }
    s->ids = sb_alloc(c->rows, sizeof *s->ids);
    s->in = sb_alloc(inputs, sizeof *s->in);
    for (int i = 0; i < 2; i++)
        s->out[i] = sb_alloc(outputs, sizeof *s->out[i]);
    if (!drawn || !s->ids || !s->in || !s->out[0] || !s->out[1])
        return 0;
    for (size_t i = 0; i < inputs; i++)
        s->in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(7, i));
    for (size_t i = 0; i < c->rows; i++)
        s->ids[i] = sb_rng_below(8, i, EXPERTS);
    return 1;
}

static void drop(side *s)
{
    for (uint32_t e = 0; e < EXPERTS; e++)
        layer_free(&s->drawn[e]);
    free(s->ids);
    free(s->in);
    free(s->out[0]);
    free(s->out[1]);
}

static sb_status run(const sb_backend *on, const call *c, const side *s, float *out, sb_error *err)
{
    const sb_expert_linear_args experts = {.weight = s->weight,
                                           .stride = sizeof(sb_matrix),
                                           .experts = EXPERTS,
                                           .ids = s->ids,
                                           .rows = c->rows,
                                           .kept = 1,
                                           .each = 1,
                                           .kind = SB_LINEAR_layer,
                                           .in = s->in,
                                           .out = out};
    const sb_linear_args alone = {s->weight, SB_LINEAR_layer, s->in, c->rows, out};
    const sb_status status = c->experts && on->experts ? on->experts(&s->knobs, &experts, 1)
                             : c->experts              ? sb_experts_fast(&s->knobs, &experts, 1)
                                                       : on->ops.linear(&s->knobs, &alone);
    const char *why = status && on->why ? on->why() : NULL;
    return status ? sb_fail(err, status, "%s of %s on %s: %s", c->experts ? "experts" : "a layer",
                            layer_name(c->kind), on->name, why ? why : "")
                  : SB_OK;
}

static void compare(const call *c, const side *s, layer_twin *found)
{
    for (size_t i = 0; i < c->rows * c->n; i++) {
        const float a = s->out[0][i], b = s->out[1][i];
        const int same = sb_bits_f32(a) == sb_bits_f32(b) || (a != a && b != b);
        if (!same && found->differ++ == 0)
            snprintf(found->first, sizeof found->first, "%zu rows, %s of %s", c->rows,
                     c->experts ? "experts" : "a layer", layer_name(c->kind));
    }
    found->values += c->rows * c->n;
    found->calls++;
}

sb_status layer_twin_compare(const sb_backend *first, const sb_backend *second, layer_twin *found,
                             sb_error *err)
{
    sb_status status = SB_OK;
    *found = (layer_twin){.first = ""};
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !status; i++) {
        side s = {.ids = NULL};
        status = draw(&calls[i], &s) ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
        if (!status)
            status = sb_knobs_profile(&s.knobs, calls[i].profile, err);
        if (!status)
            status = run(first, &calls[i], &s, s.out[0], err);
        if (!status)
            status = run(second, &calls[i], &s, s.out[1], err);
        if (!status)
            compare(&calls[i], &s, found);
        drop(&s);
    }
    return status;
}
