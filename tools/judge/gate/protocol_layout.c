/* protocol_layout.c - the tensors of each engine: names, shapes, and the place of an element.
 * docs/gates/protocol.md lists the sources and versions. */
#include <string.h>

#include "tools/judge/gate/protocol.h"

static const sb_protocol_layout layouts[] = {
    {.name = "plain",
     .source = "docs/state.md, slots by index, negative indices are padding",
     .pool = 1,
     .dk = 16,
     .dv = 8,
     .history = 3,
     .activation = SB_DTYPE_BF16,
     .rule_state = {"initial_state", "final_state"},
     .conv_state = {"conv_state", "conv_state"},
     .lengths = "cu_seqlens",
     .indices = {"state_indices", "state_indices"},
     .x = "x"},
    {.name = "vllm",
     .source = "vllm 03c20345 fused_recurrent.py, 533d3378 causal_conv1d.py",
     .pool = 1,
     .null_slot = 1,
     .value_first = 1,
     .dk = 16,
     .dv = 8,
     .history = 3,
     .activation = SB_DTYPE_BF16,
     .rule_state = {"initial_state", "final_state"},
     .conv_state = {"conv_state", "conv_state"},
     .lengths = "cu_seqlens",
     .indices = {"ssm_state_indices", "conv_state_indices"},
     .x = "x"},
    {.name = "fla",
     .source = "flash-linear-attention bc3b101d (0.5.2)",
     .channels_first = 1,
     .dk = 16,
     .dv = 8,
     .history = 4,
     .activation = SB_DTYPE_BF16,
     .rule_state = {"initial_state", "final_state"},
     .conv_state = {"initial_state", "final_state"},
     .lengths = "cu_seqlens",
     .x = "x"},
    {.name = "flashinfer",
     .source = "flashinfer b28d7242 gdn_prefill.py",
     .pool = 1,
     .flat = 1,
     .prompts = 1,
     .alpha = 1,
     .scale = 0.125f,
     .value_first = 1,
     .dk = 128,
     .dv = 128,
     .activation = SB_DTYPE_BF16,
     .rule_state = {"initial_state", "output_state"},
     .lengths = "cu_seqlens",
     .indices = {"state_indices"}},
    {.name = "mlx",
     .source = "mlx-lm 0c5550a3 gated_delta.py",
     .padded = 1,
     .mask = 1,
     .alpha = 1,
     .scaled = 1,
     .value_first = 1,
     .dk = 32,
     .dv = 8,
     .history = 3,
     .activation = SB_DTYPE_BF16,
     .rule_state = {"state_in", "state_out"},
     .conv_state = {"conv_state", "conv_state"},
     .x = "x"},
    {.name = "llamacpp",
     .source = "llama.cpp 156ce1c1 delta-net-base.cpp",
     .padded = 1,
     .tiled = 1,
     .value_first = 1,
     .channels_first = 1,
     .dk = 16,
     .dv = 16,
     .history = 3,
     .activation = SB_DTYPE_F32,
     .rule_state = {"state", "state"},
     .conv_state = {"conv_states", "conv_states"},
     .x = "x"},
};

const sb_protocol_layout *sb_protocol_layout_at(size_t i)
{
    return i < sizeof layouts / sizeof *layouts ? &layouts[i] : NULL;
}

const sb_protocol_layout *sb_protocol_layout_find(const char *name)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (strcmp(layouts[i].name, name) == 0)
            return &layouts[i];
    return NULL;
}

/* --- shapes ----------------------------------------------------------------------------------- */

static size_t longest(const sb_protocol_round *r)
{
    size_t rows = 0;
    for (size_t n = 0; n < r->entries; n++)
        rows = r->entry[n].rows > rows ? r->entry[n].rows : rows;
    return rows;
}

static sb_protocol_tensor *add(sb_protocol_tensor *list, size_t *count, sb_protocol_kind kind,
                               const char *name, sb_dtype dtype, const char *axes)
{
    sb_protocol_tensor *t = &list[(*count)++];
    *t = (sb_protocol_tensor){.kind = kind, .name = name, .dtype = dtype, .axes = axes, .count = 1};
    return t;
}

static void size(sb_protocol_tensor *t, uint64_t n)
{
    t->shape[t->rank++] = n;
    t->count *= (size_t)n;
}

/* Shape of rows: (1, rows, heads, width) in packed batches, (entry, token, heads, width) in padded
 * ones. The convolution has no heads axis; its llama.cpp input has tokens last. */
