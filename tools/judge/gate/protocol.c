/* protocol.c - plans the rounds and draws their inputs. */
#include "tools/judge/gate/protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/root.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/math/fn.h"

enum { CHANNELS = 24, TAPS = 4, LONG_PROMPT = 66, TAIL = 3, DEFAULT_ROUNDS = 8 };

/* --- plan ------------------------------------------------------------------------------------- */

/* The plan between rounds. left: per sequence, the number of stored states from which it can
 * continue. */
typedef struct planner {
    sb_protocol *p;
    int32_t slot[(SB_PROTOCOL_SEQUENCES + 1) * SB_PROTOCOL_ROWS];
    size_t left[SB_PROTOCOL_SEQUENCES];
} planner;

/* V-122: "slot 0 is the first slot of a sequence and live"; "The pool has slots for one
 * sequence more, which are never used" */
static void deal_slots(planner *at)
{
    sb_protocol *p = at->p;
    size_t count = (SB_PROTOCOL_SEQUENCES + 1) * p->row;
    uint64_t key = sb_rng_key(p->seed, "slots");
    for (size_t i = 0; i < count; i++)
        at->slot[i] = (int32_t)i;
    for (size_t i = count - 1; i > 1; i--) {
        size_t j = 1 + sb_rng_below(key, i, (uint32_t)i);
        int32_t t = at->slot[i];
        at->slot[i] = at->slot[j];
        at->slot[j] = t;
    }
    for (size_t i = 0; i < count; i++)
        at->slot[i] += p->layout->null_slot;
    p->slots = count + (size_t)p->layout->null_slot;
}

static sb_protocol_entry *append(sb_protocol_round *r, int sequence, size_t rows)
{
    sb_protocol_entry *e = &r->entry[r->entries++];
    *e = (sb_protocol_entry){.sequence = sequence, .first = r->rows, .rows = rows};
    e->runs = sequence >= 0;
    r->rows += rows;
    return e;
}

/* Padding as in engines: entries of no sequence, with and without rows, with both kinds of
 * indices. */
static void append_padding(const planner *at, sb_protocol_round *r, size_t number)
{
    size_t rows = !r->verify ? 2 : number % 2 ? 0 : 3;
    sb_protocol_entry *e = append(r, -1, rows);
    for (size_t i = 0; i < SB_PROTOCOL_ROWS; i++)
        e->slot[i] = at->p->layout->null_slot && !at->p->conv && number % 3 == 2 ? 0 : -1;
}

static void append_sequence(planner *at, sb_protocol_round *r, size_t s, size_t rows,
                            unsigned accepted)
{
    const sb_protocol *p = at->p;
    sb_protocol_entry *e = append(r, (int)s, rows);
    e->accepted = accepted;
    e->started = 1;
    e->runs = accepted > 0;
    for (size_t i = 0; i < SB_PROTOCOL_ROWS; i++) {
        int used = i < p->row && (r->verify ? i < rows || i < accepted || !e->runs : i == 0);
        e->slot[i] = used ? at->slot[s * p->row + i] : -1;
    }
    if (e->runs)
        at->left[s] = r->verify ? rows : 1;
}

static size_t prompt_rows(const sb_protocol *p, size_t s, size_t number)
{
    static const size_t first[SB_PROTOCOL_SEQUENCES] = {5, 1, 3, 2, LONG_PROMPT};
    if (p->layout->padded && !p->layout->mask)
        return 5;
    return number ? 3 : first[s];
}

/* In the first round all sequences start. In a later round one sequence restarts in its slots, and
 * another one continues. */
static void plan_prompts(planner *at, sb_protocol_round *r, size_t number)
{
    size_t restarts = (at->p->layout->prompts ? number : number / 4) % SB_PROTOCOL_SEQUENCES;
    for (size_t s = 0; s < SB_PROTOCOL_SEQUENCES; s++) {
        if (number && s != restarts && s != (restarts + 2) % SB_PROTOCOL_SEQUENCES)
            continue;
        append_sequence(at, r, s, prompt_rows(at->p, s, number), 1);
        r->entry[r->entries - 1].started = number && s != restarts;
        if (at->p->layout->pool && !at->p->layout->prompts && r->entries == 1)
            append_padding(at, r, number);
    }
}

