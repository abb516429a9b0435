/* protocol_judge.c - judges a kernel's output round by round: values must lie within their bounds,
 * and memory of no sequence must keep every bit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/digest.h"
#include "ref/formats/format.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/gate/protocol.h"

typedef struct judging {
    const sb_protocol *p;
    const sb_gate_arith *ar;
    const sb_safetensors *got;
    sb_protocol_result *out;
} judging;

/* An output of a round: the expected tensor and the kernel's. */
typedef struct held {
    size_t round;
    const sb_protocol_round *r;
    sb_protocol_tensor t;
    const sb_tensor *got, *before; /* before: the kernel's previous round, if chained */
} held;

static sb_format format_of(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16  ? SB_FORMAT_bf16
           : dtype == SB_DTYPE_F16 ? SB_FORMAT_f16
                                   : SB_FORMAT_f32;
}

static size_t width_of(const sb_tensor *t)
{
    return sb_dtype_bits(t->dtype) / 8;
}

static uint32_t bits_at(const sb_tensor *t, size_t i)
{
    const unsigned char *at = t->data + i * width_of(t);
    return width_of(t) == 2 ? (uint32_t)sb_load_u16(at) : sb_load_u32(at);
}

static float value_at(const sb_tensor *t, size_t i)
{
    float x;
    sb_decode(format_of(t->dtype), t->data + i * width_of(t), 1, &x);
    return x;
}

/* x rounded once to the type: first to odd in binary32, which has at least two bits more than the
 * type. */
static double rounded(sb_format format, double x)
{
    if (format == SB_FORMAT_f32)
        return x;
    float near = (float)x;
    uint32_t bits = sb_bits_f32(near);
    if ((double)near != x && !(bits & 1)) {
        int away = sb_wide_abs((double)near) < sb_wide_abs(x);
        near = sb_f32_from_bits(away ? bits + 1 : bits - 1);
    }
    return (double)sb_round_to(format, near);
}

/* --- one element ------------------------------------------------------------------------------ */

static void name_place(const held *h, size_t i, char *text, size_t size)
{
    size_t at[SB_GATE_RANK] = {0}, used = 0;
    for (unsigned d = h->t.rank; d-- > 0;) {
        at[d] = i % (size_t)h->t.shape[d];
        i /= (size_t)h->t.shape[d];
    }
    used = (size_t)snprintf(text, size, "round %zu (%s), %s[", h->round,
                            h->r->verify ? "verify" : "prompts", h->t.name);
    const char *axis = h->t.axes;
    for (unsigned d = 0; d < h->t.rank; d++) {
        size_t length = strcspn(axis, ",");
        used += (size_t)snprintf(text + used, size - used, "%s%.*s %zu", d ? ", " : "", (int)length,
                                 axis, at[d]);
        axis += length + (axis[length] == ',');
    }
    snprintf(text + used, size - used, "]");
}

static int first_failure(sb_protocol_result *out)
{
    int first = !out->fail;
    out->fail = 1;
    return first;
}

/* V-125: "memory to which no row writes keeps every bit" */
static void judge_memory(const judging *j, const held *h, size_t i, float before)
{
    uint32_t now = bits_at(h->got, i);
    uint32_t was = h->before                        ? bits_at(h->before, i)
                   : h->got->dtype == SB_DTYPE_BF16 ? sb_bits_f32(before) >> 16
                                                    : sb_bits_f32(before);
    j->out->count++;
    j->out->identical += now == was;
    j->out->changed += now != was;
    if (now != was && first_failure(j->out)) {
        char place[200];
        name_place(h, i, place, sizeof place);
        snprintf(j->out->words, sizeof j->out->words,
                 "%s: is not a state of this round, but its bits changed from 0x%08" PRIx32
                 " to 0x%08" PRIx32,
                 place, was, now);
    }
}

static void judge_value(const judging *j, const held *h, size_t i, float exact, sb_dd real,
                        double bound)
{
    sb_format format = format_of(h->got->dtype);
    double found = (double)value_at(h->got, i), error = found - real.hi - real.lo;
    int same = format == SB_FORMAT_f32 ? bits_at(h->got, i) == sb_bits_f32(exact)
                                       : found == (double)sb_round_to(format, exact);
    int within = format == SB_FORMAT_f32 ? sb_wide_abs(error) <= bound
                                         : found >= rounded(format, real.hi - bound) &&
                                               found <= rounded(format, real.hi + bound);
    if (j->ar->exact)
        within = same;
    j->out->count++;
    j->out->identical += (size_t)same;
    j->out->outside += !within;
    if (within && bound > 0.0 && format == SB_FORMAT_f32)
        j->out->worst = sb_wide_max(j->out->worst, sb_wide_abs(error) / bound);
    if (!within && first_failure(j->out)) {
        char place[200];
        name_place(h, i, place, sizeof place);
        snprintf(j->out->words, sizeof j->out->words, "%s is %.9g, expected %.17g within %.3g",
                 place, found, real.hi, bound);
    }
}

