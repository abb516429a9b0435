/* test_fp4.c - compares the fast pass of the FP4 checks with the definitions, on drawn panels. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/kernels.h"
#include "tools/check/scan/fp4.h"
#include "tools/make/quantize.h"

enum { ROWS = 16, COLS = 96, KEY = 71, WIDEST = 8 * COLS };

/* A quantized matrix, its original, and the results of the pass. */
typedef struct vehicle {
    sb_check_options options;
    sb_check check;
    sb_unit unit;
    sb_matrix matrix, master;
    float weights[ROWS * COLS];
    unsigned char original[2 * ROWS * COLS], codes[ROWS * COLS / 2], scales[ROWS * COLS / 16];
    double scratch[2 * WIDEST];
    sb_seen seen;
    sb_findings findings;
} vehicle;

typedef enum scheme { CT, MODELOPT, FOUR_OVER_SIX, MX, SCHEMES } scheme;

static void fill(vehicle *v)
{
    for (size_t i = 0; i < ROWS * COLS; i++) {
        float w = 0.02f * sb_rng_normal(KEY, i);
        size_t row = i / COLS;
        /* a row of zeros, and a row that rounds to zeros */
        w = row == 7 ? 0.0f : row == 8 ? w * 1e-8f : w;
        v->weights[i] = sb_round_to(SB_FORMAT_bf16, w);
    }
    sb_encode(SB_FORMAT_bf16, v->weights, ROWS * COLS, v->original);
}

static void quantize(vehicle *v, scheme s)
{
    float largest = sb_largest(v->weights, ROWS * COLS), factor = 0;
    sb_scale_rule rule = s == FOUR_OVER_SIX ? SB_SCALE_RULE_four_over_six : SB_SCALE_RULE_amax;
    factor = s == CT ? sb_factor_nvfp4_ct(largest, rule) : sb_factor_nvfp4_modelopt(largest, rule);
    sb_band band = {.weights = v->weights,
                    .rows = ROWS,
                    .cols = COLS,
                    .factor = factor,
                    .rule = rule,
                    .codes = v->codes,
                    .scales = v->scales};
    void (*const by[SCHEMES])(const sb_band *) = {sb_quantize_nvfp4_ct, sb_quantize_nvfp4_modelopt,
                                                  sb_quantize_nvfp4_modelopt, sb_quantize_mxfp4};
    by[s](&band);
    uint32_t group = s == MX ? 32 : 16;
    v->matrix = (sb_matrix){.data = v->codes, .format = SB_FORMAT_e2m1, .rows = ROWS, .cols = COLS};
    v->matrix.quant = (sb_quant){.scales = v->scales,
                                 .scale_format = s == MX ? SB_FORMAT_e8m0 : SB_FORMAT_e4m3,
                                 .block_rows = 1,
                                 .block_cols = group,
                                 .scale_row = COLS / group,
                                 .scale_col = 1,
                                 .groups = COLS / group};
    if (s != MX)
        v->matrix.quant.factor = (sb_factor){s == CT ? SB_DIVISOR : SB_MULTIPLIER, factor};
    v->master =
        (sb_matrix){.data = v->original, .format = SB_FORMAT_bf16, .rows = ROWS, .cols = COLS};
}

static vehicle *new_vehicle(scheme s)
{
    vehicle *v = calloc(1, sizeof *v);
    assert_non_null(v);
    v->check.options = &v->options;
    v->unit = (sb_unit){.name = (char *)(uintptr_t) "layer", .plain = NULL, .kind = NULL};
    fill(v);
    quantize(v, s);
    return v;
}

/* Scans the matrix in two panels, as large matrices are scanned. */
static void pass(vehicle *v, int with_master)
{
    sb_findings_free(&v->findings);
    memset(&v->seen, 0, sizeof v->seen);
    uint32_t rows = v->matrix.rows;
    for (uint32_t first = 0; first < rows; first += rows / 2) {
        sb_matrix part = v->matrix, master = v->master;
        part.first_row = master.first_row = first;
        part.rows = master.rows = rows / 2;
        sb_panel panel = {.check = &v->check,
                          .unit = &v->unit,
                          .name = v->unit.name,
                          .matrix = part,
                          .first = first,
                          .rows = rows,
                          .last = first > 0,
                          .master = with_master ? &master : NULL,
                          .seen = &v->seen,
                          .findings = &v->findings,
                          .scratch = v->scratch};
        sb_scan_fp4(&panel);
    }
    v->seen.done = 1;
}

