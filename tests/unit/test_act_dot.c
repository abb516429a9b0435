/* test_act_dot.c - sums over quantized inputs, and over an FP8 cache, are exact: MPFR decides.
 *
 * R-2 over K-18 to K-23, and R-12 over K-24. SAMEBIT_CASES / 2500 is the number of layers per
 * kind (default 40). */
#include "tests/lib/suite.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/law.h"
#include "ref/ops/knob.h"
#include "ref/ops/kv_cache.h"
#include "ref/ops/op.h"
#include "tests/lib/plain.h"
#include "tests/lib/poison.h"
#include "tests/unit/act_plain.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { EXACT_BITS = 1200, N = 7, K = 96, T = 3 };

static const char *const isas[] = {"exact", "scalar", "avx2", "avx512", "avx512vnni", "neon"};

static unsigned long cases(void)
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long n = text ? strtoul(text, NULL, 10) / 2500 : 40;
    return n ? n : 1;
}

/* sum = sum + a b, without loss. */
static void add_product(mpfr_t sum, double a, double b)
{
    mpfr_t p;
    mpfr_init2(p, 128);
    assert_int_equal(mpfr_set_d(p, a, MPFR_RNDN), 0);
    assert_int_equal(mpfr_mul_d(p, p, b, MPFR_RNDN), 0);
    assert_int_equal(mpfr_add(sum, sum, p, MPFR_RNDN), 0);
    mpfr_clear(p);
}

static float round_sum(mpfr_t sum)
{
    return mpfr_zero_p(sum) ? 0.0f : mpfr_get_flt(sum, MPFR_RNDN);
}

/* --- layers * --------------------------------------------------------------------------------- */

typedef struct kind {
    const char *settings, *scheme, *form;
    sb_container container;
    sb_format format, scale_format;
    uint32_t block_rows, block_cols, group; /* blocks of the weight; columns of the input */
    int factor, input;                      /* the layer has one */
} kind;

static const kind kinds[] = {
    {"act_fp4=vllm_ref", "nvfp4", "vllm_ref", SB_CONTAINER_nvfp4_ct, SB_FORMAT_e2m1, SB_FORMAT_e4m3,
     1, 16, 16, SB_DIVISOR, SB_DIVISOR},
    {"act_fp4=ct", "nvfp4", "ct", SB_CONTAINER_nvfp4_modelopt, SB_FORMAT_e2m1, SB_FORMAT_e4m3, 1,
     16, 16, SB_MULTIPLIER, SB_MULTIPLIER},
    {"act_fp4=fast act=bf16", "nvfp4", "fast", SB_CONTAINER_nvfp4_ct, SB_FORMAT_e2m1,
     SB_FORMAT_e4m3, 1, 16, 16, SB_DIVISOR, SB_DIVISOR},
    {"act_fp8_group=vllm_cuda", "group", "vllm_cuda", SB_CONTAINER_fp8_block, SB_FORMAT_e4m3,
     SB_FORMAT_f32, 4, 32, 32, 0, 0},
    {"act_fp8_group=sglang", "group", "sglang", SB_CONTAINER_fp8_block, SB_FORMAT_e4m3,
     SB_FORMAT_bf16, 4, 64, 64, 0, 0},
    {"act_fp8_token=vllm", "token", "vllm", SB_CONTAINER_fp8_channel, SB_FORMAT_e4m3, SB_FORMAT_f32,
     1, K, K, 0, 0},
    {"act_fp8_static=vllm", "static", "vllm", SB_CONTAINER_fp8_tensor, SB_FORMAT_e4m3,
     SB_FORMAT_f32, N, K, K, 0, SB_MULTIPLIER},
    {"act_mx=ct", "mxfp4", "ct", SB_CONTAINER_mxfp4, SB_FORMAT_e2m1, SB_FORMAT_e8m0, 1, 32, 32, 0,
     0},
    {"act_mx=ct", "mxfp8", "ct", SB_CONTAINER_mxfp8, SB_FORMAT_e4m3, SB_FORMAT_e8m0, 1, 32, 32, 0,
     0},
};