static void judge_element(const judging *j, const held *h, size_t i)
{
    const sb_protocol *p = j->p;
    const sb_protocol_round *r = h->r;
    int64_t at = sb_protocol_place(p, r, &h->t, i);
    if (h->t.kind == SB_PROTOCOL_OUT) {
        if (at >= 0 && r->real_row[(size_t)at / (p->out_heads * p->out_width)])
            judge_value(j, h, i, r->out[at], r->real_out[at], r->bound_out[at]);
    } else if (!r->written[at]) {
        judge_memory(j, h, i, r->before[at]);
    } else {
        judge_value(j, h, i, r->after[at], r->real_after[at], r->bound_after[at]);
    }
}

/* --- tensors ---------------------------------------------------------------------------------- */

static sb_status wrong_shape(const sb_tensor *found, const sb_protocol_tensor *wanted,
                             const char *name, sb_error *err)
{
    sb_shape_text own, other;
    sb_tensor expected = *found;
    expected.rank = wanted->rank;
    memcpy(expected.shape, wanted->shape, wanted->rank * sizeof *wanted->shape);
    return sb_fail(err, SB_ERR_INPUT, "%s has the shape %s, expected %s", name,
                   sb_shape_show(found, &own), sb_shape_show(&expected, &other));
}

static sb_status find(const judging *j, size_t round, const sb_protocol_tensor *t,
                      const sb_tensor **out, sb_error *err)
{
    char name[80];
    snprintf(name, sizeof name, "round.%zu.%s", round, t->name);
    for (size_t i = 0; i < j->got->count; i++) {
        const sb_tensor *g = &j->got->tensors[i];
        if (strcmp(g->name, name) != 0)
            continue;
        if (g->rank != t->rank || memcmp(g->shape, t->shape, t->rank * sizeof *t->shape) != 0)
            return wrong_shape(g, t, name, err);
        int memory = t->kind == SB_PROTOCOL_AFTER && j->p->layout->pool;
        if (g->dtype != t->dtype &&
            (memory ||
             (g->dtype != SB_DTYPE_F32 && g->dtype != SB_DTYPE_BF16 && g->dtype != SB_DTYPE_F16)))
            return sb_fail(err, SB_ERR_INPUT, "%s is %s, expected %s%s", name,
                           sb_dtype_name(g->dtype), memory ? sb_dtype_name(t->dtype) : "a float",
                           memory ? ", the type of the pool that was given" : "");
        *out = g;
        return SB_OK;
    }
    return sb_fail(err, SB_ERR_INPUT, "%s is missing", name);
}

static sb_status judge_round(const judging *j, size_t round, const sb_tensor **memory,
                             sb_error *err)
{
    held h = {.round = round, .r = &j->p->round[round]};
    sb_protocol_tensor t[SB_PROTOCOL_TENSORS];
    size_t tensors = sb_protocol_tensors(j->p, h.r, t);
    sb_status status = SB_OK;
    for (size_t n = 0; n < tensors && !status; n++) {
        if (t[n].kind != SB_PROTOCOL_OUT && t[n].kind != SB_PROTOCOL_AFTER)
            continue;
        h.t = t[n];
        h.before = j->p->chained && t[n].kind == SB_PROTOCOL_AFTER ? *memory : NULL;
        status = find(j, round, &t[n], &h.got, err);
        for (size_t i = 0; i < t[n].count && !status; i++)
            judge_element(j, &h, i);
        if (t[n].kind == SB_PROTOCOL_AFTER)
            *memory = h.got;
    }
    return status;
}

sb_status sb_protocol_judge_got(const sb_protocol *p, const sb_gate_arith *ar,
                                const sb_safetensors *got, sb_protocol_result *out, sb_error *err)
{
    const judging j = {p, ar, got, out};
    const sb_tensor *memory = NULL;
    sb_status status = SB_OK;
    memset(out, 0, sizeof *out);
    for (size_t n = 0; n < p->rounds && !status; n++)
        status = judge_round(&j, n, &memory, err);
    if (!status && !out->fail)
        snprintf(
            out->words, sizeof out->words,
            "%zu elements in %zu rounds, %zu of them bit for bit; worst error %.3g of its bound",
            out->count, p->rounds, out->identical, out->worst);
    return status;
}

sb_status sb_protocol_judge(const char *path, const char *got_path, const char *named,
                            sb_protocol_result *out, sb_error *err)
{
    sb_protocol *p;
    sb_gate_arith ar;
    sb_safetensors got;
    sb_status status = sb_protocol_read(path, named, &p, &ar, err);
    if (status)
        return status;
    status = sb_safetensors_open(got_path, &got, err);
    if (!status) {
        status = sb_protocol_judge_got(p, &ar, &got, out, err);
        sb_safetensors_close(&got);
    }
    sb_protocol_free(p);
    return status;
}