static void free_vehicle(vehicle *v)
{
    sb_findings_free(&v->findings);
    free(v);
}

static int worst_of(const vehicle *v, unsigned check)
{
    int worst = -1;
    for (size_t i = 0; i < v->findings.count; i++)
        if (v->findings.rows[i].check == check && (int)v->findings.rows[i].level > worst)
            worst = (int)v->findings.rows[i].level;
    return worst;
}

/* --- V-23, the definition --------------------------------------------------------------------- */

/* True if a code is nearest to a quotient, by all distances. */
static int closest(unsigned code, double t)
{
    double best = 1e9, own = 0;
    for (unsigned c = 0; c < 16; c++) {
        double d = fabs((double)sb_e2m1_to_f32((uint8_t)c) - t);
        best = d < best ? d : best;
        own = c == code ? d : own;
    }
    return own <= best;
}

TEST(test_definition)
{
    for (int i = -1800; i <= 1800; i++) {
        double t = i / 256.0;
        for (unsigned code = 0; code < 16; code++) {
            int want = closest(code, t) || closest(code, t * (1 - 0x1p-8)) ||
                       closest(code, t * (1 + 0x1p-8));
            assert_int_equal(sb_fp4_is_nearest(code, t * 0.125, 0.125), want);
        }
    }
    assert_int_equal(sb_fp4_is_nearest(7, 1e20, 1), 1);
    assert_int_equal(sb_fp4_is_nearest(15, 1e20, 1), 0);
    assert_int_equal(sb_fp4_is_nearest(1, 0, 1), 0);
    assert_int_equal(sb_fp4_is_nearest(8, 0.2, 1), 1);
}

/* --- the fast test against it ----------------------------------------------------------------- */

/* One block of 16 under a scale byte, with a multiplier. */
typedef struct block {
    sb_fp4 f;
    sb_fp4_line line;
    unsigned char codes[8], scale;
    float weights[16];
    uint32_t largest;
} block;

static void make_block(block *b, uint8_t scale, double multiplier)
{
    memset(b, 0, sizeof *b);
    b->f.chunks = 1;
    b->f.blocks = 1;
    b->f.multiplier = multiplier;
    b->scale = scale;
    float value = sb_e4m3_to_f32(scale);
    b->f.scale[scale] = (double)value;
    b->f.square[scale] = value * value;
    b->f.inverse[scale] = (float)(1 / ((double)value * multiplier));
    sb_fp4_prepare_ranges(&b->f.ranges);
    b->line = (sb_fp4_line){
        .codes = b->codes, .scales = &b->scale, .weights = b->weights, .largest = &b->largest};
}

static void set_code(block *b, unsigned i, unsigned code)
{
    b->codes[i / 2] =
        (unsigned char)((b->codes[i / 2] & (i % 2 ? 0x0f : 0xf0)) | code << 4 * (i % 2));
}

/* Runs the fast test in plain C, with AVX2 where the machine has it, and from BF16 bytes if the
 * weights are BF16 numbers. All must agree; returns true if the test is certain. */
static int test_both(block *b)
{
    unsigned char bytes[32];
    sb_fp4_line first = b->line;
    uint32_t largest[4];
    int plain = !sb_fp4_doubts(&b->f, &first);
    largest[0] = b->largest;
    sb_encode(SB_FORMAT_bf16, b->weights, 16, bytes);
    for (int way = 1; way < 4; way++) {
        sb_fp4_line line = b->line;
        int bf16 = 1;
        for (unsigned i = 0; i < 16; i++)
            bf16 &= sb_round_to(SB_FORMAT_bf16, b->weights[i]) == b->weights[i];
        b->f.loops = way > 1 && sb_dot_avx2_supported() ? SB_FP4_AVX2 : SB_FP4_PLAIN;
        line.bf16 = way % 2 && bf16 ? bytes : NULL;
        assert_int_equal(!sb_fp4_doubts(&b->f, &line), plain);
        largest[way] = b->largest;
        assert_int_equal(largest[way], largest[0]);
        assert_memory_equal(line.error2, first.error2, sizeof line.error2);
        assert_memory_equal(line.weight2, first.weight2, sizeof line.weight2);
    }
    b->f.loops = SB_FP4_PLAIN;
    return plain;
}

