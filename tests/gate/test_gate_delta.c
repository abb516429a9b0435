/* test_gate_delta.c - vectors of the delta rule: plain binary32 kernels pass, row by row and in
 * chunks; broken ones fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate/held.h"
#include "tests/lib/suite.h"

/* Variants of the kernel: a right one, right ones with another order, then mistakes. */
enum {
    RIGHT,
    BACKWARDS,
    LATE_SCALE,     /* dk^-1/2 is applied after the sum, and the decay after the prediction's sum */
    HEAD_MOD,       /* value head h takes key head h mod nK (F30) */
    TURNED,         /* the state is laid out as (value, key) */
    NO_CARRY,       /* the initial state is ignored (F32) */
    UNSCALED,       /* no dk^-1/2 */
    NO_BETA,        /* the correction is not multiplied by beta */
    PREDICTS_FIRST, /* predicts before the state decays */
    LAST_DECAY,     /* an incomplete last chunk takes the decay of its padding, 1 (F31) */
    QUOTIENTS,      /* decays between rows are quotients of decays since the start of the chunk
                     * (B47) */
    CLAMPED,        /* the same, with the divisor clamped to 1e-6 */
    UNSEEN          /* a row does not see its own key */
};

typedef struct kernel {
    const sb_gate_case *c;
    int kind;
    size_t rows, k_heads, v_heads, dk, dv, chunk; /* chunk 0: row by row */
    float *q, *k, *v, *g, *beta;
    float *out, *state, *states;
} kernel;

/* The index of the i-th of n terms in the kernel's order. */
static size_t term(const kernel *x, size_t i, size_t n)
{
    return x->kind == BACKWARDS ? n - 1 - i : i;
}

static float dot(const kernel *x, const float *a, const float *b, size_t stride, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += a[term(x, i, n)] * b[term(x, i, n) * stride];
    return sum;
}

static size_t key_of(const kernel *x, size_t t, size_t h)
{
    size_t head = x->kind == HEAD_MOD ? h % x->k_heads : h / (x->v_heads / x->k_heads);
    return (t * x->k_heads + head) * x->dk;
}

static float root(const kernel *x)
{
    return x->kind == UNSCALED ? 1.0f : 1.0f / sqrtf((float)x->dk);
}

/* q and k of one row and head, with q scaled. */
static void prepare(const kernel *x, size_t t, size_t h, float *q, float *k)
{
    const float *from_q = x->q + key_of(x, t, h), *from_k = x->k + key_of(x, t, h);
    int norm = sb_gate_size(x->c, "l2norm") != 0;
    float of_q = norm ? 1.0f / sqrtf(dot(x, from_q, from_q, 1, x->dk) + 1e-6f) : 1.0f;
    float of_k = norm ? 1.0f / sqrtf(dot(x, from_k, from_k, 1, x->dk) + 1e-6f) : 1.0f;
    for (size_t i = 0; i < x->dk; i++) {
        q[i] = from_q[i] * of_q * (x->kind == LATE_SCALE ? 1.0f : root(x));
        k[i] = from_k[i] * of_k;
    }
}

static void step(const kernel *x, size_t t, size_t h, float *S)
{
    size_t at = t * x->v_heads + h;
    float q[256], k[256], decay = expf(x->g[at]), beta = x->kind == NO_BETA ? 1.0f : x->beta[at];
    prepare(x, t, h, q, k);
    for (size_t j = 0; j < x->dv; j++) {
        float m = dot(x, k, S + j, x->dv, x->dk);
        for (size_t i = 0; i < x->dk; i++)
            S[i * x->dv + j] *= decay;
        if (x->kind == LATE_SCALE)
            m *= decay;
        else if (x->kind != PREDICTS_FIRST)
            m = dot(x, k, S + j, x->dv, x->dk);
        float d = (x->v[at * x->dv + j] - m) * beta;
        for (size_t i = 0; i < x->dk; i++)
            S[i * x->dv + j] += k[i] * d;
        float o = dot(x, q, S + j, x->dv, x->dk);
        x->out[at * x->dv + j] = x->kind == LATE_SCALE ? o * root(x) : o;
    }
}

