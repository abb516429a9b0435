#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/op.h"

#include <stdlib.h>

/* K-11: "act to round scores, scaled scores and probabilities" */
static float inner(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, act) ? sb_act(knobs, x) : x;
}

/* K-11: "f16 rounds q and p to binary16 before their products with keys and values" */
static float narrow(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, f16) ? sb_round_to(SB_FORMAT_f16, x) : x;
}

/* "e_u = exp( RN(s_u - max s) ); p_u = RN( e_u / sum(e) )", in place: what is multiplied with
 * the values, and by what the result is then divided. K-11: "flash takes R(e_u) for p_u and divides
 * at the end: o_t = R( RN( dot over u of R(e_u) with v_u / sum(e) ) )" */
static float softmax(const sb_knobs *knobs, float *s, size_t n)
{
    float largest = s[0];
    for (size_t u = 1; u < n; u++)
        if (s[u] > largest)
            largest = s[u];
    for (size_t u = 0; u < n; u++)
        s[u] = sb_exp(s[u] - largest);
    float total = sb_sum(s, n);
    int flash = SB_IS(knobs, scores, flash);
    for (size_t u = 0; u < n; u++)
        s[u] = flash ? sb_act(knobs, s[u]) : narrow(knobs, inner(knobs, s[u] / total));
    return flash ? total : 1.0f;
}

/* K-24: "the dot products of R-12 are multiplied with z before they are rounded" - room is scratch
 * for 2 n values. */
static float scaled_dot(const float *a, const float *b, size_t stride, size_t n, float scale,
                        double *room)
{
    if (scale == 1.0f)
        return sb_dot_strided(a, 1, b, stride, n);
    sb_scalar factor = SB_SCALAR_ONE;
    factor.mul[0] = scale;
    for (size_t i = 0; i < n; i++) {
        room[i] = (double)a[i];
        room[n + i] = (double)b[i * stride];
    }
    return sb_dot_wide(room, room + n, n, &factor);
}

/* Scratch of one head: probabilities of all positions, a query, and twice as many terms as a dot
 * product has. */
typedef struct head_room {
    float *p, *q;
    double *terms;
} head_room;

static float scale_or_one(float scale)
{
    return scale == 0 ? 1.0f : scale;
}

/* One row of one head over n cached positions. */
static void attend(const sb_knobs *knobs, const sb_attention_args *a, const float *q,
                   size_t kv_head, size_t n, float scale, head_room room, float *out)
{
    size_t stride = a->kv_heads * a->hd;
    const float *keys = a->keys + kv_head * a->hd, *values = a->values + kv_head * a->hd;
    float key_scale = scale_or_one(a->key_scale), value_scale = scale_or_one(a->value_scale);
    float *p = room.p;
    for (size_t i = 0; i < a->hd; i++)
        room.q[i] = narrow(knobs, q[i]);
    for (size_t u = 0; u < n; u++) {
        float dot = scaled_dot(room.q, keys + u * stride, 1, a->hd, key_scale, room.terms);
        float score = inner(knobs, dot);
        p[u] = inner(knobs, score * scale);
    }
    float total = softmax(knobs, p, n);
    for (size_t i = 0; i < a->hd; i++) {
        float sum = scaled_dot(p, values + i, stride, n, value_scale, room.terms);
        out[i] = sb_act(knobs, sum / total);
    }
}

/* "query head j uses key/value head floor(j / (nQ / nKV))" */
sb_status sb_attention_ref(const sb_knobs *knobs, const sb_attention_args *a)
{
    size_t longest = a->first + a->rows, group = a->heads / a->kv_heads;
    int scaled = scale_or_one(a->key_scale) != 1.0f || scale_or_one(a->value_scale) != 1.0f;
    size_t terms = scaled ? 2 * (longest > a->hd ? longest : a->hd) : 0;
    float scale = sb_root_power((double)a->hd, -1, 2);
    float *scratch = sb_alloc(a->heads, (longest + a->hd) * sizeof *scratch);
    double *wide = sb_alloc(a->heads, terms * sizeof *wide);
    sb_status status = scratch && wide ? SB_OK : SB_ERR_MEMORY;
    int64_t heads = status ? 0 : (int64_t)a->heads;
#pragma omp parallel for schedule(static) if (a->rows * a->heads * longest * a->hd > 200000)
    for (int64_t head = 0; head < heads; head++) {
        size_t h = (size_t)head;
        float *mine = scratch + h * (longest + a->hd);
        head_room room = {mine, mine + longest, wide + h * terms};
        for (size_t t = 0; t < a->rows; t++) {
            size_t at = (t * a->heads + h) * a->hd;
            attend(knobs, a, a->q + at, h / group, a->first + t + 1, scale, room, a->out + at);
        }
    }
    free(scratch);
    free(wide);
    return status;
}

/* "the q projection holds per head hd query rows, then hd gate rows" */
sb_status sb_split_gate_ref(const sb_knobs *knobs, const sb_split_gate_args *a)
{
    (void)knobs; /* copies only */
    for (size_t row = 0; row < a->rows * a->heads; row++)
        for (size_t i = 0; i < a->hd; i++) {
            a->query[row * a->hd + i] = a->in[row * 2 * a->hd + i];
            a->gate[row * a->hd + i] = a->in[row * 2 * a->hd + a->hd + i];
        }
    return SB_OK;
}

/* "y = R( RN(o sigmoid(gate)) )"; K-12: "act to round sigmoid(gate)" */
sb_status sb_attn_gate_ref(const sb_knobs *knobs, const sb_attn_gate_args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        float open = sb_sigmoid(a->gate[i]);
        if (SB_IS(knobs, attn_gate, act))
            open = sb_act(knobs, open);
        a->out[i] = sb_act(knobs, a->in[i] * open);
    }
    return SB_OK;
}
