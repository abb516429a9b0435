#include "tests/hf/drawn.h"

#include "ref/base/rng.h"

hf_arena hf_drawn;

int hf_release_drawn(void **state)
{
    (void)state;
    hf_release(&hf_drawn);
    return 0;
}

float *hf_normal(const char *name, size_t count, float mean, float scale)
{
    float *x = hf_floats(&hf_drawn, count);
    uint64_t key = sb_rng_key(42, name);
    for (size_t i = 0; i < count; i++)
        x[i] = mean + scale * sb_rng_normal(key, i);
    return x;
}