/* If the fast test is certain, the codes are right by the definition. If they are right with a
 * margin of 2^-18, the fast test is certain. */
static void agree(block *b, double multiplier)
{
    double e = b->f.scale[b->scale] * multiplier;
    int all = 1, clearly = 1;
    for (unsigned i = 0; i < 16; i++) {
        unsigned code = (unsigned)b->codes[i / 2] >> 4 * (i % 2) & 15u;
        double w = (double)b->weights[i];
        all &= sb_fp4_is_nearest(code, w, e);
        clearly &= sb_fp4_is_nearest(code, w * (1 + 0x1p-18), e) &&
                   sb_fp4_is_nearest(code, w * (1 - 0x1p-18), e);
    }
    int sure = test_both(b);
    if (sure && !all)
        fail_msg("a block is certain that the definition refuses");
    if (clearly && !sure)
        fail_msg("a block is in doubt that the definition accepts");
}

TEST(test_fast_random)
{
    for (uint64_t i = 0; i < 20000; i++) {
        block b;
        double multiplier = 1e-4 * (1 + (double)sb_rng_uniform(KEY, 3 * i));
        make_block(&b, (uint8_t)(1 + i % 0x7e), multiplier);
        float e = (float)(b.f.scale[b.scale] * multiplier);
        for (unsigned k = 0; k < 16; k++) {
            b.weights[k] =
                sb_round_to(SB_FORMAT_bf16, 3.0f * e * sb_rng_normal(KEY + 1, 16 * i + k));
            set_code(&b, k, sb_f32_to_e2m1(b.weights[k] / e));
        }
        assert_true(test_both(&b));
        if (i % 2) /* one code off */
            b.codes[i / 2 % 8] ^= (unsigned char)(1u << i % 8);
        agree(&b, multiplier);
    }
}

/* Quotients on the boundaries, at the end of the slack, and just beyond, for every code. */
TEST(test_fast_boundaries)
{
    static const double at[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, 7};
    static const double by[] = {1,
                                1 + 0x1p-8,
                                1 - 0x1p-8,
                                1 + 0x1.01p-8,
                                1 - 0x1.01p-8,
                                1 + 0x1.ffp-9,
                                1 - 0x1.ffp-9,
                                1 + 0x1p-20,
                                1 - 0x1p-20};
    for (unsigned code = 0; code < 16; code++)
        for (size_t a = 0; a < sizeof at / sizeof *at; a++)
            for (size_t m = 0; m < 2 * sizeof by / sizeof *by; m++) {
                block b;
                double multiplier = 0x1.91p-13, sign = m % 2 ? -1 : 1;
                make_block(&b, 0x55, multiplier);
                double e = b.f.scale[0x55] * multiplier;
                b.weights[5] = (float)(sign * at[a] * by[m / 2] * e);
                set_code(&b, 5, code);
                agree(&b, multiplier);
            }
}

/* --- whole panels ----------------------------------------------------------------------------- */

TEST(test_loops_of_sets)
{
    static const struct {
        const char *name;
        sb_fp4_loops loops;
    } sets[] = {{"exact", SB_FP4_PLAIN}, {"scalar", SB_FP4_PLAIN},  {"neon", SB_FP4_PLAIN},
                {"avx2", SB_FP4_AVX2},   {"avx512", SB_FP4_AVX512}, {"avx512vnni", SB_FP4_AVX512}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sb_fp4_loops_with(sets[i].name) != sets[i].loops)
            fail_msg("%s", sets[i].name);
}

