/* test_lanes.c - kernels that work on many results at a time give the same bits as each result
 * alone, in every kernel set: lengths that are no multiple of a vector, near ties,
 * subnormal, huge and non-finite values. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/fast/fast.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/dots.h"
#include "ref/math/fn.h"
#include "ref/fast/dot/fn_array.h"
#include "ref/math/fn_round.h"
#include "ref/fast/dot/product.h"
#include "ref/fast/dot/sweep.h"
#include "ref/ops/op.h"
#include "tests/unit/families.h"

enum { MOST = 1 << 20 };

static float a[MOST], b[MOST], first[MOST], second[MOST];

typedef enum kind { PLAIN, TIES, HOSTILE, KINDS } kind;

/* TIES: sums like 1 + 2^-24 + 2^-70, which binary64 rounds to a tie. HOSTILE: subnormal, huge, the
 * negative of the value before, zeros of both signs, and now and then a NaN or an infinity. */
static void draw(float *x, size_t n, kind of, uint64_t seed)
{
    static const float steps[] = {1.0f,     0x1p-24f,  0x1p-24f, 0x1.8p-23f,
                                  0x1p-70f, -0x1p-70f, -1.0f,    0.0f};
    const uint64_t key = sb_rng_key(seed, "lanes");
    for (size_t i = 0; i < n; i++) {
        const uint64_t word = sb_rng_u64(key, i);
        x[i] = sb_rng_normal(key, MOST + i);
        if (of == TIES)
            x[i] = steps[word % (seed % 2 ? 6 : 8)];
        else if (of == HOSTILE && word % 7 == 0 && i)
            x[i] = -x[i - 1];
        else if (of == HOSTILE && word % 11 == 0)
            x[i] *= word % 2 ? 0x1p-130f : 0x1p+100f;
        else if (of == HOSTILE && word % 13 == 0)
            x[i] = word % 2 ? 0.0f : -0.0f;
        else if (of == HOSTILE && word % 1009 == 0)
            x[i] = sb_f32_from_bits((uint32_t)(word >> 32));
    }
}

static uint64_t word_of(size_t i)
{
    return sb_rng_u64(sb_rng_key(3, "signs"), i);
}

static void same(const char *what, const char *set, size_t n, const float *got, const float *want,
                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sb_bits_f32(got[i]) != sb_bits_f32(want[i]))
            fail_msg("%s, %s, size %zu: element %zu is %a, not %a", what, set, n, i, (double)got[i],
                     (double)want[i]);
}

static const char *choose(size_t set)
{
    assert_int_equal(sb_dot_select(sb_dot_set(set)->name, NULL), SB_OK);
    return sb_dot_set(set)->name;
}

/* --- functions -------------------------------------------------------------------------------- */

typedef struct function {
    const char *name;
    void (*many)(const float *x, size_t n, float *out);
    float (*one)(float x);
    sb_fn fn;
} function;

static const function functions[] = {{"exp", sb_exp_array, sb_exp, SB_FN_exp},
                                     {"sigmoid", sb_sigmoid_array, sb_sigmoid, SB_FN_sigmoid},
                                     {"silu", sb_silu_array, sb_silu, SB_FN_silu}};

static size_t add_input(size_t n, uint32_t bits)
{
    for (uint32_t step = 0; step < 3; step++)
        a[n + step] = sb_f32_from_bits(bits + step - 1);
    return n + 3;
}

/* All kinds of values, every exception and its neighbours, and the ends of the ranges. */
static size_t inputs(const function *f)
{
    static const float ends[] = {0.0f,      -0.0f,      89.0f,  -104.0f,  104.0f,
                                 -110.0f,   110.0f,     88.72f, 0x1p-60f, -0x1p-60f,
                                 0x1p-149f, -0x1p-126f, 1e38f,  -1e38f,   0x1p-125f};
    size_t n = 200000, count;
    const uint64_t key = sb_rng_key(7, f->name);
    const sb_fn_exception *rows = sb_fn_exceptions(f->fn, &count);
    for (size_t i = 0; i < n; i++)
        a[i] = i % 3 ? family_input(key, i) : 20 * sb_rng_normal(key, i);
    for (size_t i = 0; i < count; i++)
        n = add_input(n, rows[i].input);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        n = add_input(n, sb_bits_f32(ends[i]));
    for (uint32_t i = 0; i < 2; i++)
        n = add_input(add_input(n, 0x7f800000u | i << 31), 0x7fc00000u | i << 31);
    return n;
}