/* One chunk of one head in the form of R-22, without roundings in between: n rows from `first`. */
enum { LONGEST = 512 };
typedef struct part {
    size_t first, n;
    float q[LONGEST][256], k[LONGEST][256], u[LONGEST][256], G[LONGEST];
} part;

/* exp( G - G of row j ), where G belongs to a later row. */
static float decay_since(const kernel *x, const part *p, float G, size_t j)
{
    if (x->kind == QUOTIENTS)
        return expf(G) / expf(p->G[j]);
    return x->kind == CLAMPED ? expf(G) / fmaxf(expf(p->G[j]), 1e-6f) : expf(G - p->G[j]);
}

/* The correction that each row adds to the state. The corrections of the rows before are known. */
static void solve(const kernel *x, part *p, size_t h, const float *S)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t at = (p->first + i) * x->v_heads + h;
        float weight[LONGEST];
        for (size_t j = 0; j < i; j++)
            weight[j] = dot(x, p->k[i], p->k[j], 1, x->dk) * decay_since(x, p, p->G[i], j);
        for (size_t c = 0; c < x->dv; c++) {
            float m = expf(p->G[i]) * dot(x, p->k[i], S + c, x->dv, x->dk);
            m += dot(x, weight, &p->u[0][c], 256, i);
            p->u[i][c] = (x->v[at * x->dv + c] - m) * (x->kind == NO_BETA ? 1.0f : x->beta[at]);
        }
    }
}

static void chunk(const kernel *x, part *p, size_t h, float *S)
{
    float G = 0.0f;
    for (size_t i = 0; i < p->n; i++) {
        p->G[i] = G += x->g[(p->first + i) * x->v_heads + h];
        prepare(x, p->first + i, h, p->q[i], p->k[i]);
    }
    solve(x, p, h, S);
    for (size_t i = 0; i < p->n; i++) {
        size_t at = (p->first + i) * x->v_heads + h, seen = x->kind == UNSEEN ? i : i + 1;
        float weight[LONGEST];
        for (size_t j = 0; j < seen; j++)
            weight[j] = dot(x, p->q[i], p->k[j], 1, x->dk) * decay_since(x, p, p->G[i], j);
        for (size_t c = 0; c < x->dv; c++)
            x->out[at * x->dv + c] = expf(p->G[i]) * dot(x, p->q[i], S + c, x->dv, x->dk) +
                                     dot(x, weight, &p->u[0][c], 256, seen);
    }
    float end = x->kind == LAST_DECAY && p->n < x->chunk ? 0.0f : G, weight[LONGEST];
    for (size_t a = 0; a < x->dk; a++) {
        for (size_t j = 0; j < p->n; j++)
            weight[j] = p->k[j][a] * decay_since(x, p, end, j);
        for (size_t c = 0; c < x->dv; c++)
            S[a * x->dv + c] =
                S[a * x->dv + c] * expf(end) + dot(x, weight, &p->u[0][c], 256, p->n);
    }
}

static void run_head(const kernel *x, size_t h, part *p)
{
    size_t size = x->dk * x->dv;
    float *S = x->state + h * size;
    for (size_t t = 0; t < x->rows && !x->chunk; t++) {
        step(x, t, h, S);
        memcpy(x->states + (t * x->v_heads + h) * size, S, size * sizeof *S);
    }
    for (size_t t = 0; t < x->rows && x->chunk; t += x->chunk) {
        p->first = t;
        p->n = x->rows - t < x->chunk ? x->rows - t : x->chunk;
        chunk(x, p, h, S);
    }
}