/* Codes and scales of a layer. */
typedef struct layer {
    unsigned char codes[N * K];
    unsigned char scales[4 * N * K / 16];
    sb_matrix weight;
    float in[T * K], out[T * N];
} layer;

static uint64_t key;
static uint64_t drawn;

static uint32_t draw(uint32_t n)
{
    return sb_rng_below(key, drawn++, n);
}

static sb_factor draw_factor(int direction)
{
    float v = ldexpf(1.0f + (float)draw(1u << 23) * 0x1p-23f, (int)draw(12));
    sb_factor divisor = {SB_DIVISOR, v}, multiplier = {SB_MULTIPLIER, v * 0x1p-14f};
    return direction == SB_MULTIPLIER ? multiplier : divisor;
}

/* Some halves of rows repeat with the other sign: sums that cancel need every bit. */
static void draw_layer(const kind *k, layer *l)
{
    sb_knobs knobs = test_knobs(k->settings);
    uint32_t groups = (K + k->block_cols - 1) / k->block_cols;
    int bits = k->format == SB_FORMAT_e2m1 ? 4 : 8;
    for (size_t i = 0; i < sizeof l->codes; i++)
        do
            l->codes[i] = (unsigned char)draw(256);
        while (bits == 8 && (l->codes[i] & 0x7f) == 0x7f);
    for (size_t i = 0; i < (size_t)N * groups; i++) {
        float s = ldexpf(1.0f + (float)draw(1u << 23) * 0x1p-23f, (int)draw(8) - 7);
        uint32_t code = sb_f32_to_code(k->scale_format, s);
        sb_store_u32(l->scales + i * sb_format_bytes(k->scale_format), code);
    }
    for (size_t i = 0; i < COUNT(l->in); i++)
        l->in[i] = sb_act(&knobs, sb_rng_normal(key, drawn++) * ldexpf(1, (int)draw(6) - 3));
    for (size_t i = 0; i < K / 2; i++) /* the halves of the last row almost cancel */
        l->in[(T - 1) * K + K / 2 + i] = -l->in[(T - 1) * K + i];
    for (size_t i = 0; i < (size_t)K * (size_t)bits / 16; i++)
        l->codes[(size_t)K * (size_t)bits / 16 + i] = l->codes[i];
    l->weight = (sb_matrix){.data = l->codes,
                            .format = k->format,
                            .rows = N,
                            .cols = K,
                            .quant = {.scales = l->scales,
                                      .scale_format = k->scale_format,
                                      .block_rows = k->block_rows,
                                      .block_cols = k->block_cols,
                                      .scale_row = groups,
                                      .scale_col = 1,
                                      .groups = groups,
                                      .stored_rows = N,
                                      .factor = draw_factor(k->factor),
                                      .input = draw_factor(k->input),
                                      .container = k->container}};
    if (!k->input)
        l->weight.quant.input = (sb_factor){SB_NO_FACTOR, 0};
    if (!k->factor)
        l->weight.quant.factor = (sb_factor){SB_NO_FACTOR, 0};
}

static void apply(mpfr_t sum, sb_factor f)
{
    if (f.kind == SB_MULTIPLIER)
        mpfr_mul_d(sum, sum, (double)f.value, MPFR_RNDN);
    else if (f.kind == SB_DIVISOR)
        mpfr_div_d(sum, sum, (double)f.value, MPFR_RNDN);
}

static float oracle(const kind *k, const layer *l, size_t t, uint32_t n)
{
    sb_knobs knobs = test_knobs(k->settings);
    double row[K];
    mpfr_t sum;
    mpfr_init2(sum, EXACT_BITS);
    mpfr_set_zero(sum, 1);
    sb_matrix_wide(&l->weight, n, row);
    for (size_t c = 0; c < K; c += k->group) {
        size_t count = K - c < k->group ? K - c : k->group;
        plain_group g = plain_quantize(&knobs, k->scheme, k->form, l->weight.quant.input,
                                       l->in + t * K + c, count);
        for (size_t i = 0; i < count; i++)
            add_product(sum, row[c + i], g.code[i] * g.scale);
    }
    apply(sum, l->weight.quant.factor);
    apply(sum, l->weight.quant.input);
    float y = sb_act(&knobs, round_sum(sum));
    mpfr_clear(sum);
    return y;
}

