/* declared_text.c - a declaration in words. */
#include <inttypes.h>
#include <stdio.h>

#include "ref/model/declared.h"

static void scales_text(const sb_declaration *d, char *text, size_t size)
{
    switch (d->strategy) {
    case SB_STRATEGY_TENSOR:
        snprintf(text, size, "with one scale");
        break;
    case SB_STRATEGY_CHANNEL:
        snprintf(text, size, "with a scale per row");
        break;
    case SB_STRATEGY_GROUP:
    case SB_STRATEGY_TENSOR_GROUP:
        snprintf(text, size, "in groups of %" PRIu32, d->group_size);
        break;
    case SB_STRATEGY_BLOCK:
        snprintf(text, size, "in blocks of %" PRIu32 " x %" PRIu32, d->block_rows, d->block_cols);
        break;
    default:
        snprintf(text, size, "without scales");
        break;
    }
}

static void inputs_text(const sb_declaration *d, char *text, size_t size)
{
    static const char *const how[] = {
        "",          "with a stored scale", "per call",
        "per token", "per token and group", "per group under a stored scale"};
    if (d->activation == SB_ACTIVATION_NONE)
        snprintf(text, size, "inputs as they are");
    else
        snprintf(text, size, "inputs %" PRIu32 "-bit %s %s", d->activation_bits,
                 d->activation_int ? "integers" : "floats", how[d->activation]);
}

const char *sb_declaration_text(const sb_declaration *declaration, sb_declared_text *room)
{
    static const char *const families[] = {"", "NVFP4", "MXFP4", "MXFP8", "FP8", "INT"};
    char scales[48];
    char inputs[80];
    char bits[16] = "";
    if (declaration->answer != SB_DECLARED_YES) {
        snprintf(room->text, sizeof room->text, "%s",
                 declaration->answer == SB_DECLARED_NO ? "not quantized" : "unknown");
        return room->text;
    }
    scales_text(declaration, scales, sizeof scales);
    inputs_text(declaration, inputs, sizeof inputs);
    if (declaration->family == SB_FAMILY_INT)
        snprintf(bits, sizeof bits, "%" PRIu32, declaration->bits);
    snprintf(room->text, sizeof room->text, "%s%s %s%s, %s", families[declaration->family], bits,
             scales, declaration->symmetric ? "" : " with zero points", inputs);
    return room->text;
}
