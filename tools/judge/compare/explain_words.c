/* explain_words.c - changes and their places, in words. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/compare/explain.h"

static const char *const behaves[SB_VALUE_COUNT] = {
#define SB_BEHAVES(knob, value, words) [SB_##knob##_##value] = (words),
#include "tools/judge/compare/explain.def"
#undef SB_BEHAVES
};

void sb_knob_words(sb_knob_value value, char words[SB_WORDS])
{
    sb_knob knob = sb_knob_of_value(value);
    if (behaves[value])
        snprintf(words, SB_WORDS, "%s", behaves[value]);
    else
        snprintf(words, SB_WORDS, "%s=%s (%s)", sb_knob_name(knob), sb_knob_value_name(value),
                 sb_knob_help(knob));
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
        sb_knob_words(value, change->words);
    }
    return SB_OK;
}

sb_status sb_changes_of_mistakes(sb_changes *changes, const sb_planted *list, sb_error *err)
{
    for (const sb_planted *f = list; f->name; f++) {
        if (f->benign || !(f->plant || f->run))
            continue;
        sb_change *change = sb_changes_add(changes);
        if (!change)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for explanations");
        change->fault = f;
        snprintf(change->name, sizeof change->name, "mistake %s", f->name);
        snprintf(change->words, sizeof change->words, "a mistake: %s", f->words);
    }
    return SB_OK;
}

static const char *kind_words(unsigned kinds)
{
    switch (kinds) {
    case 1U << SB_CALL_prompt:
        return "in prompts";
    case 1U << SB_CALL_decode:
        return "in decode steps";
    case 1U << SB_CALL_verify:
        return "in verifies";
    case 1U << SB_CALL_draft:
        return "in draft steps";
    case 1U << SB_CALL_verify | 1U << SB_CALL_decode:
        return "in decode steps and verifies";
    default:
        return "in some kinds of calls";
    }
}

void sb_site_words(const sb_site *s, uint64_t columns, uint32_t layers, char words[SB_WORDS])
{
    char layer[32] = "", tap[64] = "", part[64] = "", token[40] = "", expert[40] = "";
    const uint64_t n = s->parts;
    if (s->layer < layers)
        snprintf(layer, sizeof layer, ", in layer %" PRIu32, s->layer);
    else if (s->layer == layers)
        snprintf(layer, sizeof layer, ", in the MTP head");
    else if (s->layer == layers + 1)
        snprintf(layer, sizeof layer, ", in the drafter");
    if (*s->tap)
        snprintf(tap, sizeof tap, ", at %s", s->tap);
    if (n && !columns)
        snprintf(part, sizeof part, ", in part %zu of %zu of the state", s->part + 1, s->parts);
    else if (n) /* the elements i with floor(i n / columns) = part */
        snprintf(part, sizeof part, ", in columns %" PRIu64 " to %" PRIu64,
                 (s->part * columns + n - 1) / n, ((s->part + 1) * columns + n - 1) / n - 1);
    if (s->token != SB_NOWHERE)
        snprintf(token, sizeof token, ", for token %" PRIu64, s->token);
    if (s->expert != SB_NOWHERE)
        snprintf(expert, sizeof expert, ", in expert %" PRIu64, s->expert);
    int used = snprintf(words, SB_WORDS, "%s%s%s%s%s%s%s", layer, tap, expert, part,
                        s->kinds ? ", " : "", s->kinds ? kind_words(s->kinds) : "", token);
    if (used > 2)
        memmove(words, words + 2, strlen(words + 2) + 1);
}
