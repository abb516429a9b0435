#include "tools/make/fill.h"

#include <stdio.h>

#include "ref/base/rng.h"
#include "ref/math/fn.h"
#include "tools/make/bulk.h"
#include "tools/make/normal.h"
#include "tools/make/weights.h"

static const struct {
    sb_make_kind kind;
    float gain[SB_RECIPES];
} rules[SB_ROLE_COUNT] = {
#define SB_RULE(role, kind, in_plain, in_mistakes, in_predictable)                                 \
    [SB_ROLE_##role] = {SB_MAKE_##kind,                                                            \
                        {[SB_RECIPE_plain] = in_plain,                                             \
                         [SB_RECIPE_mistakes] = in_mistakes,                                       \
                         [SB_RECIPE_predictable] = in_predictable,                                 \
                         [SB_RECIPE_predictable_1] = in_predictable}},
#include "tools/make/rules.def"
#undef SB_RULE
};

static const struct {
    const char *name;
    void (*prepare)(const sb_maker *maker, sb_make_matrix *matrix);
    void (*row)(const sb_maker *maker, const sb_make_matrix *matrix, uint64_t row, uint64_t col,
                size_t n, float *out);
} recipes[] = {
#define SB_RECIPE(id, name, help) {name, sb_make_prepare_##id, sb_make_row_##id},
#include "tools/make/recipes.def"
#undef SB_RECIPE
};

static int in_layer(sb_role role)
{
    switch (role) {
    case SB_ROLE_embed_tokens:
    case SB_ROLE_final_norm:
    case SB_ROLE_lm_head:
    case SB_ROLE_mtp_fc:
    case SB_ROLE_mtp_norm_embedding:
    case SB_ROLE_mtp_norm_hidden:
    case SB_ROLE_mtp_norm:
        return 0;
    default:
        return 1;
    }
}

/* G-1: "tensor name and element". The name is the stored one without the layout's prefix. */
static uint64_t stream_of(const sb_maker *maker, const sb_make_matrix *m)
{
    char path[SB_NAME_MAX + 64];
    char layer[48] = "";
    char expert[48] = "";
    uint32_t layers = maker->config->layers;
    sb_make_recipe recipe = maker->recipe;
    if (recipe == SB_RECIPE_predictable_1) /* the same trunk */
        recipe = SB_RECIPE_predictable;
    if (m->in_mtp)
        snprintf(layer, sizeof layer, "mtp.layers.%u.", (unsigned)(m->layer - layers));
    else if (in_layer(m->role))
        snprintf(layer, sizeof layer, "layers.%u.", (unsigned)m->layer);
    if (m->expert != SB_NO_EXPERT)
        snprintf(expert, sizeof expert, "mlp.experts.%u.", (unsigned)m->expert);
    snprintf(path, sizeof path, "make/%s/%s%s%s", recipes[recipe].name, layer, expert,
             sb_role_name(m->role));
    return sb_rng_key(maker->seed, path);
}

void sb_make_matrix_of(const sb_maker *maker, const sb_make_place *place, uint32_t layer,
                       sb_make_matrix *out)
{
    *out = (sb_make_matrix){.role = place->role,
                            .layer = layer,
                            .expert = place->expert,
                            .in_mtp = in_layer(place->role) && layer >= maker->config->layers,
                            .rows = place->rows,
                            .cols = place->cols,
                            .kind = rules[place->role].kind,
                            .spread = rules[place->role].gain[maker->recipe]};
    out->key = stream_of(maker, out);
    out->mean = out->kind == SB_MAKE_one_norm ? 1.0f : 0.0f;
    if (out->kind == SB_MAKE_linear)
        out->spread *= sb_rsqrt((float)out->cols);
    recipes[maker->recipe].prepare(maker, out);
}

void sb_make_row(const sb_maker *maker, const sb_make_matrix *matrix, uint64_t row, uint64_t col,
                 size_t n, float *out)
{
    if (maker->weights)
        sb_weights_row(maker->weights, matrix, row, col, n, out);
    else
        recipes[maker->recipe].row(maker, matrix, row, col, n, out);
    /* G-2: "Recipes draw w for the factor 1 + w; a plain norm (M-11) stores 1 + w." */
    if (!maker->weights && matrix->kind == SB_MAKE_zero_norm && maker->config->plain_norms)
        for (size_t i = 0; i < n; i++)
            out[i] += 1.0f;
}

void sb_make_normal(uint64_t key, uint64_t first, size_t n, float mean, float spread, float *out)
{
    sb_normals(key, first, n, out);
    sb_bulk_scale(out, n, mean, spread);
}

/* G-2: "dt_bias that reaches below -17, around 0 and above 20", in turn along heads and layers */
static float step_mean(uint32_t layer, uint64_t head)
{
    static const float means[3] = {-22.0f, 0.0f, 24.0f};
    return means[(layer + head) % 3];
}

void sb_make_usual(const sb_make_matrix *matrix, uint64_t row, uint64_t col, size_t n, float *out)
{
    uint64_t first = row * matrix->cols + col;
    switch (matrix->kind) {
    case SB_MAKE_decay: /* G-2: "A_log = log U(0.01, 16)" */
        for (size_t i = 0; i < n; i++)
            out[i] = sb_log(0.01f + 15.99f * sb_rng_uniform(matrix->key, first + i));
        return;
    case SB_MAKE_step:
        for (size_t i = 0; i < n; i++)
            out[i] = step_mean(matrix->layer, first + i) +
                     matrix->spread * (2.0f * sb_rng_uniform(matrix->key, first + i) - 1.0f);
        return;
    default:
        sb_make_normal(matrix->key, first, n, matrix->mean, matrix->spread, out);
    }
}

/* Recipe `plain`: nothing is special. */
void sb_make_prepare_plain(const sb_maker *maker, sb_make_matrix *matrix)
{
    (void)maker;
    (void)matrix;
}

void sb_make_row_plain(const sb_maker *maker, const sb_make_matrix *matrix, uint64_t row,
                       uint64_t col, size_t n, float *out)
{
    (void)maker;
    sb_make_usual(matrix, row, col, n, out);
}