/* Rows of a verify step: in most cases all. Fewer only where entries may differ in length. */
static size_t verify_rows(const sb_protocol *p, size_t s, size_t number)
{
    if ((p->layout->padded && !p->layout->mask) || (s + number) % 4)
        return SB_PROTOCOL_ROWS;
    return 1 + (number + s / 2) % SB_PROTOCOL_ROWS;
}

/* V-123: "Entries change their order; one sequence is absent from a verify" */
static void plan_verify(planner *at, sb_protocol_round *r, size_t number)
{
    const sb_protocol *p = at->p;
    int odd_one = number % 4 == 2;
    for (size_t i = 0; i < SB_PROTOCOL_SEQUENCES; i++) {
        size_t s = (i + number) % SB_PROTOCOL_SEQUENCES;
        if (odd_one && s == (number + 1) % SB_PROTOCOL_SEQUENCES)
            continue;
        unsigned accepted = 1 + (unsigned)((3 * number + s) % at->left[s]);
        if (p->layout->pool && !p->conv && odd_one && s == number % SB_PROTOCOL_SEQUENCES)
            accepted = 0;
        append_sequence(at, r, s, verify_rows(p, s, number), accepted);
        if (p->layout->pool && i == 1)
            append_padding(at, r, number);
    }
}

static void plan(sb_protocol *p)
{
    planner at = {.p = p};
    deal_slots(&at);
    for (size_t n = 0; n < p->rounds; n++) {
        sb_protocol_round *r = &p->round[n];
        r->verify = n % 4 != 0 && !p->layout->prompts;
        if (r->verify)
            plan_verify(&at, r, n);
        else
            plan_prompts(&at, r, n);
        r->used = r->rows;
        r->rows += p->layout->pool && !p->layout->prompts ? TAIL : 0;
    }
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* V-124: "hold NaN and the bytes 0x7F in turn" - a NaN reveals memory that is multiplied by 0
 * instead of skipped; a number reveals a NaN written to it. */
static float hostile(size_t i)
{
    return sb_f32_from_bits(i % 2 ? 0x7f7f0000u : 0x7fc00000u);
}

static sb_format activation(const sb_protocol *p)
{
    return p->layout->activation == SB_DTYPE_BF16 ? SB_FORMAT_bf16 : SB_FORMAT_f32;
}

static float amplitude(const sb_protocol *p)
{
    return p->regime == SB_GATE_REGIME_huge   ? 0x1p13f
           : p->regime == SB_GATE_REGIME_tiny ? 0x1p-27f
                                              : 1.0f;
}

/* A unit vector, times dk^-1/2 if the caller scales q, rounded to the type. */
static void draw_unit(const sb_protocol *p, uint64_t key, size_t from, int scaled, float *x)
{
    double squares = 1e-6, size = scaled ? sb_sqrt64((double)p->dk) : 1.0;
    for (size_t i = 0; i < p->dk; i++) {
        x[i] = sb_rng_normal(key, from + i);
        squares += (double)x[i] * (double)x[i];
    }
    for (size_t i = 0; i < p->dk; i++)
        x[i] = sb_round_to(activation(p), (float)((double)x[i] / sb_sqrt64(squares) / size));
}

/* Decays: none, complete, some medium and mostly slight ones. Betas: 0, 1 and mostly uniform
 * ones. */
static float draw_decay(uint64_t key, size_t i)
{
    float u = sb_rng_uniform(key, i);
    uint32_t kind = sb_rng_below(key, i + ((uint64_t)1 << 40), 16);
    return kind == 0 ? 0.0f : kind == 1 ? -88.0f : kind < 4 ? -4.0f * u : -0.25f * u;
}

static float draw_beta(uint64_t key, size_t i)
{
    uint32_t kind = sb_rng_below(key, i + ((uint64_t)1 << 40), 16);
    return kind == 0 ? 0.0f : kind == 1 ? 1.0f : sb_rng_uniform(key, i);
}

static void draw_rows(const sb_protocol *p, size_t number, sb_protocol_round *r)
{
    static const char *const names[] = {"q", "k", "v", "g", "beta"};
    for (size_t w = 0; w < p->inputs; w++) {
        char path[40];
        snprintf(path, sizeof path, "round.%zu.%s", number, p->conv ? "x" : names[w]);
        uint64_t key = sb_rng_key(p->seed, path);
        size_t width = p->width[w], count = r->rows * p->heads[w] * width;
        for (size_t i = 0; i < count; i += width) {
            float *x = r->in[w] + i;
            if (!p->conv && w < 2)
                draw_unit(p, key, i, w == 0 && p->layout->scaled, x);
            else if (!p->conv && w == 3)
                *x = draw_decay(key, i);
            else if (!p->conv && w == 4)
                *x = draw_beta(key, i);
            else
                for (size_t j = 0; j < width; j++)
                    x[j] = sb_round_to(activation(p), sb_rng_normal(key, i + j)) * amplitude(p);
        }
    }
}

/* After the decays are drawn, rows of no sequence get hostile values. */
static void spoil_rows(const sb_protocol *p, sb_protocol_round *r)
{
    unsigned char *kept = r->real_row;
    for (size_t n = 0; n < r->entries; n++)
        for (size_t t = 0; t < r->entry[n].rows; t++)
            kept[r->entry[n].first + t] = (unsigned char)(r->entry[n].runs);
    for (size_t w = 0; w < p->inputs; w++)
        for (size_t i = 0, all = p->heads[w] * p->width[w]; i < r->rows * all; i++)
            if (!kept[i / all])
                r->in[w][i] = hostile(i);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int allocate(const sb_protocol *p, sb_protocol_round *r)
{
    size_t pool = p->slots * p->size, out = r->rows * p->out_heads * p->out_width;
    int failed = 0;
    for (size_t w = 0; w < p->inputs; w++)
        failed |= !(r->in[w] = sb_alloc(r->rows * p->heads[w] * p->width[w], sizeof(float)));
    failed |= !(r->real_row = sb_alloc(r->rows, 1));
    failed |= !(r->before = sb_alloc(pool, sizeof(float)));
    failed |= !(r->after = sb_alloc(pool, sizeof(float)));
    failed |= !(r->written = sb_alloc(pool, 1));
    failed |= !(r->out = sb_alloc(out, sizeof(float)));
    failed |= !(r->real_out = sb_alloc(out, sizeof(sb_dd)));
    failed |= !(r->real_after = sb_alloc(pool, sizeof(sb_dd)));
    failed |= !(r->bound_out = sb_alloc(out, sizeof(double)));
    failed |= !(r->bound_after = sb_alloc(pool, sizeof(double)));
    return failed;
}

/* V-128: "The caller clears the slot of a sequence that begins" */
static void clear_new_slots(const sb_protocol *p, sb_protocol_round *r)
{
    for (size_t n = 0; n < r->entries && p->layout->prompts; n++)
        if (!r->entry[n].started)
            memset(r->before + (size_t)r->entry[n].slot[0] * p->size, 0,
                   p->size * sizeof *r->before);
}

static sb_status run_rounds(sb_protocol *p, const sb_op_table *ops)
{
    for (size_t n = 0; n < p->rounds; n++) {
        sb_protocol_round *r = &p->round[n];
        if (allocate(p, r))
            return SB_ERR_MEMORY;
        draw_rows(p, n, r);
        spoil_rows(p, r);
        for (size_t i = 0; i < p->slots * p->size; i++)
            r->before[i] = n ? p->round[n - 1].after[i] : hostile(i);
        clear_new_slots(p, r);
        sb_status status = sb_protocol_exact(p, r, ops);
        if (status)
            return status;
    }
    return SB_OK;
}

static void set_sizes(sb_protocol *p)
{
    const sb_protocol_layout *l = p->layout;
    p->k_heads = 2;
    p->v_heads = 4;
    p->dk = l->dk;
    p->dv = l->dv;
    p->channels = CHANNELS;
    p->taps = TAPS;
    p->columns = l->history + SB_PROTOCOL_ROWS - 1;
    p->row = p->conv || l->prompts ? 1 : SB_PROTOCOL_ROWS;
    p->size = p->conv ? p->columns * CHANNELS : p->v_heads * p->dk * p->dv;
    p->inputs = p->conv ? 1 : SB_PROTOCOL_INPUTS;
    const size_t heads[] = {2, 2, 4, 4, 4}, width[] = {p->dk, p->dk, p->dv, 1, 1};
    for (size_t w = 0; w < p->inputs; w++) {
        p->heads[w] = p->conv ? 1 : heads[w];
        p->width[w] = p->conv ? CHANNELS : width[w];
    }
    p->out_heads = p->conv ? 1 : p->v_heads;
    p->out_width = p->conv ? CHANNELS : p->dv;
}

static sb_status check(const sb_protocol_request *request, sb_protocol *p, sb_error *err)
{
    const char *op = request->op ? request->op : "delta_rule";
    const char *layout = request->layout ? request->layout : "vllm";
    p->layout = sb_protocol_layout_find(layout);
    if (!p->layout)
        return sb_fail(err, SB_ERR_USAGE,
                       "layout is '%s', expected plain, vllm, fla, flashinfer, mlx or llamacpp",
                       SB_SHOW(layout));
    p->conv = strcmp(op, "conv") == 0;
    if (!p->conv && strcmp(op, "delta_rule") != 0)
        return sb_fail(err, SB_ERR_USAGE, "op is '%s', but a protocol needs conv or delta_rule",
                       SB_SHOW(op));
    if (p->layout->prompts && (p->conv || request->chained))
        return sb_fail(err, SB_ERR_USAGE, "layout %s has neither a convolution nor chained rounds",
                       p->layout->name);
    p->rounds = request->rounds ? (size_t)request->rounds : DEFAULT_ROUNDS;
    if (!request->rounds && p->layout->prompts)
        p->rounds = DEFAULT_ROUNDS / 2; /* large states, and every round has prompts */
    if (request->rounds > SB_PROTOCOL_MOST_ROUNDS)
        return sb_fail(err, SB_ERR_USAGE, "rounds is %" PRIu64 ", expected at most %d",
                       (uint64_t)request->rounds, (int)SB_PROTOCOL_MOST_ROUNDS);
    sb_status status =
        sb_gate_regime_find(request->regime ? request->regime : "normal", &p->regime, err);
    if (!status && p->regime != SB_GATE_REGIME_normal && p->regime != SB_GATE_REGIME_tiny &&
        p->regime != SB_GATE_REGIME_huge)
        status =
            sb_fail(err, SB_ERR_USAGE, "regime is '%s', but a protocol needs normal, tiny or huge",
                    SB_SHOW(request->regime));
    p->seed = request->seed;
    p->chained = request->chained;
    if (!status && p->chained && !p->layout->pool)
        status = sb_fail(err, SB_ERR_USAGE,
                         "layout %s has no pool: a kernel cannot continue from its own states",
                         p->layout->name);
    return status;
}

sb_status sb_protocol_make(const sb_protocol_request *request, const sb_op_table *ops,
                           sb_protocol **out, sb_error *err)
{
    *out = NULL;
    sb_protocol *p = sb_alloc(1, sizeof *p);
    if (!p)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a protocol");
    sb_status status = check(request, p, err);
    if (status) {
        free(p);
        return status;
    }
    set_sizes(p);
    uint64_t key = sb_rng_key(p->seed, "weight");
    p->weight = sb_alloc(CHANNELS * TAPS, sizeof *p->weight);
    p->round = sb_alloc(p->rounds, sizeof *p->round);
    status = p->weight && p->round ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; !status && i < CHANNELS * TAPS; i++)
        p->weight[i] = sb_round_to(activation(p), 0.5f * sb_rng_normal(key, i));
    if (!status) {
        plan(p);
        status = run_rounds(p, ops);
    }
    if (status) {
        sb_protocol_free(p);
        return sb_fail(err, status, "out of memory for a protocol");
    }
    *out = p;
    return SB_OK;
}

void sb_protocol_free(sb_protocol *p)
{
    if (!p)
        return;
    for (size_t n = 0; p->round && n < p->rounds; n++) {
        sb_protocol_round *r = &p->round[n];
        for (size_t w = 0; w < SB_PROTOCOL_INPUTS; w++)
            free(r->in[w]);
        free(r->real_row);
        free(r->before);
        free(r->after);
        free(r->written);
        free(r->out);
        free(r->real_out);
        free(r->real_after);
        free(r->bound_out);
        free(r->bound_after);
    }
    free(p->round);
    free(p->weight);
    free(p);
}