/* Counts the outputs that differ from a sum in binary32, and from one over the unquantized input.
 * Without such differences the cases would show nothing. */
static void count_differences(const kind *k, const layer *l, unsigned long *coarse,
                              unsigned long *unquantized)
{
    sb_knobs off = test_knobs(strstr(k->settings, "act=bf16") ? "act=bf16" : "");
    sb_linear_args args = {.weight = &l->weight, .in = l->in, .rows = T};
    float out[T * N];
    args.out = out;
    assert_int_equal(sb_linear_fast(&off, &args), SB_OK);
    for (size_t i = 0; i < T * N; i++)
        *unquantized += out[i] != l->out[i];
    for (size_t t = 0; t < T; t++) {
        double row[K];
        float sum = 0;
        sb_matrix_wide(&l->weight, 0, row);
        for (size_t i = 0; i < K; i++)
            sum += (float)row[i] * l->in[t * K + i];
        *coarse += sum != l->out[t * N];
    }
}

TEST_WITH(test_layers, NULL, test_release)
{
    unsigned long coarse = 0, unquantized = 0, outputs = 0;
    layer *l = malloc(sizeof *l);
    key = sb_rng_key(42, "layers");
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (unsigned long c = 0; c < cases(); c++) {
            sb_knobs knobs = test_knobs(kinds[i].settings);
            draw_layer(&kinds[i], l);
            sb_linear_args args = {.weight = &l->weight, .in = l->in, .rows = T, .out = l->out};
            float want[T * N];
            for (size_t o = 0; o < T * N; o++)
                want[o] = oracle(&kinds[i], l, o / N, (uint32_t)(o % N));
            for (size_t isa = 0; isa < COUNT(isas); isa++) {
                if (sb_dot_select(isas[isa], NULL) != SB_OK)
                    continue;
                assert_int_equal(sb_linear_fast(&knobs, &args), SB_OK);
                test_same(kinds[i].settings, l->out, want, T * N);
            }
            outputs += T * N;
            count_differences(&kinds[i], l, &coarse, &unquantized);
        }
    assert_true(unquantized > outputs / 2 && coarse > outputs / N / 2);
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
    free(l);
}

/* K-17: "factor_last applies the factor to the rounded dot product" - the factors of weight and
 * input are multiplied into one number, which multiplies or divides as in the file. */
TEST(test_factor_last)
{
    unsigned long one_by_one = 0, folded = 0;
    layer *l = malloc(sizeof *l);
    key = sb_rng_key(42, "factor_last");
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (unsigned long c = 0; c < cases(); c++) {
            sb_knobs knobs = test_knobs("dequant=factor_last"), off = test_knobs(kinds[i].settings);
            draw_layer(&kinds[i], l);
            for (unsigned knob = SB_KNOB_act_fp4; knob < SB_KNOB_kv_cache; knob++)
                knobs.value[knob] = off.value[knob];
            sb_linear_args args = {.weight = &l->weight, .in = l->in, .rows = T, .out = l->out};
            assert_int_equal(sb_linear_fast(&knobs, &args), SB_OK);
            sb_factor w = l->weight.quant.factor, x = l->weight.quant.input;
            for (size_t o = 0; o < T * N; o++) {
                double row[K];
                mpfr_t sum;
                mpfr_init2(sum, EXACT_BITS);
                mpfr_set_zero(sum, 1);
                sb_matrix_wide(&l->weight, (uint32_t)(o % N), row);
                for (size_t at = 0; at < K; at += kinds[i].group) {
                    size_t count = K - at < kinds[i].group ? K - at : kinds[i].group;
                    plain_group g = plain_quantize(&knobs, kinds[i].scheme, kinds[i].form, x,
                                                   l->in + o / N * K + at, count);
                    for (size_t j = 0; j < count; j++)
                        add_product(sum, (double)(float)row[at + j],
                                    (double)(float)(g.code[j] * g.scale));
                }
                float y = round_sum(sum), want = y, other = y;
                float both = (w.kind ? w.value : 1) * (x.kind ? x.value : 1);
                want = w.kind == SB_DIVISOR ? y / both : y * both;
                other = w.kind == SB_DIVISOR ? y / w.value / x.value
                                             : y * (w.kind ? w.value : 1) * (x.kind ? x.value : 1);
                one_by_one += other != want;
                apply(sum, w);
                apply(sum, x);
                folded += round_sum(sum) != want;
                mpfr_clear(sum);
                test_same(kinds[i].settings, &l->out[o], &want, 1);
            }
        }
    assert_true(one_by_one > cases() && folded > cases());
    free(l);
}