static void turn(const kernel *x)
{
    size_t size = x->dk * x->dv;
    float *copy = malloc(size * sizeof *copy);
    assert_non_null(copy);
    for (size_t h = 0; h < x->v_heads; h++) {
        float *S = x->state + h * size;
        memcpy(copy, S, size * sizeof *S);
        for (size_t i = 0; i < size; i++)
            S[i % x->dv * x->dk + i / x->dv] = copy[i];
    }
    free(copy);
}

static kernel kernel_of(const sb_gate_case *c, int kind, size_t length)
{
    kernel x = {.c = c,
                .kind = kind,
                .chunk = length,
                .rows = sb_gate_size(c, "rows"),
                .k_heads = sb_gate_size(c, "k_heads"),
                .v_heads = sb_gate_size(c, "v_heads"),
                .dk = sb_gate_size(c, "dk"),
                .dv = sb_gate_size(c, "dv"),
                .q = sb_gate_values(c, "q"),
                .k = sb_gate_values(c, "k"),
                .v = sb_gate_values(c, "v"),
                .g = sb_gate_values(c, "g"),
                .beta = sb_gate_values(c, "beta"),
                .state = sb_gate_values(c, "initial_state")};
    x.out = calloc(c->output[0].count, sizeof *x.out);
    x.states = calloc(x.rows * c->output[1].count, sizeof *x.states);
    assert_true(x.q && x.k && x.v && x.g && x.beta && x.state && x.out && x.states);
    return x;
}

