#include "tools/make/draw.h"

#include "ref/base/rng.h"
#include "ref/math/fn.h"

/* Values first .. first + n - 1 of a tensor of the text model. They are in one or several rows. */
static void draw_text(const sb_maker *maker, const sb_make_tensor *t, uint64_t first, size_t n,
                      float *out)
{
    uint64_t cols = t->shape[t->rank - 1];
    sb_make_matrix m = {.role = SB_ROLE_COUNT};
    for (size_t i = 0; i < n;) {
        uint64_t col = (first + i) % cols;
        size_t run = n - i < cols - col ? n - i : (size_t)(cols - col);
        sb_make_place place = sb_make_locate(maker->config, t->role, t->expert, t->rank, t->shape,
                                             (first + i) / cols);
        if (place.role != m.role || place.expert != m.expert)
            sb_make_matrix_of(maker, &place, t->layer, &m);
        sb_make_row(maker, &m, place.row, col, run, out + i);
        i += run;
    }
}

/* Readers ignore the vision tower, so its values are plain. */
static void draw_vision(const sb_maker *maker, const sb_make_tensor *t, uint64_t first, size_t n,
                        float *out)
{
    uint64_t fan_in = 1;
    for (unsigned d = 1; d < t->rank; d++)
        fan_in *= t->shape[d];
    float spread = t->vision == SB_VISION_weight ? sb_rsqrt((float)fan_in) : 0.1f;
    sb_make_normal(sb_rng_key(maker->seed, t->name), first, n,
                   t->vision == SB_VISION_norm ? 1.0f : 0.0f, spread, out);
}

void sb_make_draw(const sb_maker *maker, const sb_make_tensor *tensor, uint64_t first, size_t n,
                  float *out)
{
    if (tensor->role == SB_ROLE_COUNT)
        draw_vision(maker, tensor, first, n, out);
    else
        draw_text(maker, tensor, first, n, out);
}