/* K-2: "act first rounds each parameter to the activation type" - also to binary32, which cannot
 * hold every exact value. */
TEST(test_params_in_binary32)
{
    unsigned long differ = 0;
    layer *l = malloc(sizeof *l);
    key = sb_rng_key(42, "params");
    for (unsigned long c = 0; c < cases(); c++) {
        sb_knobs act = test_knobs("params=act"), stored = test_knobs("");
        float row[K], out[T * N];
        double wide[K];
        draw_layer(&kinds[0], l);
        sb_linear_args args = {.weight = &l->weight, .in = l->in, .rows = T, .out = l->out};
        assert_int_equal(sb_linear_fast(&act, &args), SB_OK);
        for (uint32_t n = 0; n < N; n++) {
            sb_law_row(&l->weight, n, SB_LAW_exact, wide, row);
            for (size_t t = 0; t < T; t++)
                assert_true(l->out[t * N + n] == sb_dot(row, l->in + t * K, K));
        }
        args.out = out;
        assert_int_equal(sb_linear_fast(&stored, &args), SB_OK);
        for (size_t o = 0; o < T * N; o++)
            differ += out[o] != l->out[o];
    }
    assert_true(differ > cases());
    free(l);
}

/* --- the cache * ------------------------------------------------------------------------------ */

/* K-24: "fp8 keeps D4(E4(RN(x / z))) for every element x" */
TEST_WITH(test_store, NULL, test_release)
{
    static const float z[] = {0, 1, 0.0371f, 3e-5f, 7, 0x1p-130f};
    enum { COUNT_X = 3000 };
    float x[COUNT_X], got[COUNT_X], same[COUNT_X];
    unsigned long saturated = 0, zero = 0;
    sb_knobs fp8 = test_knobs("kv_cache=fp8"), act = test_knobs("");
    key = sb_rng_key(42, "cache");
    for (size_t i = 0; i < COUNT_X; i++)
        x[i] = i < 9 ? (float)((int)i - 4) * 0x1p-149f
                     : sb_rng_normal(key, i) * ldexpf(1, (int)sb_rng_below(key, ~i, 24) - 16);
    for (size_t s = 0; s < COUNT(z); s++) {
        double by = z[s] == 0 ? 1 : (double)z[s];
        sb_kv_store(&fp8, z[s], x, COUNT_X, got);
        for (size_t i = 0; i < COUNT_X; i++) {
            double want = plain_e4m3((double)(float)((double)x[i] / by));
            saturated += fabs(want) == 448;
            zero += want == 0;
            if ((double)got[i] != want)
                fail_msg("%a / %a is kept as %a, expected %a", (double)x[i], by, (double)got[i],
                         want);
        }
        assert_true((double)sb_kv_scale(&fp8, z[s]) == by && sb_kv_scale(&act, z[s]) == 1);
        sb_kv_store(&act, z[s], x, COUNT_X, same);
        assert_memory_equal(same, x, sizeof x);
        memcpy(same, x, sizeof x);
        sb_kv_store(&fp8, z[s], same, COUNT_X, same); /* in place */
        assert_memory_equal(same, got, sizeof got);
    }
    assert_true(saturated > 100 && zero > 100);
}

