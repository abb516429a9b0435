#include "tools/bench/scale.h"

#include <stdlib.h>
#include <string.h>

enum { FULL_EVERY = 4 };

/* The layer of a tensor by its name; SB_MAX_LAYERS: outside the layers of the model. */
static uint32_t layer_of(const char *name)
{
    const char *at = strstr(name, "layers.");
    if (!at || (at > name && at[-1] != '.') || strncmp(name, "mtp.", 4) == 0 ||
        strstr(name, "visual."))
        return SB_MAX_LAYERS;
    const unsigned long layer = strtoul(at + strlen("layers."), NULL, 10);
    return layer < SB_MAX_LAYERS ? (uint32_t)layer : SB_MAX_LAYERS;
}

static void add(sb_bench_size *to, sb_bench_size of, double times)
{
    to->bytes += of.bytes * times;
    to->tensors += of.tensors * times;
}

static sb_bench_size part(sb_bench_size of, uint32_t count)
{
    return (sb_bench_size){of.bytes / count, of.tensors / count};
}

sb_bench_scale sb_bench_scale_of(const sb_checkpoint *checkpoint, const sb_config *config,
                                 uint32_t layers)
{
    sb_bench_scale s = {.layers = config->layers};
    sb_bench_size of[2] = {{0, 0}, {0, 0}}; /* all linear layers, all full ones */
    uint32_t count[2] = {0, 0};
    for (uint32_t i = 0; i < config->layers; i++)
        count[config->layer_is_full[i] != 0]++;
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
        const sb_bench_size size = {(double)t->bytes, 1};
        const uint32_t layer = layer_of(t->name);
        add(&s.here, size, 1);
        add(layer < config->layers ? &of[config->layer_is_full[layer] != 0] : &s.outside, size, 1);
    }
    s.has_linear = count[0] > 0;
    s.has_full = count[1] > 0;
    s.linear = part(of[!s.has_linear], count[!s.has_linear]);
    s.full = part(of[s.has_full], count[s.has_full]);
    const int same = layers == 0 || layers == config->layers;
    s.whole_layers = same ? config->layers : layers;
    s.whole_full = same ? count[1] : s.has_linear ? layers / FULL_EVERY : layers;
    if (same) {
        s.whole = s.here;
        return s;
    }
    s.whole = s.outside;
    add(&s.whole, s.full, s.whole_full);
    add(&s.whole, s.linear, s.whole_layers - s.whole_full);
    return s;
}