TEST(test_sound)
{
    for (int s = 0; s < SCHEMES; s++) {
        vehicle *v = new_vehicle((scheme)s);
        pass(v, 1);
        const sb_seen_fp4 *f = &v->seen.fp4;
        unsigned own = s == MX ? 0 : (unsigned)s;
        assert_int_equal(f->wrong, 0);
        assert_int_equal(f->compared, ROWS * COLS);
        assert_int_equal(f->off[own].count, 0);
        assert_int_equal(f->scales_compared, ROWS * COLS / (s == MX ? 32 : 16));
        assert_int_equal(f->vanished.count + f->lost.count + f->died.count, 0);
        assert_int_equal((s == CT || s == MODELOPT ? &f->not_six : &f->not_four)->count, 0);
        double d = sb_fp4_distance(&v->seen);
        assert_true(d > 0.08 && d < (s == MX ? 0.13 : 0.105));
        for (size_t i = 0; i < v->findings.count; i++)
            fail_msg("%s", v->findings.rows[i].message);
        free_vehicle(v);
    }
}

/* Moments and distance, made from codes and sums, agree with those of a loop over the values. */
TEST(test_moments)
{
    for (int s = 0; s < SCHEMES; s++) {
        vehicle *v = new_vehicle((scheme)s);
        v->codes[5] ^= 0x88;            /* signs count */
        v->unit.region = SB_REGION_mtp; /* V-41 needs all sums here */
        double row[COLS], error2 = 0, master2 = 0;
        double m = s == MX   ? 1
                   : s == CT ? 1 / (double)v->matrix.quant.factor.value
                             : (double)v->matrix.quant.factor.value;
        sb_seen want = {0};
        for (uint32_t i = 0; i < ROWS; i++) {
            sb_matrix_wide(&v->matrix, i, row);
            for (unsigned k = 0; k < COLS; k++) {
                row[k] *= m;
                double w = (double)v->weights[i * COLS + k];
                error2 += (row[k] - w) * (row[k] - w);
                master2 += w * w;
            }
            sb_seen_row(&want, row, COLS);
        }
        pass(v, 1);
        const sb_moments *a = &v->seen.moments, *b = &want.moments;
        assert_int_equal(a->count, b->count);
        assert_int_equal(a->zeros, b->zeros);
        assert_true(fabs(a->sum - b->sum) <= 1e-12 * (1 + fabs(b->sum)));
        assert_true(fabs(a->sum2 - b->sum2) <= 1e-12 * b->sum2);
        assert_true(fabs(a->sum4 - b->sum4) <= 1e-12 * b->sum4);
        assert_true(fabs(a->largest - b->largest) <= 1e-14 * b->largest);
        assert_true(fabs(v->seen.distance.error2 - error2) <= 1e-5 * error2);
        assert_true(fabs(v->seen.distance.master2 - master2) <= 1e-5 * master2);
        assert_int_equal(v->seen.zero_rows, s == MX ? 1 : 2);
        assert_int_equal(v->seen.zero_run_first, 7);
        free_vehicle(v);
    }
}

/* V-23: "A flipped bit of a code" is found whenever the definition finds it, and the definition
 * misses only few. */