TEST(test_functions)
{
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const size_t n = inputs(&functions[f]);
        for (size_t i = 0; i < n; i++)
            first[i] = functions[f].one(a[i]);
        for (size_t set = 0; sb_dot_set(set); set++) {
            const char *name = choose(set);
            functions[f].many(a, n, second);
            same(functions[f].name, name, n, second, first, n);
            for (size_t length = 0; length < 300; length += length < 40 ? 1 : 37) {
                memcpy(second, a + length, (length + 1) * sizeof *second);
                functions[f].many(second, length, second); /* in place, and not beyond `length` */
                same(functions[f].name, name, length, second, first + length, length);
                same("behind", name, length, second + length, a + 2 * length, 1);
            }
        }
    }
}

/* --- sums ------------------------------------------------------------------------------------- */

static const size_t lengths[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,   24,
                                 31, 32, 33, 39, 40, 64, 255, 256, 257, 300, 1000, 2049};

TEST(test_sums)
{
    for (size_t i = 0; i < 30 * sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i / 30];
        draw(a, n, (kind)(i % KINDS), i);
        choose(0);
        first[0] = sb_sum(a, n);
        first[1] = sb_largest_of(a, n);
        for (size_t set = 1; sb_dot_set(set); set++) {
            const char *name = choose(set);
            second[0] = sb_sum(a, n);
            same("sum", name, n, second, first, 1);
        }
        for (size_t l = 0; l < n; l++)
            assert_false(a[l] > first[1]);
    }
}

TEST(test_dots)
{
    for (size_t i = 0; i < 400; i++) {
        const size_t n = i % 10 == 9 ? 40 : 1 + i % 10, count = 1 + i % 71;
        sb_dots_term terms[40];
        draw(a, n * count, (kind)(i % KINDS), i);
        draw(b, n * count, i % KINDS == TIES ? PLAIN : (kind)(i % KINDS), i + 1000);
        for (size_t l = 0; l < n * count && i % KINDS == TIES; l++)
            b[l] = 1.0f;
        for (size_t t = 0; t < n; t++)
            terms[t] = (sb_dots_term){a + t * count, b + t * count, (i + t) % 3 != 0};
        for (size_t set = 0; sb_dot_set(set); set++) {
            const char *name = choose(set);
            float *out = set ? second : first;
            sb_dots(terms, n, count, out);
            same("dots", name, n * 1000 + count, out, first, count);
        }
    }
}

/* --- the delta rule --------------------------------------------------------------------------- */

TEST(test_sweeps)
{
    static const size_t rows[] = {1, 2, 3, 5, 8, 16, 33, 128, SB_SWEEP_ROWS, SB_SWEEP_ROWS + 1};
    static sb_sweeper by, left;
    for (size_t i = 0; i < 150; i++) {
        const size_t n = rows[i % 10], stride = SB_SWEEP + i % 3;
        const size_t columns = i % 4 ? 1 + i % SB_SWEEP : SB_SWEEP;
        const kind of = (kind)(i / 10 % KINDS);
        float k[SB_SWEEP_ROWS + 1], d[SB_SWEEP], out[2][2 * SB_SWEEP];
        draw(a, n * stride, of, i);
        draw(k, n, of == TIES ? TIES : PLAIN, i + 1000);
        draw(b, n, of == TIES ? PLAIN : of, i + 2000);
        for (size_t l = 0; l < n && of == TIES; l++)
            b[l] = 1.0f;
        draw(d, SB_SWEEP, of, i + 3000);
        for (size_t set = 0; sb_dot_set(set); set++) {
            const char *name = choose(set);
            float *s = set ? second : first, *o = out[set != 0];
            sb_columns S = {.at = s, .stride = stride, .rows = n, .columns = columns};
            memcpy(s, a, n * stride * sizeof *s);
            sb_sweeper_set(&by, b, n);
            sb_sweep_scale(&S, of == TIES ? 1.0f : 0.93f, &by, o);
            memcpy(o + SB_SWEEP, d, sizeof d);
            sb_sweeper_set(&left, k, n);
            sb_sweep_add(&S, &left, o + SB_SWEEP, &by, o + SB_SWEEP); /* over an operand */
            same("swept state", name, n, s, first, n * stride);
            same("swept", name, n, o, out[0], columns);
            same("swept again", name, n, o + SB_SWEEP, out[0] + SB_SWEEP, columns);
        }
    }
}

