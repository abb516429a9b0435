#include "ref/ops/kv_cache.h"

#include <string.h>

#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/ops/knob.h"

float sb_kv_scale(const sb_knobs *knobs, float stored_scale)
{
    return !SB_IS(knobs, kv_cache, fp8) || stored_scale == 0 ? 1.0f : stored_scale;
}

/* K-24: "fp8 keeps D4(E4(RN(x / z))) for every element x of a value, and of a key after rope", "f16
 * keeps x rounded to binary16" */
void sb_kv_store(const sb_knobs *knobs, float stored_scale, const float *in, size_t count,
                 float *out)
{
    if (SB_IS(knobs, kv_cache, act)) {
        memmove(out, in, count * sizeof *out);
        return;
    }
    float scale = sb_kv_scale(knobs, stored_scale);
    int narrow = SB_IS(knobs, kv_cache, f16);
    for (size_t i = 0; i < count; i++)
        out[i] = narrow ? sb_round_to(SB_FORMAT_f16, in[i])
                        : sb_e4m3_to_f32(sb_f32_to_e4m3(in[i] / scale));
}