TEST(test_every_bit)
{
    unsigned missed = 0, seen = 0;
    vehicle *v = new_vehicle(CT);
    v->matrix.rows = v->master.rows = ROWS;
    for (unsigned bit = 0; bit < 4 * COLS; bit++) {
        unsigned row = 3, column = bit / 4, zero;
        unsigned char *byte = &v->codes[row * COLS / 2 + column / 2];
        *byte ^= (unsigned char)(1u << bit % 8);
        unsigned code = (unsigned)*byte >> 4 * (column % 2) & 15u;
        double e = (double)sb_e4m3_to_f32(v->scales[row * COLS / 16 + column / 16]) /
                   (double)v->matrix.quant.factor.value;
        int fine = sb_fp4_is_nearest(code, (double)v->weights[row * COLS + column], e);
        pass(v, 1);
        zero = (code & 7u) == 0 && bit % 4 == 3;
        assert_int_equal(v->seen.fp4.wrong, !fine);
        assert_true(fine || (v->seen.fp4.first[0].row == row &&
                             v->seen.fp4.first[0].column_code == (column << 4 | code)));
        assert_int_equal(worst_of(v, 23), fine ? -1 : (int)SB_LEVEL_error);
        missed += fine && !zero;
        seen += !fine;
        *byte ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(seen > 300 && missed <= 4 * COLS / 50);
    free_vehicle(v);
}

/* Scale bytes: NaN, negative, zero over codes, one bit flipped; a row of lost codes, a dead row. */
TEST(test_scale_bytes)
{
    vehicle *v = new_vehicle(CT);
    unsigned char *scale = &v->scales[2 * COLS / 16 + 1], kept = *scale;
    *scale = 0x7f;
    pass(v, 0);
    assert_int_equal(worst_of(v, 15), SB_LEVEL_fatal);
    assert_true(v->seen.fp4.nan_scale.row == 2 && v->seen.fp4.nan_scale.block == 1);
    *scale = kept | 0x80;
    pass(v, 1);
    assert_int_equal(worst_of(v, 15), SB_LEVEL_fatal);
    *scale = 0;
    pass(v, 1);
    assert_int_equal(worst_of(v, 15), SB_LEVEL_warn);
    assert_int_equal(worst_of(v, 23), SB_LEVEL_error);
    *scale = kept ^ 2;
    pass(v, 1);
    assert_int_equal(worst_of(v, 25), SB_LEVEL_error);
    assert_true(v->seen.fp4.off[SB_FP4_ct].row == 2 && v->seen.fp4.off[SB_FP4_ct].block == 1);
    *scale = kept;
    memset(v->codes + 2 * COLS / 2, 0, 2 * COLS / 2);
    pass(v, 0);
    assert_int_equal(worst_of(v, 21), SB_LEVEL_error); /* 1/8 of the blocks, mixed scales */
    memset(v->scales + 2 * COLS / 16, 0x20, 2 * COLS / 16);
    pass(v, 0);
    assert_int_equal(worst_of(v, 21), -1);
    pass(v, 1);
    assert_int_equal(worst_of(v, 21), SB_LEVEL_error);
    assert_int_equal(v->seen.fp4.died.row, 2);
    free_vehicle(v);
}

/* V-25: every flipped bit of a block scale is found, and nearly always some code under it is no
 * longer nearest. */
TEST(test_every_scale_bit)
{
    unsigned codes_too = 0, count = 0;
    for (int s = 0; s < SCHEMES; s++) {
        vehicle *v = new_vehicle((scheme)s);
        for (unsigned bit = 0; bit < 8 * (COLS / 32); bit++) {
            unsigned char *scale = &v->scales[3 * (size_t)v->matrix.quant.groups + bit / 8];
            *scale ^= (unsigned char)(1u << bit % 8);
            pass(v, 1);
            int wrong = worst_of(v, 23) >= 0 || v->seen.fp4.wrong > v->seen.fp4.compared / 64;
            assert_true(wrong || worst_of(v, 15) >= 0 || worst_of(v, 25) >= 0);
            codes_too += wrong || worst_of(v, 15) == SB_LEVEL_fatal;
            count++;
            *scale ^= (unsigned char)(1u << bit % 8);
        }
        free_vehicle(v);
    }
    if (codes_too * 10 < count * 9)
        fail_msg("of %u flipped bits of scales codes show only %u", count, codes_too);
}

/* --- one result, whatever computes it --------------------------------------------------------- */

/* Damages a few bytes of codes and scales, and sometimes the original or the global scale. */
static void damage(vehicle *v, uint64_t key)
{
    for (uint64_t i = 0; i < key % 7; i++) {
        uint64_t at = (uint64_t)(sb_rng_uniform(key, 3 * i) * (float)sizeof v->scales);
        unsigned char byte = (unsigned char)(sb_rng_uniform(key, 3 * i + 1) * 256.0f);
        v->scales[at % sizeof v->scales] = byte;
        v->codes[at * 5 % sizeof v->codes] ^= byte;
    }
    if (key % 5 == 0)
        memset(v->codes + key % 700, 0, 64);
    if (key % 11 == 0) /* an infinity */
        v->original[2 * (key % 1000)] = 0x80, v->original[2 * (key % 1000) + 1] = 0x7f;
    if (key % 13 == 0) {
        v->master.format = SB_FORMAT_f32; /* the other format of originals */
        v->master.data = (const unsigned char *)v->weights;
    }
    if (key % 17 == 0)
        v->matrix.quant.factor.value *= 1e35f;
}

static sb_seen seen_by(const char *isa, vehicle *v, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    assert_int_equal(sb_dot_select(isa, NULL), SB_OK);
    pass(v, 1);
    for (size_t i = 0; i < v->findings.count && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%u %s\n", v->findings.rows[i].check,
                              v->findings.rows[i].message);
    assert_int_equal(sb_dot_select("scalar", NULL), SB_OK);
    return v->seen;
}

TEST(test_same_everywhere)
{
    static char plain[1 << 14], fast[1 << 14];
    if (!sb_dot_avx2_supported())
        skip();
    for (uint32_t key = 0; key < 800; key++) {
        vehicle *v = new_vehicle((scheme)(key % SCHEMES));
        /* widths that end in each stage of the vector loops */
        static const uint32_t widths[] = {32, 64, COLS, 160, WIDEST};
        v->matrix.cols = v->master.cols = widths[key / SCHEMES % 5];
        v->matrix.rows = v->master.rows = ROWS * COLS / v->matrix.cols / 2 * 2;
        v->matrix.quant.groups = v->matrix.cols / v->matrix.quant.block_cols;
        v->matrix.quant.scale_row = v->matrix.quant.groups;
        damage(v, key);
        v->unit.region = key % 4 < 2 ? SB_REGION_mtp : SB_REGION_trunk;
        sb_seen a = seen_by("scalar", v, plain, sizeof plain);
        sb_seen b = seen_by("avx2", v, fast, sizeof fast);
        assert_string_equal(plain, fast);
        assert_memory_equal(&a.fp4, &b.fp4, sizeof a.fp4);
        assert_memory_equal(&a.moments, &b.moments, sizeof a.moments);
        assert_memory_equal(&a.distance, &b.distance, sizeof a.distance);
        assert_int_equal(a.zero_rows, b.zero_rows);
        free_vehicle(v);
    }
}

/* Rows where only zeros and negative codes are counted. */
typedef struct few {
    unsigned char codes[ROWS][WIDEST / 2], scales[ROWS][WIDEST / 16];
    sb_panel panel;
    sb_fp4 f;
    sb_seen seen;
    uint32_t dead;
} few;

/* gap: the rows have other columns behind them. */
static void add_few(few *x, uint32_t cols, int gap, sb_fp4_loops loops)
{
    sb_fp4_tally tally = {.few = loops != SB_FP4_PLAIN};
    memset(&x->seen, 0, sizeof x->seen);
    x->panel = (sb_panel){.seen = &x->seen, .matrix = {.cols = cols}};
    x->f = (sb_fp4){.panel = &x->panel,
                    .seen = &x->seen.fp4,
                    .loops = loops,
                    .chunks = 1,
                    .blocks = cols / 16,
                    .usable = 1,
                    .multiplier = 0.3};
    for (unsigned i = 1; i < 0x7f; i++)
        x->f.scale[i] = (double)sb_e4m3_to_f32((uint8_t)i);
    sb_fp4_prepare_sums(&x->f);
    const uint32_t step = gap ? WIDEST : cols;
    sb_fp4_rows rows = {x->codes[0], x->scales[0], step / 2, step / 16, 0, ROWS};
    x->dead = sb_fp4_add_rows(&x->f, &rows, &tally);
    sb_fp4_add_tally(&x->seen, &tally);
}

static void draw_few(few *x, uint64_t key)
{
    unsigned char *codes = (unsigned char *)x->codes, *scales = (unsigned char *)x->scales;
    for (unsigned i = 0; i < sizeof x->codes; i++)
        codes[i] = (unsigned char)(sb_rng_below(key, i, 256) | (i % 8 == 3 && key % 3 ? 0x70u : 0));
    for (unsigned i = 0; i < sizeof x->scales; i++)
        scales[i] = (unsigned char)sb_rng_below(key, i + 9999, key % 2 ? 256 : 127);
    memset(x->codes[key % ROWS], key % 4 < 2 ? 0 : 0x88, sizeof *x->codes);
    memset(x->codes[(key + 5) % ROWS] + 8 * (key % 9), 0, 40);
}

TEST(test_few_everywhere)
{
    const sb_fp4_loops most = sb_dot_avx512_supported() ? SB_FP4_AVX512
                              : sb_dot_avx2_supported() ? SB_FP4_AVX2
                                                        : SB_FP4_PLAIN;
    if (most == SB_FP4_PLAIN)
        skip();
    for (uint32_t key = 0; key < 1000; key++) {
        static few a, b;
        /* steps of eight blocks, and up to three blocks that remain */
        static const uint32_t widths[] = {32, 128, 144, 160, 176, 304, 384, WIDEST};
        const uint32_t cols = widths[key % (sizeof widths / sizeof *widths)];
        draw_few(&a, key / 2);
        memcpy(&b, &a, sizeof b);
        add_few(&a, cols, key % 2, SB_FP4_PLAIN);
        for (unsigned loops = SB_FP4_AVX2; loops <= (unsigned)most; loops++) {
            add_few(&b, cols, key % 2, (sb_fp4_loops)loops);
            assert_int_equal(a.dead, b.dead);
            assert_int_equal(a.seen.fp4.magnitude[0], b.seen.fp4.magnitude[0]);
            assert_int_equal(a.seen.fp4.negative, b.seen.fp4.negative);
            assert_memory_equal(&a.seen.moments, &b.seen.moments, sizeof a.seen.moments);
            /* all that is seen of blocks, and no other counts */
            memcpy(b.seen.fp4.magnitude, a.seen.fp4.magnitude, sizeof a.seen.fp4.magnitude);
            b.seen.fp4.minus_zero = a.seen.fp4.minus_zero;
            assert_memory_equal(&a.seen.fp4, &b.seen.fp4, sizeof a.seen.fp4);
        }
    }
}

static void expect_global(vehicle *v, float value, int level, int with_master)
{
    v->matrix.quant.factor.value = value;
    pass(v, with_master);
    assert_int_equal(worst_of(v, 16), level);
}

TEST(test_global)
{
    vehicle *v = new_vehicle(CT);
    float g = v->matrix.quant.factor.value;
    expect_global(v, 0.0f, SB_LEVEL_fatal, 0);
    expect_global(v, -g, SB_LEVEL_fatal, 0);
    expect_global(v, INFINITY, SB_LEVEL_fatal, 0);
    expect_global(v, NAN, SB_LEVEL_fatal, 0);
    expect_global(v, 1 / g, SB_LEVEL_fatal, 0);
    expect_global(v, 1, SB_LEVEL_error, 0);
    expect_global(v, 1e9f, SB_LEVEL_error, 0);
    expect_global(v, 2.688e6f * 1.5f, SB_LEVEL_warn, 0);
    expect_global(v, g, -1, 0);
    v->matrix.quant.factor.value = 2 * g; /* plausible: only the original shows it */
    pass(v, 1);
    assert_int_equal(worst_of(v, 24), SB_LEVEL_error);
    free_vehicle(v);
}

/* The message names a wrong order of nibbles, wrong signs, and a wrong global scale. */
TEST(test_signatures)
{
    char text[256];
    vehicle *v = new_vehicle(MODELOPT);
    for (size_t i = 0; i < sizeof v->codes; i++)
        v->codes[i] = (unsigned char)(v->codes[i] << 4 | v->codes[i] >> 4);
    pass(v, 1);
    assert_int_equal(worst_of(v, 24), SB_LEVEL_error);
    assert_non_null(strstr(sb_fp4_signature(&v->seen, text, sizeof text), "nibbles"));
    quantize(v, MODELOPT);
    for (size_t i = 0; i < sizeof v->codes; i++)
        v->codes[i] ^= 0x88;
    pass(v, 1);
    assert_non_null(strstr(sb_fp4_signature(&v->seen, text, sizeof text), "signs"));
    quantize(v, MODELOPT);
    v->matrix.quant.factor.value *= 4;
    pass(v, 1);
    assert_non_null(strstr(sb_fp4_signature(&v->seen, text, sizeof text), "times"));
    free_vehicle(v);
}