static void size_rows(const sb_protocol *p, const sb_protocol_round *r, sb_protocol_tensor *t,
                      size_t heads, size_t width, int tokens_last)
{
    const sb_protocol_layout *l = p->layout;
    if (p->conv) {
        t->axes = !l->padded    ? "row,channel"
                  : tokens_last ? "entry,channel,token"
                                : "entry,token,channel";
        if (l->padded)
            size(t, r->entries);
        if (tokens_last)
            size(t, width);
        size(t, l->padded ? longest(r) : r->rows);
        if (!tokens_last)
            size(t, width);
        return;
    }
    t->axes = l->flat      ? width > 1 ? "row,head,column" : "row,head"
              : !l->padded ? width > 1 ? "batch,row,head,column" : "batch,row,head"
              : width > 1  ? "entry,token,head,column"
                           : "entry,token,head";
    if (!l->flat)
        size(t, l->padded ? r->entries : 1);
    size(t, l->padded ? longest(r) : r->rows);
    size(t, heads);
    if (width > 1)
        size(t, width);
}

static void size_state(const sb_protocol *p, const sb_protocol_round *r, sb_protocol_tensor *t)
{
    const sb_protocol_layout *l = p->layout;
    size(t, l->pool ? p->slots : r->entries);
    if (p->conv) {
        size_t columns = l->pool ? p->columns : l->history;
        t->axes = l->channels_first ? "slot,channel,column" : "slot,column,channel";
        size(t, l->channels_first ? p->channels : columns);
        size(t, l->channels_first ? columns : p->channels);
        return;
    }
    t->axes = l->value_first ? "slot,head,value,key" : "slot,head,key,value";
    size(t, p->v_heads);
    size(t, l->value_first ? p->dv : p->dk);
    size(t, l->value_first ? p->dk : p->dv);
}

static void add_number(sb_protocol_tensor *list, size_t *count, size_t which, const char *name,
                       const char *axes, uint64_t rows, uint64_t cols)
{
    sb_protocol_tensor *t = add(list, count, SB_PROTOCOL_NUMBER, name, SB_DTYPE_I32, axes);
    t->which = which;
    size(t, rows);
    if (cols)
        size(t, cols);
}

static void add_numbers(const sb_protocol *p, const sb_protocol_round *r, sb_protocol_tensor *list,
                        size_t *count)
{
    const sb_protocol_layout *l = p->layout;
    if (!l->padded)
        add_number(list, count, SB_PROTOCOL_LENGTHS,
                   p->conv && l->null_slot ? "query_start_loc" : l->lengths, "entry",
                   r->entries + 1, 0);
    if (l->mask)
        add_number(list, count, SB_PROTOCOL_MASK, "mask", "entry,token", r->entries, longest(r));
    if (!l->pool)
        return;
    int rows = r->verify && !p->conv;
    add_number(list, count, SB_PROTOCOL_INDICES, l->indices[p->conv], rows ? "entry,row" : "entry",
               r->entries, rows ? p->row : 0);
    if (r->verify)
        add_number(list, count, SB_PROTOCOL_ACCEPTED, "num_accepted_tokens", "entry", r->entries,
                   0);
    else if (!l->prompts)
        add_number(list, count, SB_PROTOCOL_STARTED, "has_initial_state", "entry", r->entries, 0);
}

size_t sb_protocol_tensors(const sb_protocol *p, const sb_protocol_round *r,
                           sb_protocol_tensor out[SB_PROTOCOL_TENSORS])
{
    static const char *const names[] = {"q", "k", "v", "g", "beta"};
    const sb_protocol_layout *l = p->layout;
    size_t count = 0;
    for (size_t w = 0; w < p->inputs; w++) {
        sb_dtype dtype = !p->conv && w > 2 ? SB_DTYPE_F32 : l->activation;
        sb_protocol_tensor *t =
            add(out, &count, SB_PROTOCOL_INPUT, p->conv ? l->x : names[w], dtype, "");
        t->which = w;
        size_rows(p, r, t, p->heads[w], p->width[w], p->conv && l->padded && l->channels_first);
    }
    if (p->conv) {
        sb_protocol_tensor *t =
            add(out, &count, SB_PROTOCOL_WEIGHT, "weight", l->activation, "channel,tap");
        size(t, p->channels);
        size(t, p->taps);
    }
    const char *const *state = p->conv ? l->conv_state : l->rule_state;
    sb_dtype kept = p->conv ? l->activation : SB_DTYPE_F32;
    size_state(p, r, add(out, &count, SB_PROTOCOL_BEFORE, state[0], kept, ""));
    add_numbers(p, r, out, &count);
    size_rows(p, r, add(out, &count, SB_PROTOCOL_OUT, "out", SB_DTYPE_F32, ""), p->out_heads,
              p->out_width, 0);
    size_state(p, r, add(out, &count, SB_PROTOCOL_AFTER, state[1], kept, ""));
    return count;
}