/* --- attention -------------------------------------------------------------------------------- */

/* Both products of some heads with `rows`, one after the other in out. */
static void products(const float *q, size_t heads, const sb_rows *rows, const float *p, float *out)
{
    static double sums[2 * 3 * 9 * 528];
    double *size = sums + 3 * 9 * 528;
    sb_product_dots(q, heads, rows, out, rows->count);
    out += heads * rows->count;
    for (size_t part = 0; part < sb_product_parts(rows->count); part++)
        sb_product_part(p, rows->count, heads, rows, part, sums, size);
    for (size_t h = 0; h < heads; h++)
        sb_product_join(p + h * rows->count, heads, h, rows, sums, size, out + h * rows->n);
}

TEST(test_products)
{
    static const size_t widths[] = {16, 32, 48, 7, 256, 512, 528, 8, 1};
    static const size_t counts[] = {1, 2, 7, 8, 9, 16, 17, 40, 255, 257, 515, 2047, 2049, 4200};
    for (size_t i = 0; i < 3 * 14 * 2; i++) {
        const size_t count = counts[i / 3 % 14], n = widths[count > 300 ? i % 3 : i % 9];
        const size_t heads = 1 + i % 9, stride = n * (1 + i % 2);
        const kind of = (kind)(i % KINDS);
        float *q = b, *p = b + 9 * 528;
        draw(a, count * stride, of, i);
        draw(q, 9 * 528 + heads * count, of == TIES ? PLAIN : of, i + 1000);
        for (size_t l = 0; l < 9 * 528 + heads * count && of == TIES; l++)
            b[l] = word_of(l) % 2 ? 1.0f : -1.0f;
        const sb_rows rows = {a, stride, count, n, i % 4 == 3 ? 0.37f : 1.0f};
        for (size_t set = 0; sb_dot_set(set); set++) {
            const char *name = choose(set);
            float *out = set ? second : first;
            products(q, heads, &rows, p, out);
            same("products", name, count * 1000 + n, out, first, heads * (count + n));
        }
    }
}

/* The op itself: rows that see different positions, with any number of threads. */
TEST(test_threads)
{
    enum { HD = 32, HEADS = 6, KV = 2 };
    static const struct {
        size_t rows, first;
    } cases[] = {{1, 4500}, {3, 2046}, {70, 5}};
    static const char *const settings[] = {"scores=f32", "scores=flash", "scores=f16",
                                           "scores=act"};
    const int threads = (int)sb_threads();
    for (size_t i = 0; i < 12; i++) {
        const size_t rows = cases[i % 3].rows, n = cases[i % 3].first + rows;
        sb_knobs knobs;
        sb_knobs_exact(&knobs);
        assert_int_equal(sb_knobs_set(&knobs, settings[i / 3], NULL), SB_OK);
        draw(a, n * KV * HD, PLAIN, i);
        draw(b, n * KV * HD + rows * HEADS * HD, PLAIN, i + 1000);
        sb_attention_args args = {.q = b + n * KV * HD, .keys = a, .values = b};
        args.rows = rows;
        args.first = n - rows;
        args.heads = HEADS;
        args.kv_heads = KV;
        args.hd = HD;
        args.key_scale = i % 2 ? 0.7f : 0;
        args.value_scale = i % 2 ? 1.3f : 0;
        for (size_t set = 1; sb_dot_set(set); set++)
            for (int many = 1; many <= 3; many++) {
                const char *name = choose(set);
                sb_threads_set((size_t)many);
                args.out = set == 1 && many == 1 ? first : second;
                assert_int_equal(sb_attention_fast(&knobs, &args), SB_OK);
                same("attention", name, n, args.out, first, rows * HEADS * HD);
            }
        sb_threads_set((size_t)threads);
    }
}
