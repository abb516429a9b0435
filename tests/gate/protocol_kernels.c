#include "tests/gate/protocol_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"

/* A tensor in binary64, which holds all binary32 values, quiet NaN included. */
typedef struct array {
    double *x;
    uint64_t shape[SB_GATE_RANK];
    unsigned rank;
    size_t count;
} array;

typedef struct output {
    array a;
    char name[80];
    unsigned char *bytes;
} output;

struct kernel_run {
    const sb_protocol *p;
    kernel_way way;
    sb_protocol_part *parts;
    size_t part_count;
    output out[2 * SB_PROTOCOL_MOST_ROUNDS];
    sb_tensor tensor[2 * SB_PROTOCOL_MOST_ROUNDS];
    sb_safetensors got;
};

/* The tensors of the round being computed. */
typedef struct work {
    const kernel_run *k;
    int verify, entries;
    size_t tokens; /* per padded entry */
    array q, key, v, g, beta, x, weight;
    array lengths, indices, accepted, started, mask;
    array out, before, after;
} work;

const char *kernel_fault_name(kernel_fault fault)
{
    static const char *const names[] = {"right",
                                        "first slot (F08)",
                                        "window kept (F09)",
                                        "accepted swapped (F11)",
                                        "zero wraps (F12)",
                                        "pad is slot 0 (F16)",
                                        "stale state",
                                        "stray write",
                                        "padding leaks",
                                        "transposed state",
                                        "drift",
                                        "other decay"};
    return names[fault];
}