/* --- places ----------------------------------------------------------------------------------- */

/* docs/state.md: "head i there is head (i mod nK) r + floor(i / nK) here, r = nV / nK" */
static size_t head_of(const sb_protocol *p, size_t heads, size_t i)
{
    if (!p->layout->tiled || heads != p->v_heads)
        return i;
    return i % p->k_heads * (p->v_heads / p->k_heads) + i / p->k_heads;
}

static int64_t place_row(const sb_protocol *p, const sb_protocol_round *r,
                         const sb_protocol_tensor *t, size_t i)
{
    int out = t->kind == SB_PROTOCOL_OUT;
    size_t heads = out ? p->out_heads : p->heads[t->which];
    size_t width = out ? p->out_width : p->width[t->which], tokens = longest(r);
    size_t column = i % width, head = i / width % heads, row = i / width / heads;
    if (!out && p->conv && p->layout->padded && p->layout->channels_first) {
        column = i / tokens % width;
        row = i / tokens / width * tokens + i % tokens;
    }
    if (p->layout->padded) {
        const sb_protocol_entry *e = &r->entry[row / tokens];
        if (row % tokens >= e->rows)
            return SB_PROTOCOL_PAD;
        row = e->first + row % tokens;
    }
    return (int64_t)((row * heads + head_of(p, heads, head)) * width + column);
}

/* The state of one entry without a pool: before its first row, or after its last row. */
static int64_t base_of(const sb_protocol *p, const sb_protocol_round *r,
                       const sb_protocol_tensor *t, size_t entry)
{
    const sb_protocol_entry *e = &r->entry[entry];
    int row = t->kind == SB_PROTOCOL_AFTER ? (int)e->rows - 1 : -1;
    if (row < 0 && !e->started)
        return SB_PROTOCOL_ZERO;
    if (p->conv)
        return (int64_t)sb_protocol_window(p, r, e, row);
    return (int64_t)(sb_protocol_slot(r, e, row) * p->size);
}

static int64_t place_state(const sb_protocol *p, const sb_protocol_round *r,
                           const sb_protocol_tensor *t, size_t i)
{
    const sb_protocol_layout *l = p->layout;
    size_t all = t->count / (size_t)t->shape[0], within = i % all;
    int64_t base = l->pool ? (int64_t)(i / all * p->size) : base_of(p, r, t, i / all);
    if (base < 0)
        return base;
    size_t last = (size_t)t->shape[t->rank - 1], before = (size_t)t->shape[t->rank - 2];
    size_t a = within / last % before, b = within % last;
    if (p->conv)
        return base + (int64_t)(l->channels_first ? b * p->channels + a : within);
    size_t head = head_of(p, p->v_heads, within / last / before);
    size_t key = l->value_first ? b : a, value = l->value_first ? a : b;
    return base + (int64_t)((head * p->dk + key) * p->dv + value);
}

int64_t sb_protocol_place(const sb_protocol *p, const sb_protocol_round *r,
                          const sb_protocol_tensor *t, size_t i)
{
    if (t->kind == SB_PROTOCOL_INPUT || t->kind == SB_PROTOCOL_OUT)
        return place_row(p, r, t, i);
    if (t->kind == SB_PROTOCOL_WEIGHT)
        return (int64_t)i;
    return place_state(p, r, t, i);
}

int32_t sb_protocol_number(const sb_protocol_round *r, const sb_protocol_tensor *t, size_t i)
{
    size_t cols = t->rank > 1 ? (size_t)t->shape[1] : 1;
    const sb_protocol_entry *e = &r->entry[i / cols < r->entries ? i / cols : 0];
    switch (t->which) {
    case SB_PROTOCOL_LENGTHS:
        return (int32_t)(i < r->entries ? e->first : r->used);
    case SB_PROTOCOL_INDICES:
        return e->slot[i % cols];
    case SB_PROTOCOL_ACCEPTED:
        return (int32_t)e->accepted;
    case SB_PROTOCOL_STARTED:
        return e->started;
    default:
        return i % cols < e->rows;
    }
}