/* RN of the exact dot product times z. */
static float oracle_dot(const float *a, const float *b, size_t stride, size_t n, float z)
{
    mpfr_t sum;
    mpfr_init2(sum, EXACT_BITS);
    mpfr_set_zero(sum, 1);
    for (size_t i = 0; i < n; i++)
        add_product(sum, (double)a[i], (double)b[i * stride]);
    mpfr_mul_d(sum, sum, (double)z, MPFR_RNDN);
    float y = round_sum(sum);
    mpfr_clear(sum);
    return y;
}

enum { HEADS = 4, KV = 2, HD = 12, FIRST = 5, ROWS = 3, ALL = FIRST + ROWS };

/* R-12 with K-24, for one row and head. */
static void plain_attend(const sb_knobs *k, const sb_attention_args *a, size_t t, size_t h,
                         float *o)
{
    size_t n = a->first + t + 1, stride = KV * HD, at = h / (HEADS / KV) * HD;
    float p[ALL], most = -INFINITY, scale = plain_power(HD, -0.5L);
    int inner = SB_IS(k, scores, act);
    for (size_t u = 0; u < n; u++) {
        p[u] =
            oracle_dot(a->q + (t * HEADS + h) * HD, a->keys + u * stride + at, 1, HD, a->key_scale);
        p[u] = (inner ? sb_act(k, p[u]) : p[u]) * scale;
        p[u] = inner ? sb_act(k, p[u]) : p[u];
        most = p[u] > most ? p[u] : most;
    }
    for (size_t u = 0; u < n; u++)
        p[u] = plain_exp(p[u] - most);
    float total = plain_sum(p, n);
    for (size_t u = 0; u < n; u++)
        p[u] = inner ? sb_act(k, p[u] / total) : p[u] / total;
    for (size_t i = 0; i < HD; i++)
        o[i] = sb_act(k, oracle_dot(p, a->values + at + i, stride, n, a->value_scale));
}

/* K-24: "The dot products of R-12 are then multiplied by z before they are rounded" */
TEST_WITH(test_attention_over_codes, NULL, test_release)
{
    static const char *const settings[] = {"kv_cache=fp8", "kv_cache=fp8 act=bf16 scores=act"};
    unsigned long later = 0; /* a second rounding would have changed this many */
    for (unsigned long c = 0; c < cases(); c++)
        for (size_t s = 0; s < COUNT(settings); s++) {
            sb_knobs k = test_knobs(settings[s]);
            float out[ROWS * HEADS * HD], want[ROWS * HEADS * HD], keys[ALL * KV * HD],
                values[ALL * KV * HD], z[2];
            key = sb_rng_key(c, settings[s]);
            for (size_t i = 0; i < 2; i++)
                z[i] = ldexpf(1.0f + sb_rng_uniform(key, i), -6);
            for (size_t i = 0; i < COUNT(keys); i++) {
                keys[i] = sb_rng_normal(key, 10 + i);
                values[i] = sb_rng_normal(key, 9999 + i);
            }
            sb_kv_store(&k, z[0], keys, COUNT(keys), keys);
            sb_kv_store(&k, z[1], values, COUNT(values), values);
            sb_attention_args a = {.q = test_normal(settings[s], ROWS * HEADS * HD, 0, 1.5f),
                                   .keys = keys,
                                   .values = values,
                                   .rows = ROWS,
                                   .first = FIRST,
                                   .heads = HEADS,
                                   .kv_heads = KV,
                                   .hd = HD,
                                   .key_scale = z[0],
                                   .value_scale = z[1],
                                   .out = out};
            assert_int_equal(sb_attention_fast(&k, &a), SB_OK);
            for (size_t i = 0; i < ROWS * HEADS; i++)
                plain_attend(&k, &a, i / HEADS, i % HEADS, want + i * HD);
            test_same(settings[s], out, want, COUNT(out));
            float twice = sb_dot(a.q, keys, HD);
            later += twice * z[0] != oracle_dot(a.q, keys, 1, HD, z[0]);
        }
    assert_true(later > cases() / 8);
}
