#include "tools/judge/trace/names.h"

#include <string.h>

#include "ref/base/text.h"

typedef struct row {
    sb_tap_where where;
    const char *name, *words;
    sb_op op;
} row;

static const row rows[] = {
#define SB_TAP(where, name, op, width, words) {SB_TAP_##where, name, words, SB_OP_##op},
#include "tools/judge/trace/taps.def"
#undef SB_TAP
};

enum { ROWS = sizeof rows / sizeof *rows };

static uint32_t width_of(size_t i, const sb_config *c)
{
    const uint32_t widths[] = {
#define SB_TAP(where, name, op, width, words) (uint32_t)(width),
#include "tools/judge/trace/taps.def"
#undef SB_TAP
    };
    return widths[i];
}

static int is_outside(sb_tap_where where)
{
    return where == SB_TAP_call || where == SB_TAP_head || where == SB_TAP_draft ||
           where == SB_TAP_drafter;
}

int sb_tap_row(size_t i, sb_tap_name *out)
{
    if (i >= ROWS)
        return 0;
    *out = (sb_tap_name){rows[i].where,
                         rows[i].name,
                         rows[i].words,
                         rows[i].op,
                         sb_starts(rows[i].name, "mtp."),
                         sb_starts(rows[i].name, "drafter."),
                         !is_outside(rows[i].where),
                         0};
    return 1;
}

/* Reads a number without leading zeros and its dot. Returns the rest of the text, or NULL. */
static const char *number(const char *text, uint32_t *out)
{
    uint64_t value = 0;
    size_t n = 0;
    for (; text[n] >= '0' && text[n] <= '9' && n < 9; n++)
        value = value * 10 + (uint64_t)(text[n] - '0');
    if (n == 0 || text[n] != '.' || (n > 1 && text[0] == '0'))
        return NULL;
    *out = (uint32_t)value;
    return text + n + 1;
}

typedef enum part { TRUNK, HEAD, DRAFTER, PARTS } part;

/* Reads "layers.3.", "mtp.layers.0." or "drafter.layers.0.". Returns the rest of the text, or NULL.
 */
static const char *layer_of(const char *full, part *of, uint32_t *layer)
{
    static const char *const begins[PARTS] = {"layers.", "mtp.layers.", "drafter.layers."};
    for (*of = TRUNK; *of < PARTS && !sb_starts(full, begins[*of]);)
        *of = (part)(*of + 1);
    const char *rest = *of < PARTS ? number(full + strlen(begins[*of]), layer) : NULL;
    return rest && *layer < SB_MAX_LAYERS && (*of == TRUNK || *layer == 0) ? rest : NULL;
}

/* False for taps of linear attention in the MTP head, and for those that a drafter lacks. */
static int is_in(part of, const row *r)
{
    if (of == DRAFTER)
        return r->where == SB_TAP_full || r->where == SB_TAP_dense ||
               (r->where == SB_TAP_layer && strcmp(r->name, "input_layernorm") != 0);
    return of == TRUNK || r->where != SB_TAP_linear;
}

int sb_tap_find(const char *full, sb_tap_name *out)
{
    part of = TRUNK;
    uint32_t layer = 0;
    const char *rest = layer_of(full, &of, &layer);
    for (size_t i = 0; i < ROWS; i++) {
        if (is_outside(rows[i].where) != (rest == NULL) ||
            strcmp(rest ? rest : full, rows[i].name) != 0)
            continue;
        if (rest && !is_in(of, &rows[i]))
            return 0;
        sb_tap_row(i, out);
        out->is_head |= rest && of == HEAD;
        out->is_drafter |= rest && of == DRAFTER;
        out->layer = layer;
        return 1;
    }
    return 0;
}

int sb_tap_is_ids(const char *full)
{
    return strcmp(full, "top_ids") == 0 || strcmp(full, "next_ids") == 0 ||
           strcmp(full, "drafter.top_ids") == 0 || sb_ends(full, ".mlp.router_ids");
}

int sb_tap_is_of_drafts(const char *full)
{
    return strcmp(full, "mtp.logits") == 0 || strcmp(full, "drafter.logits") == 0 ||
           strcmp(full, "drafter.top_ids") == 0;
}

int sb_tap_is_of_logits(const char *full)
{
    static const char *const names[] = {"logits",         "top_ids",  "top_logprobs",  "logprobs",
                                        "logprob_limits", "next_ids", "next_logprobs", "uniforms"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(full, names[i]) == 0)
            return 1;
    return 0;
}

uint32_t sb_tap_width(const sb_tap_name *tap, const sb_config *c, int *exists)
{
    if (tap->is_drafter) {
        *exists = 1;
        return tap->where == SB_TAP_drafter && sb_ends(tap->name, ".top_ids") ? 2 : 0;
    }
    int moe = sb_config_layer_experts(c, tap->is_head ? c->layers : tap->layer) > 0,
        full = tap->is_head || (tap->layer < c->layers && c->layer_is_full[tap->layer]);
    int head = tap->is_head || tap->where == SB_TAP_head || tap->where == SB_TAP_draft;
    *exists = (!head || c->mtp_layers > 0) && (!tap->in_layer || head || tap->layer < c->layers);
    if (tap->where == SB_TAP_linear || tap->where == SB_TAP_full || tap->where == SB_TAP_gated)
        *exists &= full == (tap->where != SB_TAP_linear);
    if (tap->where == SB_TAP_gated)
        *exists &= c->attn_output_gate;
    if (tap->where == SB_TAP_moe || tap->where == SB_TAP_dense || tap->where == SB_TAP_shared)
        *exists &= moe == (tap->where != SB_TAP_dense);
    if (tap->where == SB_TAP_shared)
        *exists &= c->shared_intermediate > 0;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].name == tap->name)
            return width_of(i, c);
    return 0;
}

int sb_state_piece_name(const char *full, uint32_t *sequence, const char **piece)
{
    static const char *const of_layer[] = {"self_attn.keys", "self_attn.values",
                                           "linear_attn.conv_state", "linear_attn.recurrent_state"};
    part of = TRUNK;
    uint32_t layer = 0;
    if (!sb_starts(full, "state."))
        return 0;
    *piece = number(full + strlen("state."), sequence);
    if (!*piece)
        return 0;
    const char *rest = layer_of(*piece, &of, &layer);
    if (!rest || of == DRAFTER)
        return strcmp(*piece, "mtp.hidden") == 0;
    for (size_t i = 0; i < (of == HEAD ? 2u : 4u); i++)
        if (strcmp(rest, of_layer[i]) == 0)
            return 1;
    return 0;
}

long sb_tap_hidden(const char *full, uint32_t layers)
{
    part of = TRUNK;
    uint32_t layer = 0;
    if (strcmp(full, "embed") == 0)
        return 0;
    if (strcmp(full, "norm") == 0)
        return (long)layers + 1;
    const char *rest = layer_of(full, &of, &layer);
    return rest && of == TRUNK && layer < layers && strcmp(rest, "output") == 0 ? (long)layer + 1
                                                                                : -1;
}
