#include "tools/check/floor/floor.h"

double sb_floor_kv_bytes(sb_declared_kv kv)
{
    return kv == SB_KV_NONE ? 2 : kv == SB_KV_NVFP4 ? 0.5625 : 1;
}

/* B-6: "E (1 - (1 - k/E)^w)", by repeated products. */
double sb_floor_union(uint32_t experts, uint32_t k, uint32_t width)
{
    double missed = 1;
    for (uint32_t i = 0; i < width; i++)
        missed *= 1 - (double)k / experts;
    return width == 1 ? k : experts * (1 - missed);
}

/* B-2: "the bytes of all experts, times the number of them that are read, divided by E" */
static double experts_read(const sb_ledger *l, const sb_ledger_row *row, uint32_t width)
{
    const sb_config *c = &l->config;
    if (!c->experts)
        return (double)row->stored;
    double routed = sb_floor_union(c->experts, c->experts_per_token, width);
    return (double)(row->stored - row->routed) + (double)row->routed * routed / c->experts;
}

/* B-1: "the head is the embedding where config.json ties them" */
static double head_read(const sb_ledger *l, int in_mtp)
{
    if (in_mtp && l->mtp[SB_FLOOR_head].stored)
        return (double)l->mtp[SB_FLOOR_head].stored;
    return (double)l->trunk[l->config.tie_embeddings ? SB_FLOOR_embedding : SB_FLOOR_head].stored;
}

/* B-1: "The embedding is read one row per token" */
static double embedding_read(const sb_ledger *l, int in_mtp, uint32_t width)
{
    const sb_ledger_row *row = &l->trunk[SB_FLOOR_embedding];
    if (in_mtp && l->mtp[SB_FLOOR_embedding].stored)
        row = &l->mtp[SB_FLOOR_embedding];
    return (double)row->stored / l->config.vocab_size * width;
}

/* The weights read by a pass over `width` tokens. */
static void read_weights(const sb_ledger *l, int in_mtp, uint32_t width, sb_floor_pass *pass)
{
    const sb_ledger_row *rows = in_mtp ? l->mtp : l->trunk;
    for (unsigned i = 0; i < SB_FLOOR_CLASSES; i++)
        pass->read[i] = i < SB_FLOOR_head ? (double)rows[i].stored : 0;
    pass->read[SB_FLOOR_experts] = experts_read(l, &rows[SB_FLOOR_experts], width);
    pass->read[SB_FLOOR_head] = head_read(l, in_mtp);
    pass->read[SB_FLOOR_embedding] = embedding_read(l, in_mtp, width);
}

/* B-3: "read once and written once per pass" */
static void move_state(const sb_config *c, const sb_floor_options *o, uint32_t width,
                       sb_floor_pass *pass)
{
    uint32_t linear = 0;
    for (uint32_t i = 0; i < c->layers; i++)
        linear += !c->layer_is_full[i];
    double values = (double)c->lin_v_heads * c->lin_k_dim * c->lin_v_dim;
    pass->state = 2 * values * o->state_bytes * linear;
    /* B-3: "the last kw - 1 columns are read, and one is written per token" */
    pass->conv = 2.0 * sb_config_conv_channels(c) * (c->conv_kernel - 1 + width) * linear;
}

/* B-4: "2 nKV hd values per attention layer and token" */
static double kv_of(const sb_config *c, const sb_floor_options *o, uint32_t layers)
{
    return 2.0 * sb_config_kv_width(c) * layers * o->kv_bytes;
}

static void move_kv(double per_token, const sb_floor_options *o, uint32_t width,
                    sb_floor_pass *pass)
{
    pass->kv_read = per_token * (double)o->context;
    pass->kv_written = per_token * width;
}

static void add_up(sb_floor_pass *pass)
{
    pass->total = pass->state + pass->conv + pass->kv_read + pass->kv_written;
    for (unsigned i = 0; i < SB_FLOOR_CLASSES; i++)
        pass->total += pass->read[i];
}

static uint32_t attention_layers(const sb_config *c)
{
    uint32_t full = 0;
    for (uint32_t i = 0; i < c->layers; i++)
        full += c->layer_is_full[i];
    return full;
}

static void trunk_pass(const sb_ledger *l, const sb_floor_options *o, uint32_t width,
                       sb_floor_pass *pass)
{
    read_weights(l, 0, width, pass);
    move_state(&l->config, o, width, pass);
    move_kv(kv_of(&l->config, o, attention_layers(&l->config)), o, width, pass);
    add_up(pass);
}

/* B-7: "1 + a + ... + a^K" */
double sb_floor_emitted(uint32_t draft, double accept)
{
    double sum = 1, power = 1;
    for (uint32_t i = 0; i < draft; i++)
        sum += power *= accept;
    return sum;
}

/* B-8: "the smallest a at which a round costs no more per emitted token", by halving an interval;
 * 2 if there is none. */
double sb_floor_break_even(uint32_t draft, double need)
{
    double low = 0, high = 1;
    if (sb_floor_emitted(draft, 1) < need)
        return 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (sb_floor_emitted(draft, middle) < need)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static void speculate(const sb_ledger *l, const sb_floor_options *o, sb_floor *f)
{
    const sb_config *c = &l->config;
    trunk_pass(l, o, o->draft + 1, &f->verify);
    read_weights(l, 1, 1, &f->draft);
    move_kv(kv_of(c, o, 1), o, 1, &f->draft);
    add_up(&f->draft);
    f->experts = c->experts ? sb_floor_union(c->experts, c->experts_per_token, o->draft + 1) : 0;
    f->emitted = sb_floor_emitted(o->draft, o->accept);
    /* B-7: "a verification of K + 1 tokens and K steps of the MTP head" */
    f->round = f->verify.total + o->draft * f->draft.total;
    f->rounds = o->bandwidth / f->round;
    f->spec_rate = f->rounds * f->emitted;
    f->break_even = sb_floor_break_even(o->draft, f->round / f->token.total);
}

void sb_floor_compute(const sb_ledger *l, const sb_floor_options *o, sb_floor *f)
{
    *f = (sb_floor){.kv_token = kv_of(&l->config, o, attention_layers(&l->config))};
    trunk_pass(l, o, 1, &f->token);
    f->rate = o->bandwidth / f->token.total; /* B-5: "bandwidth / bytes" */
    if (o->draft)
        speculate(l, o, f);
}

double sb_floor_implied(const sb_floor *f, const sb_floor_options *o, double claim)
{
    return o->draft ? claim / f->emitted * f->round : claim * f->token.total;
}
