/* explain_words.c - the changes of knobs, in words. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/compare/explain.h"

static const char *const behaves[SB_VALUE_COUNT] = {
#define SB_BEHAVES(knob, value, words) [SB_##knob##_##value] = (words),
#include "tools/judge/compare/explain.def"
#undef SB_BEHAVES
};

void sb_behaves_like(sb_knob_value value, char words[SB_WORDS])
{
    sb_knob knob = sb_knob_of_value(value);
    if (behaves[value])
        snprintf(words, SB_WORDS, "behaves like %s", behaves[value]);
    else
        snprintf(words, SB_WORDS, "behaves like %s=%s (%s)", sb_knob_name(knob),
                 sb_knob_value_name(value), sb_knob_help(knob));
}

sb_change *sb_changes_add(sb_changes *c)
{
    sb_change *items = sb_grow(c->items, c->count, &c->room, sizeof *items);
    if (!items)
        return NULL;
    c->items = items;
    c->items[c->count] = (sb_change){.value = SB_VALUE_COUNT};
    return &c->items[c->count++];
}

void sb_changes_free(sb_changes *c)
{
    free(c->items);
    *c = (sb_changes){0};
}

/* True if the knob can matter in this layer. Knobs of quantized inputs and laws matter only to
 * quantized weights, knobs of the head only to the head. */
static int matters(const sb_model *model, sb_knob knob, uint32_t layer)
{
    switch (knob) {
    case SB_KNOB_dequant:
    case SB_KNOB_act_fp4:
    case SB_KNOB_act_fp8_group:
    case SB_KNOB_fp8_scale:
    case SB_KNOB_act_fp8_token:
    case SB_KNOB_act_fp8_static:
    case SB_KNOB_act_mx:
        return model->declared != NULL;
    case SB_KNOB_mtp_position:
    case SB_KNOB_mtp_first:
    case SB_KNOB_mtp_hidden:
    case SB_KNOB_mtp_recycled:
        return layer == model->config.layers;
    default:
        return 1;
    }
}

sb_status sb_changes_of_knobs(sb_changes *changes, const sb_model *model, const sb_knobs *knobs,
                              uint32_t layer, sb_error *err)
{
    for (int i = 0; i < SB_VALUE_COUNT; i++) {
        sb_knob_value value = (sb_knob_value)i;
        sb_knob knob = sb_knob_of_value(value);
        if (knobs->value[knob] == value || !matters(model, knob, layer))
            continue;
        sb_change *change = sb_changes_add(changes);
        if (!change)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for explanations");
        change->value = value;
        snprintf(change->name, sizeof change->name, "%s=%s", sb_knob_name(knob),
                 sb_knob_value_name(value));
        sb_behaves_like(value, change->words);
    }
    return SB_OK;
}