static void *need(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

/* The tensor "round.N.in.NAME". Its rank is 0 if the layout has no such tensor. */
static array fetch(const kernel_run *k, size_t round, const char *group, const char *name)
{
    char full[80];
    array a = {.x = NULL};
    snprintf(full, sizeof full, "round.%zu.%s%s", round, group, name);
    for (size_t n = 0; n < k->part_count; n++) {
        const sb_protocol_part *t = &k->parts[n];
        if (strcmp(t->name, full) != 0)
            continue;
        size_t width = sb_dtype_bits(t->dtype) / 8;
        a.rank = t->rank;
        a.count = t->size / width;
        memcpy(a.shape, t->shape, sizeof a.shape);
        a.x = need(a.count, sizeof *a.x);
        for (size_t i = 0; i < a.count; i++) {
            const unsigned char *at = t->bytes + i * width;
            if (t->dtype == SB_DTYPE_I32)
                a.x[i] = (double)(int32_t)sb_load_u32(at);
            else if (width < 8) /* only the shape of binary64 tensors is needed */
                a.x[i] = (double)sb_f32_from_bits(width == 2 ? (uint32_t)sb_load_u16(at) << 16
                                                             : sb_load_u32(at));
        }
    }
    return a;
}

static double R(const work *w, double x)
{
    return w->k->way.wide ? x : (double)(float)x;
}

/* --- delta rule ------------------------------------------------------------------------------- */

static size_t state_at(const work *w, size_t slot, size_t h, size_t i, size_t j)
{
    const sb_protocol *p = w->k->p;
    int value_first = p->layout->value_first != (w->k->way.fault == KERNEL_TRANSPOSED);
    size_t head = slot * p->v_heads + h;
    return value_first ? (head * p->dv + j) * p->dk + i : (head * p->dk + i) * p->dv + j;
}

/* One step of one head for one row. S is (dk, dv). `leak` is another row's key, or NULL. */
static void rule_step(const work *w, size_t row, size_t h, const double *leak, double *S)
{
    const sb_protocol *p = w->k->p;
    size_t dk = p->dk, dv = p->dv, nV = p->v_heads, nK = p->k_heads;
    size_t kh = p->layout->tiled ? h % nK : h / (nV / nK);
    const double *q = w->q.x + (row * nK + kh) * dk, *key = w->key.x + (row * nK + kh) * dk;
    const double *v = w->v.x + (row * nV + h) * dv;
    double g = w->g.x[row * nV + h], beta = w->beta.x[row * nV + h];
    int alpha = p->layout->alpha != (w->k->way.fault == KERNEL_OTHER_DECAY);
    double decay = alpha ? g : R(w, exp(g));
    double scale = p->layout->scaled          ? 1.0
                   : p->layout->scale != 0.0f ? (double)p->layout->scale
                                              : R(w, 1.0 / sqrt((double)dk));
    for (size_t j = 0; j < dv; j++) {
        double read = 0.0, y = 0.0;
        for (size_t n = 0; n < dk; n++) {
            size_t i = w->k->way.reversed ? dk - 1 - n : n;
            double *s = &S[i * dv + j];
            *s = R(w, *s * decay);
            read = R(w, read + R(w, *s * key[i]));
        }
        double d = R(w, R(w, v[j] - read) * beta);
        for (size_t n = 0; n < dk; n++) {
            size_t i = w->k->way.reversed ? dk - 1 - n : n;
            double *s = &S[i * dv + j];
            *s = R(w, *s + R(w, key[i] * d));
            if (leak)
                *s += 0.0 * leak[kh * dk + i];
            y = R(w, y + R(w, *s * R(w, q[i] * scale)));
        }
        w->out.x[(row * nV + h) * dv + j] = y;
    }
}

/* Loads the states of all heads in a slot, (nV, dk, dv); store_rule is the reverse. */
static void load_rule(const work *w, const array *pool, long slot, double *S)
{
    const sb_protocol *p = w->k->p;
    for (size_t h = 0; h < p->v_heads; h++)
        for (size_t i = 0; i < p->dk; i++)
            for (size_t j = 0; j < p->dv; j++)
                S[(h * p->dk + i) * p->dv + j] =
                    slot < 0 ? 0.0 : pool->x[state_at(w, (size_t)slot, h, i, j)];
}

static void store_rule(const work *w, size_t slot, const double *S)
{
    const sb_protocol *p = w->k->p;
    double factor = w->k->way.fault == KERNEL_DRIFT ? 1.001 : 1.0;
    for (size_t h = 0; h < p->v_heads; h++)
        for (size_t i = 0; i < p->dk; i++)
            for (size_t j = 0; j < p->dv; j++)
                w->after.x[state_at(w, slot, h, i, j)] =
                    R(w, factor * S[(h * p->dk + i) * p->dv + j]);
}

static void rule_row(const work *w, size_t row, const double *leak, double *S)
{
    const sb_protocol *p = w->k->p;
    for (size_t h = 0; h < p->v_heads; h++)
        rule_step(w, row, h, leak, S + h * p->dk * p->dv);
}

/* The index of the slot with the state in an entry's row of slots, or of the first column of its
 * conv window. -1: skip the entry. */
static long begin_at(const work *w, int n)
{
    int from = w->k->way.fault == KERNEL_ACCEPTED_SWAPPED && (n ^ 1) < w->entries ? n ^ 1 : n;
    long accepted = w->verify ? (long)w->accepted.x[from] : 1;
    if (w->k->way.fault == KERNEL_FIRST_SLOT)
        return 0;
    if (accepted == 0 && w->k->way.fault == KERNEL_ZERO_WRAPS)
        return SB_PROTOCOL_ROWS - 1;
    return accepted - 1;
}

/* A slot from the indices; -1: padding. */
static long slot_at(const work *w, int n, long column)
{
    int rows = w->indices.rank == 2;
    long slot = (long)w->indices.x[rows ? n * SB_PROTOCOL_ROWS + column : n];
    if (slot < 0 && w->k->way.fault == KERNEL_PAD_IS_ZERO)
        return 0;
    return slot < w->k->p->layout->null_slot ? -1 : slot;
}

static int is_new(const work *w, int n)
{
    return !w->verify && w->k->way.fault != KERNEL_STALE && w->started.x && w->started.x[n] == 0.0;
}

/* plain, vLLM: fused_recurrent with ssm_state_indices. A prompt has one slot for its state. */
static void rule_pool(const work *w)
{
    const sb_protocol *p = w->k->p;
    double *S = need(p->size, sizeof *S);
    for (int n = 0; n < w->entries; n++) {
        size_t first = (size_t)w->lengths.x[n], end = (size_t)w->lengths.x[n + 1];
        long column = begin_at(w, n), slot = column < 0 ? -1 : slot_at(w, n, column);
        if (slot < 0 || first == end)
            continue;
        load_rule(w, &w->before, is_new(w, n) ? -1 : slot, S);
        const double *leak =
            w->k->way.fault == KERNEL_PAD_LEAKS ? w->key.x + end * p->k_heads * p->dk : NULL;
        for (size_t t = 0; first + t < end; t++) {
            rule_row(w, first + t, leak, S);
            long to = w->verify ? slot_at(w, n, (long)t) : slot;
            if (to >= 0 && (w->verify || first + t + 1 == end))
                store_rule(w, (size_t)to, S);
        }
        if (w->k->way.fault == KERNEL_STRAY)
            store_rule(w, ((size_t)slot + 1) % p->slots, S);
    }
    free(S);
}

/* fla, mlx, llama.cpp: one input state and one output state per entry. */
static void rule_each(const work *w)
{
    double *S = need(w->k->p->size, sizeof *S);
    for (int n = 0; n < w->entries; n++) {
        size_t first = w->lengths.x ? (size_t)w->lengths.x[n] : (size_t)n * w->tokens;
        size_t end = w->lengths.x ? (size_t)w->lengths.x[n + 1] : first + w->tokens;
        load_rule(w, &w->before, n, S);
        for (size_t row = first; row < end; row++)
            if (!w->mask.x || w->mask.x[row] != 0.0)
                rule_row(w, row, NULL, S);
        store_rule(w, (size_t)n, S);
    }
    free(S);
}

/* --- convolution ------------------------------------------------------------------------------ */

/* u is (history + rows, channels); only its last 3 + rows columns are used. The output of row t is
 * at out + t * channels. */
static void convolve(const work *w, const double *u, size_t rows, const double *leak, double *out)
{
    const sb_protocol *p = w->k->p;
    size_t c = p->channels, skip = p->layout->history - 3;
    for (size_t t = 0; t < rows; t++)
        for (size_t ch = 0; ch < c; ch++) {
            double sum = leak ? 0.0 * leak[ch] : 0.0;
            for (size_t n = 0; n < 4; n++) {
                size_t j = w->k->way.reversed ? 3 - n : n;
                sum = R(w, sum + R(w, w->weight.x[ch * 4 + j] * u[(skip + t + j) * c + ch]));
            }
            out[t * c + ch] = R(w, sum / R(w, 1.0 + R(w, exp(-sum))));
        }
}

/* plain, vLLM: causal_conv1d_update with num_accepted_tokens, causal_conv1d_fn for prompts. */
static void conv_pool(const work *w)
{
    const sb_protocol *p = w->k->p;
    size_t c = p->channels;
    double *u = need((3 + w->out.count / c) * c, sizeof *u);
    for (int n = 0; n < w->entries; n++) {
        size_t first = (size_t)w->lengths.x[n], rows = (size_t)w->lengths.x[n + 1] - first;
        long offset = begin_at(w, n), slot = slot_at(w, n, 0);
        if (slot < 0 || rows == 0 || (w->verify && offset < 0))
            continue;
        const double *from = w->before.x + (size_t)slot * p->size;
        double *to = w->after.x + (size_t)slot * p->size;
        for (size_t i = 0; i < 3 * c; i++)
            u[i] = is_new(w, n) ? 0.0 : from[(size_t)offset * c + i];
        memcpy(u + 3 * c, w->x.x + first * c, rows * c * sizeof *u);
        convolve(w, u, rows,
                 w->k->way.fault == KERNEL_PAD_LEAKS ? w->x.x + (first + rows) * c : NULL,
                 w->out.x + first * c);
        size_t kept = w->verify ? 2 : 3, skip = w->verify ? 1 : rows;
        memcpy(to, u + skip * c, (w->verify ? kept + rows : kept) * c * sizeof *to);
        if (w->k->way.fault == KERNEL_WINDOW_KEPT && w->verify)
            memcpy(to, from + c, 2 * c * sizeof *to);
        if (w->k->way.fault == KERNEL_STRAY)
            memcpy(w->after.x + ((size_t)slot + 1) % p->slots * p->size, to, c * sizeof *to);
    }
    free(u);
}

/* fla [N, C, 4], mlx [N, 3, C], llama.cpp [N, C, 3] with tokens last in x. */
static void conv_each(const work *w)
{
    const sb_protocol *p = w->k->p;
    size_t c = p->channels, history = p->layout->history;
    int channels = p->layout->channels_first, last = channels && p->layout->padded;
    double *u = need((history + w->out.count / c) * c, sizeof *u);
    for (size_t n = 0; n < (size_t)w->entries; n++) {
        size_t first = w->lengths.x ? (size_t)w->lengths.x[n] : n * w->tokens;
        size_t rows = w->lengths.x ? (size_t)w->lengths.x[n + 1] - first : w->tokens;
        while (w->mask.x && w->mask.x[first + rows - 1] == 0.0)
            rows--;
        for (size_t i = 0; i < history * c; i++) {
            size_t at = channels ? i % c * history + i / c : i;
            u[i] = w->before.x[n * history * c + at];
        }
        for (size_t i = 0; i < rows * c; i++) {
            size_t at = last ? (n * c + i % c) * w->tokens + i / c : first * c + i;
            u[history * c + i] = w->x.x[at];
        }
        convolve(w, u, rows, NULL, w->out.x + first * c);
        double factor = w->k->way.fault == KERNEL_DRIFT ? 1.01 : 1.0;
        for (size_t i = 0; i < history * c; i++) {
            size_t at = channels ? i % c * history + i / c : i;
            w->after.x[n * history * c + at] = factor * u[rows * c + i];
        }
    }
    free(u);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static array copy_of(const array *a)
{
    array b = *a;
    b.x = need(a->count, sizeof *b.x);
    memcpy(b.x, a->x, a->count * sizeof *b.x);
    return b;
}

/* Takes the values of profile exact instead of a kernel's. */
static void take_exact(kernel_run *k, size_t round, work *w)
{
    array out = fetch(k, round, "exact.", "out");
    const char *name = k->p->conv ? k->p->layout->conv_state[1] : k->p->layout->rule_state[1];
    array after = fetch(k, round, "exact.", name);
    memcpy(w->out.x, out.x, out.count * sizeof *out.x);
    memcpy(w->after.x, after.x, after.count * sizeof *after.x);
    free(out.x);
    free(after.x);
}

static void run_round(kernel_run *k, size_t round)
{
    const sb_protocol *p = k->p;
    const sb_protocol_layout *l = p->layout;
    const char *const *names = p->conv ? l->conv_state : l->rule_state;
    work w = {.k = k, .verify = p->round[round].verify};
    array *const input[] = {&w.q, &w.key, &w.v, &w.g, &w.beta};
    static const char *const named[] = {"q", "k", "v", "g", "beta"};
    for (size_t i = 0; i < 5 && !p->conv; i++)
        *input[i] = fetch(k, round, "in.", named[i]);
    w.x = fetch(k, round, "in.", "x");
    w.weight = fetch(k, round, "in.", "weight");
    w.lengths = fetch(k, round, "in.", p->conv && l->null_slot ? "query_start_loc" : "cu_seqlens");
    w.indices = fetch(k, round, "in.", l->pool ? l->indices[p->conv] : "none");
    w.accepted = fetch(k, round, "in.", "num_accepted_tokens");
    w.started = fetch(k, round, "in.", "has_initial_state");
    w.mask = fetch(k, round, "in.", "mask");
    w.out = fetch(k, round, "real.hi.", "out"); /* for its shape */
    w.before =
        p->chained && round ? copy_of(&k->out[2 * round - 1].a) : fetch(k, round, "in.", names[0]);
    w.after = copy_of(&w.before);
    for (size_t i = 0; i < w.out.count; i++)
        w.out.x[i] = 7e7;
    w.entries = (int)(w.lengths.x ? w.lengths.count - 1 : w.before.shape[0]);
    if (l->padded)
        w.tokens = p->conv && l->channels_first ? w.x.shape[2] : (p->conv ? w.x : w.q).shape[1];
    if (k->way.exact)
        take_exact(k, round, &w);
    else if (l->pool)
        (p->conv ? conv_pool : rule_pool)(&w);
    else
        (p->conv ? conv_each : rule_each)(&w);
    array *const all[] = {&w.q,       &w.key,    &w.v,       &w.g,       &w.beta,
                          &w.x,       &w.weight, &w.lengths, &w.indices, &w.accepted,
                          &w.started, &w.mask,   &w.before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->x);
    k->out[2 * round].a = w.out;
    k->out[2 * round + 1].a = w.after;
    snprintf(k->out[2 * round].name, sizeof k->out->name, "round.%zu.out", round);
    snprintf(k->out[2 * round + 1].name, sizeof k->out->name, "round.%zu.%s", round, names[1]);
}

static void encode(kernel_run *k, size_t n)
{
    output *o = &k->out[n];
    int state = n % 2,
        half = state ? k->p->conv && k->p->layout->activation == SB_DTYPE_BF16 : k->way.bf16;
    size_t width = half ? 2 : 4;
    o->bytes = need(o->a.count, width);
    for (size_t i = 0; i < o->a.count; i++) {
        float x = (float)o->a.x[i];
        uint32_t bits = sb_bits_f32(!state && half ? sb_round_to(SB_FORMAT_bf16, x) : x);
        if (half)
            sb_store_u16(o->bytes + 2 * i, (uint16_t)(bits >> 16));
        else
            sb_store_u32(o->bytes + 4 * i, bits);
    }
    sb_tensor *t = &k->tensor[n];
    *t = (sb_tensor){.name = o->name,
                     .dtype = half ? SB_DTYPE_BF16 : SB_DTYPE_F32,
                     .rank = o->a.rank,
                     .data = o->bytes,
                     .bytes = o->a.count * width};
    memcpy(t->shape, o->a.shape, o->a.rank * sizeof *t->shape);
}

kernel_run *kernel_start(const sb_protocol *p, kernel_way way)
{
    kernel_run *k = need(1, sizeof *k);
    sb_error err;
    k->p = p;
    k->way = way;
    if (sb_protocol_parts(p, &k->parts, &k->part_count, &err))
        abort();
    for (size_t n = 0; n < p->rounds; n++)
        run_round(k, n);
    for (size_t n = 0; n < 2 * p->rounds; n++)
        encode(k, n);
    k->got.tensors = k->tensor;
    k->got.count = 2 * p->rounds;
    return k;
}

const sb_safetensors *kernel_got(const kernel_run *k)
{
    return &k->got;
}

double kernel_apart(const kernel_run *k)
{
    double worst = 0.0;
    const sb_protocol *p = k->p;
    for (size_t n = 0; n < 2 * p->rounds; n++) {
        const array *got = &k->out[n].a;
        size_t compared = 0;
        sb_protocol_tensor t[SB_PROTOCOL_TENSORS];
        const sb_protocol_round *r = &p->round[n / 2];
        const sb_protocol_tensor *own = &t[sb_protocol_tensors(p, r, t) - 2 + n % 2];
        for (size_t i = 0; i < got->count; i++) {
            int64_t at = sb_protocol_place(p, r, own, i);
            if (at < 0 ||
                !(n % 2 ? r->written[at] : r->real_row[(size_t)at / (p->out_heads * p->out_width)]))
                continue;
            double real = n % 2 ? r->real_after[at].hi : r->real_out[at].hi;
            double error = fabs(got->x[i] - real) / (1.0 + fabs(real));
            worst = error > worst || error != error ? error : worst;
            compared++;
        }
        if (!compared)
            return INFINITY;
    }
    return worst;
}

void kernel_end(kernel_run *k)
{
    for (size_t n = 0; n < 2 * k->p->rounds; n++) {
        free(k->out[n].a.x);
        free(k->out[n].bytes);
    }
    sb_protocol_parts_free(k->parts, k->part_count);
    free(k);
}