static void kernel_free(kernel *x)
{
    float *all[] = {x->q, x->k, x->v, x->g, x->beta, x->state, x->out, x->states};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static kernel kernel_run(const sb_gate_case *c, int kind, size_t length)
{
    kernel x = kernel_of(c, kind, length);
    part *p = malloc(sizeof *p);
    assert_non_null(p);
    if (kind == NO_CARRY)
        memset(x.state, 0, c->output[1].count * sizeof *x.state);
    for (size_t h = 0; h < x.v_heads; h++)
        run_head(&x, h, p);
    if (kind == TURNED)
        turn(&x);
    free(p);
    return x;
}

typedef struct limits {
    double *of[SB_GATE_OUTPUTS];
} limits;

static limits limits_of(const sb_gate_case *c, const char *arith)
{
    limits l = {{NULL}};
    for (size_t o = 0; o < c->outputs; o++)
        l.of[o] = held_bounds(c, arith, o);
    return l;
}

static void limits_free(limits *l)
{
    for (size_t o = 0; o < SB_GATE_OUTPUTS; o++)
        free(l->of[o]);
}

/* The largest quotient of error and bound for each output. `worst` has room for three. */
static void held(const sb_gate_case *c, const limits *l, int kind, size_t length, double *worst)
{
    kernel x = kernel_run(c, kind, length);
    const float *got[] = {x.out, x.state, x.states};
    for (size_t o = 0; o < c->outputs; o++)
        worst[o] = held_worst_in(&c->output[o], l->of[o], got[o]);
    kernel_free(&x);
}

/* The largest quotient of error and bound for one output. */
static double one(const char *op, const char *shape, const char *regime, int kind, size_t length,
                  size_t output)
{
    sb_gate_case *c = held_case(op, shape, regime, SB_DTYPE_BF16);
    limits l = limits_of(c, "fp32");
    double worst[SB_GATE_OUTPUTS] = {0.0};
    held(c, &l, kind, length, worst);
    limits_free(&l);
    sb_gate_case_free(c);
    return worst[output];
}

/* A listed shape. With `few`, and if the shape leaves dk and dv open, they are 8: such tests need
 * only its lengths. */
typedef struct listed {
    char text[96];
} listed;

static listed shape_of(const char *shape, int few)
{
    listed s;
    snprintf(s.text, sizeof s.text, "%s%s", shape,
             few && !strstr(shape, "dk=") ? ",dk=8,dv=8" : "");
    return s;
}

/* Every listed shape in regime normal, and the default shape in every regime and input type. */
static void exact_lies_within_bounds(const char *name)
{
    const sb_gate_op *op = sb_gate_op_find(name);
    for (size_t s = 0; op->shapes[s]; s++)
        held_at(name, op->shapes[s], "normal", SB_DTYPE_BF16, 0.0);
    held_at(name, NULL, "normal", SB_DTYPE_F32, 0.5);
    held_at(name, NULL, "normal", SB_DTYPE_F16, 0.5);
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        if (sb_gate_takes(op, (sb_gate_regime)g))
            held_at(name, NULL, sb_gate_regime_name((sb_gate_regime)g), SB_DTYPE_BF16, 0.5);
}

TEST(exact_lies_within_every_bound)
{
    exact_lies_within_bounds("delta_rule");
    exact_lies_within_bounds("delta_rule_chunk");
}

static double most[SB_GATE_OUTPUTS];

/* The last right kind among kernels with chunks of this length. */
static int last_right(size_t length)
{
    return length == 0 ? LATE_SCALE : length == 64 ? BACKWARDS : RIGHT;
}

static void check_plain(const char *op, const char *shape, const char *regime,
                        const size_t *lengths, size_t count)
{
    sb_gate_case *c = held_case(op, shape, regime, SB_DTYPE_BF16);
    limits l = limits_of(c, "fp32");
    for (size_t o = 0; o < c->outputs; o++)
        assert_true(held_worst_in(&c->output[o], l.of[o], c->output[o].exact) <= 1.0);
    for (size_t n = 0; n < count; n++)
        for (int kind = RIGHT; kind <= last_right(lengths[n]); kind++) {
            double worst[SB_GATE_OUTPUTS] = {0.0};
            held(c, &l, kind, lengths[n], worst);
            for (size_t o = 0; o < c->outputs; o++) {
                most[o] = fmax(most[o], worst[o]);
                if (!(worst[o] <= 1.0))
                    fail_msg("%s %s %s: kernel %d, chunks of %zu: out.%s is at %g", op, shape,
                             regime, kind, lengths[n], c->output[o].name, worst[o]);
            }
        }
    limits_free(&l);
    sb_gate_case_free(c);
}

static void plain_kernels_pass(const char *name, const size_t *lengths, size_t count)
{
    const sb_gate_op *op = sb_gate_op_find(name);
    memset(most, 0, sizeof most);
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        for (size_t s = 0; sb_gate_takes(op, (sb_gate_regime)g) && op->shapes[s]; s++)
            check_plain(name, shape_of(op->shapes[s], 1).text,
                        sb_gate_regime_name((sb_gate_regime)g), lengths, count);
    print_message("%s: error / bound at most %.3f, %.3f of states\n", name, most[0],
                  fmax(most[1], most[2]));
}

TEST(kernels_row_by_row_pass)
{
    static const size_t lengths[] = {0};
    plain_kernels_pass("delta_rule", lengths, 1);
}

/* With fast decays, chunks of 256 rows are outside the bound for chunks of 64. */
TEST(chunks_have_the_length_that_is_declared)
{
    static const char *const ariths[] = {"fp32", "fp32@16", "fp32@256", "fp32@512",
                                         "bf16_mma@256:cuda"};
    static const int kinds[] = {RIGHT, UNSEEN, NO_CARRY, NO_BETA};
    sb_gate_case *c = held_case("delta_rule_chunk", "rows=300,k_heads=1,v_heads=4,dk=8,dv=4",
                                "huge", SB_DTYPE_BF16);
    for (size_t a = 0; a < 5; a++) {
        limits l = limits_of(c, ariths[a]);
        for (size_t k = 0; k < 4; k++) {
            double worst[SB_GATE_OUTPUTS] = {0.0};
            held(c, &l, kinds[k], 256, worst);
            print_message("chunks of 256 rows under %s: kernel %d is at %.3g\n", ariths[a],
                          kinds[k], worst[0]);
            assert_int_equal(worst[0] <= 1.0 && worst[1] <= 1.0, kinds[k] == RIGHT && a >= 2);
        }
        limits_free(&l);
    }
    sb_gate_case_free(c);
}

/* V-143: "row by row or in chunks of as many rows as the arithmetic says, 64 if it says nothing" */
TEST(kernels_in_chunks_pass)
{
    static const size_t lengths[] = {0, 16, 32, 64};
    plain_kernels_pass("delta_rule_chunk", lengths, 4);
}

static void check_bfloat16(const char *op, const char *shape, const char *regime, size_t length)
{
    sb_gate_case *c = held_case(op, shape, regime, SB_DTYPE_BF16);
    kernel x = kernel_run(c, RIGHT, length);
    const float *got[] = {x.out, x.state, x.states};
    for (size_t o = 0; o < c->outputs; o++)
        if (held_outside_bf16(c, "fp32", o, got[o]))
            fail_msg("%s %s: out.%s is outside in bf16", op, regime, c->output[o].name);
    kernel_free(&x);
    sb_gate_case_free(c);
}

TEST(bfloat16_outputs_pass)
{
    for (int g = 0; g < SB_GATE_REGIMES; g++) {
        const char *regime = sb_gate_regime_name((sb_gate_regime)g);
        if (!sb_gate_takes(sb_gate_op_find("delta_rule"), (sb_gate_regime)g))
            continue;
        check_bfloat16("delta_rule", "rows=9,dk=8,dv=8", regime, 0);
        check_bfloat16("delta_rule_chunk", "rows=33,dk=8,dv=8", regime, 16);
        check_bfloat16("delta_rule_chunk", "rows=33,dk=8,dv=8,l2norm=1", regime, 64);
    }
}

TEST(planted_mistakes_fail)
{
    static const struct {
        const char *name, *shape, *regime;
        size_t output;
    } all[] = {
        {"head_map_mod", NULL, "normal", 0},
        {"head_map_mod", "k_heads=4,v_heads=12,dk=16,dv=16", "normal", 0},
        {"decay_after_prediction", NULL, "normal", 0},
        {"state_kept_whole", NULL, "normal", 0},
        {"state_transposed", NULL, "normal", 1},
        {"query_unscaled", "l2norm=1", "normal", 0},
        {"eps_on_mean", "l2norm=1", "tiny", 0},
    };
    static const char *const ops[] = {"delta_rule", "delta_rule_chunk"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t op = 0; op < 2; op++) {
            sb_gate_case *c = held_case(ops[op], all[i].shape, all[i].regime, SB_DTYPE_BF16);
            double worst = held_mistake_in(c, "fp32", all[i].output, all[i].name);
            if (!(worst > 1.0))
                fail_msg("%s %s: %s is at %g", ops[op], all[i].regime, all[i].name, worst);
            sb_gate_case_free(c);
        }
}

TEST(broken_kernels_fail)
{
    for (int kind = HEAD_MOD; kind <= PREDICTS_FIRST; kind++)
        if (!(one("delta_rule", NULL, "normal", kind, 0, kind == TURNED ? 1 : 0) > 1.0))
            fail_msg("kernel %d passes row by row", kind);
    for (int kind = HEAD_MOD; kind <= UNSEEN; kind++)
        if (kind != PREDICTS_FIRST && !(one("delta_rule_chunk", NULL, "normal", kind, 64,
                                            kind == TURNED || kind == LAST_DECAY ? 1 : 0) > 1.0))
            fail_msg("kernel %d passes in chunks", kind);
}

/* F31 needs a length that is not a multiple of the chunk. F32 needs a state, F30 two value heads
 * per key head and more than one key head, B47 decays that leave the range. With inputs that lack
 * this, each kernel passes. */
TEST(mistakes_need_the_inputs_made_for_them)
{
    static const struct {
        const char *shape, *regime;
        int kind;
        size_t length, output;
        int passes;
    } all[] = {
        {"rows=64", "normal", LAST_DECAY, 64, 1, 1},
        {"rows=65", "normal", LAST_DECAY, 64, 1, 0},
        {"rows=63", "normal", LAST_DECAY, 64, 1, 0},
        {"rows=16", "normal", LAST_DECAY, 16, 1, 1},
        {"rows=15", "normal", LAST_DECAY, 16, 1, 0},
        {"rows=17", "normal", LAST_DECAY, 16, 1, 0},
        {"rows=33", "normal", LAST_DECAY, 32, 1, 0},
        {"rows=70,state=0", "normal", NO_CARRY, 64, 0, 1},
        {"rows=70", "normal", NO_CARRY, 64, 0, 0},
        {"k_heads=1,v_heads=3", "normal", HEAD_MOD, 64, 0, 1},
        {"k_heads=2,v_heads=2", "normal", HEAD_MOD, 64, 0, 1},
        {"k_heads=2,v_heads=6", "normal", HEAD_MOD, 64, 0, 0},
        {"rows=9", "normal", QUOTIENTS, 16, 0, 1},
        {"rows=9", "huge", QUOTIENTS, 16, 0, 0},
        {"rows=9", "tiny", CLAMPED, 16, 0, 1},
        {"rows=9", "normal", CLAMPED, 16, 0, 0},
        {"rows=9", "huge", CLAMPED, 16, 0, 0},
        {"rows=33", "ties", NO_BETA, 16, 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *op = "delta_rule_chunk";
        double wrong =
            one(op, all[i].shape, all[i].regime, all[i].kind, all[i].length, all[i].output);
        double right = one(op, all[i].shape, all[i].regime, RIGHT, all[i].length, all[i].output);
        if ((wrong <= 1.0) != all[i].passes || !(right <= 1.0))
            fail_msg("%s %s: kernel %d is at %g, without its mistake at %g", all[i].shape,
                     all[i].regime, all[i].kind, wrong, right);
    }
}

/* --- the real value, computed with MPFR ------------------------------------------------------- */

enum { BITS = 300 };

static double distance(const mpfr_t x, sb_dd y)
{
    mpfr_t d;
    mpfr_init2(d, BITS);
    mpfr_sub_d(d, x, y.hi, MPFR_RNDN);
    mpfr_sub_d(d, d, y.lo, MPFR_RNDN);
    double far = fabs(mpfr_get_d(d, MPFR_RNDN));
    mpfr_clear(d);
    return far;
}

/* The divisor of x[0..dk): its length if the kernel computes the norm, otherwise 1; times dk^1/2 if
 * scaled. */
static void wide_divisor(const kernel *x, const float *from, int scaled, mpfr_t out)
{
    mpfr_t y;
    mpfr_init2(y, BITS);
    int norm = sb_gate_size(x->c, "l2norm") != 0;
    mpfr_set_d(out, norm ? (double)1e-6f : 1.0, MPFR_RNDN);
    for (size_t i = 0; i < x->dk && norm; i++) {
        mpfr_set_flt(y, from[i], MPFR_RNDN);
        mpfr_fma(out, y, y, out, MPFR_RNDN);
    }
    if (scaled)
        mpfr_mul_ui(out, out, (unsigned long)x->dk, MPFR_RNDN);
    mpfr_sqrt(out, out, MPFR_RNDN);
    mpfr_clear(y);
}

/* Computes column j of one head for all rows; s holds that column of the state. Returns the largest
 * distance, relative to the largest value of the case. */
static double wide_column(const kernel *x, size_t h, size_t j, mpfr_t *s)
{
    const sb_gate_output *out = &x->c->output[0], *state = &x->c->output[1],
                         *states = x->c->outputs > 2 ? &x->c->output[2] : NULL;
    mpfr_t m, d, y, decay;
    mpfr_inits2(BITS, m, d, y, decay, (mpfr_ptr)0);
    double worst = 0.0;
    for (size_t i = 0; i < x->dk; i++)
        mpfr_set_flt(s[i], x->state[(h * x->dk + i) * x->dv + j], MPFR_RNDN);
    for (size_t t = 0; t < x->rows; t++) {
        size_t at = t * x->v_heads + h, key = key_of(x, t, h);
        mpfr_set_flt(decay, x->g[at], MPFR_RNDN);
        mpfr_exp(decay, decay, MPFR_RNDN);
        mpfr_set_zero(m, 1);
        for (size_t i = 0; i < x->dk; i++) {
            mpfr_mul(s[i], s[i], decay, MPFR_RNDN);
            mpfr_mul_d(y, s[i], (double)x->k[key + i], MPFR_RNDN);
            mpfr_add(m, m, y, MPFR_RNDN);
        }
        wide_divisor(x, x->k + key, 0, d);
        mpfr_div(m, m, d, MPFR_RNDN);
        mpfr_d_sub(m, (double)x->v[at * x->dv + j], m, MPFR_RNDN);
        mpfr_mul_d(m, m, (double)x->beta[at], MPFR_RNDN);
        mpfr_div(m, m, d, MPFR_RNDN);
        mpfr_set_zero(d, 1);
        for (size_t i = 0; i < x->dk; i++) {
            mpfr_mul_d(y, m, (double)x->k[key + i], MPFR_RNDN);
            mpfr_add(s[i], s[i], y, MPFR_RNDN);
            mpfr_mul_d(y, s[i], (double)x->q[key + i], MPFR_RNDN);
            mpfr_add(d, d, y, MPFR_RNDN);
        }
        wide_divisor(x, x->q + key, 1, y);
        mpfr_div(d, d, y, MPFR_RNDN);
        worst = fmax(worst, distance(d, out->real[at * x->dv + j]));
        for (size_t i = 0; i < x->dk && states; i++)
            worst = fmax(worst, distance(s[i], states->real[(at * x->dk + i) * x->dv + j]));
    }
    for (size_t i = 0; i < x->dk; i++)
        worst = fmax(worst, distance(s[i], state->real[(h * x->dk + i) * x->dv + j]));
    mpfr_clears(m, d, y, decay, (mpfr_ptr)0);
    return worst;
}

static void check_wide(const char *op, const char *shape, const char *regime)
{
    sb_gate_case *c = held_case(op, shape, regime, SB_DTYPE_BF16);
    kernel x = kernel_of(c, RIGHT, 0);
    mpfr_t s[256];
    double size = 0.0;
    for (size_t i = 0; i < x.dk; i++)
        mpfr_init2(s[i], BITS);
    for (size_t o = 0; o < 2; o++)
        for (size_t i = 0; i < c->output[o].count; i++)
            size = fmax(size, fabs(c->output[o].real[i].hi));
    for (size_t h = 0; h < x.v_heads; h++)
        for (size_t j = 0; j < x.dv; j++) {
            double far = wide_column(&x, h, j, s);
            if (!(far <= size * 0x1p-85))
                fail_msg("%s %s %s: head %zu, value %zu is off by %g of %g", op, shape, regime, h,
                         j, far, size);
        }
    for (size_t i = 0; i < x.dk; i++)
        mpfr_clear(s[i]);
    kernel_free(&x);
    sb_gate_case_free(c);
}

TEST(real_values_are_those_of_mpfr)
{
    static const char *const regimes[] = {"normal", "huge", "tiny", "ties", "one-hot", "zeros"};
    for (size_t r = 0; r < sizeof regimes / sizeof *regimes; r++) {
        check_wide("delta_rule", "rows=9,k_heads=2,v_heads=4,dk=7,dv=5", regimes[r]);
        check_wide("delta_rule", "rows=3,k_heads=1,v_heads=3,dk=8,dv=4,l2norm=1", regimes[r]);
        check_wide("delta_rule_chunk", "rows=33,k_heads=2,v_heads=2,dk=8,dv=3", regimes[r]);
    }
    mpfr_free_cache();
}
