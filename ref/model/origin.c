#include "ref/model/origin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"

float sb_reciprocal(float x)
{
    return x == 0 ? sb_f32_from_bits(0x7f800000u) : 1.0f / x;
}

/* Reads eight lower-case hexadecimal digits; returns 0 for any other text. */
static int read_hex(const char *text, uint32_t *bits)
{
    static const char digits[] = "0123456789abcdef";
    *bits = 0;
    for (unsigned i = 0; i < 8; i++) {
        const char *at = text[i] ? strchr(digits, text[i]) : NULL;
        if (!at)
            return 0;
        *bits = *bits << 4 | (uint32_t)(at - digits);
    }
    return 1;
}

/* D-7: "An origin whose reciprocal is not the stored number is refused" */
sb_status sb_origin_of(const sb_checkpoint *checkpoint, const sb_tensor *tensor, uint64_t count,
                       uint64_t e, float stored, float *origin, sb_error *err)
{
    char key[SB_ORIGIN_KEY];
    uint32_t bits = 0;
    snprintf(key, sizeof key, SB_ORIGIN_PREFIX "%s", tensor->name);
    const char *text = sb_checkpoint_metadata(checkpoint, tensor->shard, key);
    const char *path = SB_SHOW(sb_checkpoint_path(checkpoint));
    *origin = 0;
    if (!text)
        return SB_OK;
    if (strlen(text) != 8 * count || !read_hex(text + 8 * e, &bits))
        return sb_fail(
            err, SB_ERR_INPUT,
            "%s: metadata %s of %s is \"%s\", expected %" PRIu64 " lower-case hexadecimal digits",
            path, SB_SHOW(key), SB_SHOW(sb_checkpoint_shard_name(checkpoint, tensor->shard)),
            SB_SHOW(text), 8 * count);
    *origin = sb_f32_from_bits(bits);
    if (!sb_is_finite_f32(*origin) || !(*origin > 0) || sb_reciprocal(*origin) != stored)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: tensor %s, element %" PRIu64
                       ", is %.9g, which is not the reciprocal of "
                       "its origin %.9g (0x%08" PRIx32 ") in the metadata: one of the two changed",
                       path, SB_SHOW(tensor->name), e, (double)stored, (double)*origin, bits);
    return SB_OK;
}
