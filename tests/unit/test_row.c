/* test_row.c - whole layers as ref/fast/dot/row.h computes them, with every kernel set, against
 * exact.h: formats, groups, lengths that are no multiple of a vector, and difficult values. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"

enum { ROWS = 3, INPUTS = 2 };

/* The values of a layer and its inputs. */
typedef enum family {
    ORDINARY, /* normal inputs, scales of one size */
    SHORT,    /* inputs of a few bits: ties and exact sums */
    EXTREME,  /* largest and subnormal scales and inputs */
    CANCELS,  /* each second input cancels the one before, exactly or nearly */
    ZEROS,    /* of both signs */
    POISON,   /* any values, with a NaN or an infinity */
    FAMILIES
} family;

/* How a layer is stored; group 0: a whole row. */
typedef struct kind {
    sb_format format, scale;
    uint32_t group;
    sb_zeros zeros;
    int32_t zero;
} kind;
static const kind kinds[] = {
    {SB_FORMAT_e2m1, SB_FORMAT_e4m3, 16, SB_ZEROS_none, 0},
    {SB_FORMAT_e2m1, SB_FORMAT_e8m0, 32, SB_ZEROS_none, 0},
    {SB_FORMAT_e2m1, SB_FORMAT_f32, 48, SB_ZEROS_none, 0},
    {SB_FORMAT_e2m1, SB_FORMAT_bf16, 0, SB_ZEROS_none, 0},
    {SB_FORMAT_e4m3, SB_FORMAT_e8m0, 32, SB_ZEROS_none, 0},
    {SB_FORMAT_e4m3, SB_FORMAT_f32, 128, SB_ZEROS_none, 0},
    {SB_FORMAT_e4m3, SB_FORMAT_bf16, 0, SB_ZEROS_none, 0},
    {SB_FORMAT_e4m3, SB_FORMAT_e4m3, 48, SB_ZEROS_none, 0},
    {SB_FORMAT_int8, SB_FORMAT_bf16, 0, SB_ZEROS_none, 0},
    {SB_FORMAT_int8, SB_FORMAT_f16, 64, SB_ZEROS_none, -3},
    {SB_FORMAT_uint8, SB_FORMAT_f32, 32, SB_ZEROS_none, 128},
    {SB_FORMAT_int4, SB_FORMAT_bf16, 32, SB_ZEROS_none, 0},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 128, SB_ZEROS_none, 8},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 32, SB_ZEROS_rows, 0},
    {SB_FORMAT_uint4, SB_FORMAT_f16, 80, SB_ZEROS_rows, 0},
    {SB_FORMAT_bf16, SB_FORMAT_f32, 0, SB_ZEROS_none, 0},
    {SB_FORMAT_f16, SB_FORMAT_f32, 0, SB_ZEROS_none, 0},
    {SB_FORMAT_f32, SB_FORMAT_f32, 0, SB_ZEROS_none, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint64_t key, at;

static uint32_t roll(uint32_t n)
{
    return sb_rng_below(key, at++, n);
}

static float normal(void)
{
    return sb_rng_normal(key, (uint64_t)1 << 40 | at++);
}

/* A layer in memory of exactly its size, and its inputs. */
typedef struct layer {
    sb_matrix w;
    unsigned char *codes, *scales, *zeros;
    double *x;
    sb_scalar factor;
} layer;

static float a_scale(family f)
{
    if (f == EXTREME)
        return roll(2) ? 0x1p120f : sb_f32_from_bits(1 + roll(5));
    if (f == POISON && roll(40) == 0)
        return -1;
    float x = normal();
    return 0.01f * (1 + x * x);
}

static float a_value(family f)
{
    float x = normal();
    switch (f) {
    case SHORT:
        return sb_round_to(SB_FORMAT_e4m3, x);
    case EXTREME:
        return roll(3) ? x * 0x1p-140f : x * 0x1p120f;
    case ZEROS:
        return roll(9) ? (roll(2) ? 0.0f : -0.0f) : x;
    case POISON:
        return roll(500) ? x : sb_f32_from_bits(0x7f800000u | roll(2) << 22 | roll(2) << 31);
    default:
        return x;
    }
}

/* The code of the largest magnitude; for four bits, two of them. */
static unsigned char largest_code(sb_format format)
{
    return format == SB_FORMAT_e4m3   ? 0xfe
           : format == SB_FORMAT_int8 ? 0x80
           : format == SB_FORMAT_int4 ? 0x88
                                      : 0xff;
}

/* No format of at most eight bits has infinities here; only POISON has NaN. */
static void draw_codes(const kind *k, family f, size_t count, unsigned char *codes)
{
    const size_t bytes = sb_format_bits(k->format) * count / 8;
    if (sb_format_is_plain(k->format)) {
        for (size_t i = 0; i < count; i++) {
            float value = a_value(f);
            sb_encode(k->format, &value, 1, codes + i * sb_format_bytes(k->format));
        }
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        codes[i] = (unsigned char)(f == ZEROS && roll(20) ? roll(2) << 7 : roll(256));
        if (f == EXTREME && roll(4))
            codes[i] = largest_code(k->format);
        if (k->format == SB_FORMAT_e4m3 && (codes[i] & 0x7f) == 0x7f && (f != POISON || roll(20)))
            codes[i] ^= 0x40;
    }
}

static void draw_inputs(family f, uint32_t n, double *x)
{
    for (uint32_t k = 0; k < INPUTS * n; k++) {
        x[k] = (double)a_value(f);
        if (f == CANCELS && k % 2)
            x[k] = roll(4) ? -x[k - 1] : -(double)sb_round_to(SB_FORMAT_bf16, (float)x[k - 1]);
    }
}

static layer a_layer(const kind *k, family f, uint32_t n)
{
    const uint32_t group = k->group ? k->group : n, groups = (n + group - 1) / group;
    layer l = {.w = {.format = k->format, .rows = ROWS, .cols = n}, .factor = SB_SCALAR_ONE};
    l.codes = malloc(sb_format_bits(k->format) * n * ROWS / 8);
    l.scales = malloc(sb_format_bytes(k->scale) * groups * ROWS);
    l.zeros = calloc(groups, 4);
    l.x = malloc(INPUTS * n * sizeof *l.x);
    l.w.data = l.codes;
    draw_codes(k, f, ROWS * n, l.codes);
    draw_inputs(f, n, l.x);
    if (sb_format_is_plain(k->format))
        return l;
    for (uint32_t i = 0; i < ROWS * groups; i++) {
        float scale = a_scale(f);
        sb_encode(k->scale, &scale, 1, l.scales + i * sb_format_bytes(k->scale));
    }
    for (uint32_t g = 0; g < groups; g++)
        sb_store_u32(l.zeros + 4 * g, (uint32_t)sb_rng_u64(key, at++));
    l.w.quant = (sb_quant){.scales = l.scales,
                           .scale_format = k->scale,
                           .block_rows = 1,
                           .block_cols = group,
                           .scale_row = groups,
                           .scale_col = 1,
                           .groups = groups,
                           .stored_rows = ROWS,
                           .zeros = k->zeros,
                           .zero_points = l.zeros,
                           .zero = k->zero};
    if (roll(2))
        l.factor = (sb_scalar){{-0.37f, 1.5f}, {3.0f, 1.0f}};
    return l;
}

static void free_layer(layer *l)
{
    free(l->codes);
    free(l->scales);
    free(l->zeros);
    free(l->x);
}

static void name_case(char *name, size_t size, const layer *l, family f)
{
    snprintf(name, size, "%s: format %d, group %u, family %d, %u columns", sb_dot_selected(),
             (int)l->w.format, l->w.quant.block_cols, (int)f, l->w.cols);
}

/* The same number, or both NaN. */
static int same(double a, double b)
{
    return sb_bits_f64(a) == sb_bits_f64(b) || (a != a && b != b);
}

/* A row gives the same partial p in a pair, as its first or second row. */
static void check_pair(const layer *l, uint32_t row, const sb_row_input *input, sb_partial p)
{
    const sb_dot_kernels *set = sb_dot_kernels_now();
    double *room = malloc(2 * (sb_row_workspace(&l->w) + 1) * sizeof *room);
    for (uint32_t other = 0; other < ROWS && set->pair[l->w.format]; other++)
        for (int second = 0; second < 2; second++) {
            sb_row_codes codes[2];
            sb_partial both[2];
            codes[second] = sb_row_open(&l->w, row, room);
            codes[!second] = sb_row_open(&l->w, other, room + sb_row_workspace(&l->w));
            set->pair[l->w.format](codes, input, both);
            assert_true(same(both[second].sum, p.sum));
            assert_true(same(both[second].magnitude, p.magnitude));
        }
    free(room);
}

/* Checks the promise of row.h for a kernel's partial, against sums in a wider type. Returns 1 if
 * the kernel is certain of the result. */
static int check_partial(const layer *l, family f, uint32_t row)
{
    const size_t n = l->w.cols;
    const size_t doubles = sb_row_workspace(&l->w) + sb_row_input_workspace(&l->w) + n;
    double *room = malloc(doubles * sizeof *room);
    memset(room, 0xff, doubles * sizeof *room); /* NaN: unfilled memory must not be read */
    double *input_room = room + sb_row_workspace(&l->w),
           *wide = input_room + sb_row_input_workspace(&l->w);
    sb_row_codes codes = sb_row_open(&l->w, row, room);
    sb_row_input input = sb_row_prepare(&l->w, l->x, input_room);
    sb_partial p = sb_dot_kernels_now()->row[l->w.format](&codes, &input);
    check_pair(l, row, &input, p);
    long double sum = 0, magnitude = 0;
    float rounded;
    char name[120];
    name_case(name, sizeof name, l, f);
    sb_matrix_wide(&l->w, row, wide);
    for (size_t k = 0; k < n; k++) {
        long double term = (long double)wide[k] * (long double)l->x[k];
        sum += term;
        magnitude += term < 0 ? -term : term;
    }
    double steps = (double)sb_row_roundings(n), off = (double)(sum - (long double)p.sum);
    if (magnitude - magnitude != 0) /* NaN or infinity */
        assert_false(p.sum - p.sum == 0 && p.magnitude - p.magnitude == 0);
    else if ((double)magnitude * (1 - steps * 0x1p-53) > p.magnitude)
        fail_msg("%s: magnitude %a, not %a", name, p.magnitude, (double)magnitude);
    else if (sb_absolute(off) > steps * 0x1.01p-53 * (double)magnitude)
        fail_msg("%s: sum %a, off by %a of %a", name, p.sum, off, (double)magnitude);
    int certain = sb_row_certain(p, n, &l->factor, &rounded);
    free(room);
    return certain;
}

static void check_layer(const layer *l, family f, const float *want)
{
    float got[INPUTS * ROWS + 1];
    char name[120];
    name_case(name, sizeof name, l, f);
    for (size_t count = 1; count <= INPUTS; count++) {
        got[count * ROWS] = 77;
        assert_int_equal(sb_dot_matrix(&l->w, l->x, count, &l->factor, got), SB_OK);
        for (size_t i = 0; i < count * ROWS; i++)
            if (sb_bits_f32(got[i]) != sb_bits_f32(want[i]))
                fail_msg("%s, output %zu of %zu: %a, not %a", name, i, count * ROWS, (double)got[i],
                         (double)want[i]);
        assert_true(got[count * ROWS] == 77);
    }
}

/* Checks a layer with all kernel sets; counts the rows whose kernels are certain, and all rows. */
static void check_under_all(const layer *l, family f, size_t *certain, size_t *all)
{
    float want[INPUTS * ROWS];
    assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
    assert_int_equal(sb_dot_matrix(&l->w, l->x, INPUTS, &l->factor, want), SB_OK);
    for (size_t s = 0; sb_dot_set(s); s++) {
        assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
        check_layer(l, f, want);
        for (uint32_t row = 0; row < ROWS && sb_row_reads(&l->w); row++, (*all)++)
            *certain += (size_t)check_partial(l, f, row);
    }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

static void check_case(const kind *k, family f, uint32_t n, size_t *certain, size_t *all)
{
    layer l = a_layer(k, f, n);
    check_under_all(&l, f, certain, all);
    free_layer(&l);
}

static uint32_t next_length(uint32_t n)
{
    static const uint32_t jumps[][2] = {{70, 127}, {130, 500}, {530, 2048}};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++)
        if (n == jumps[i][0])
            return jumps[i][1];
    return n + 1;
}

static void check_family(family f)
{
    key = sb_rng_key(f, "row");
    at = 0;
    for (size_t k = 0; k < KINDS; k++) {
        size_t certain = 0, all = 0;
        for (uint32_t n = 1; n <= 2048; n = next_length(n))
            if (sb_format_bits(kinds[k].format) * n % 8 == 0)
                check_case(&kinds[k], f, n, &certain, &all);
        if (f == ORDINARY && (double)certain < 0.85 * (double)all)
            fail_msg("format %d: %zu of %zu rows certain", (int)kinds[k].format, certain, all);
        assert_true(all > 0);
    }
}

#define FAMILY(name, f)                                                                            \
    TEST(name)                                                                                     \
    {                                                                                              \
        check_family(f);                                                                           \
    }
FAMILY(test_ordinary, ORDINARY)
FAMILY(test_short, SHORT)
FAMILY(test_extreme, EXTREME)
FAMILY(test_cancels, CANCELS)
FAMILY(test_zeros, ZEROS)
FAMILY(test_poison, POISON)

/* BF16 codes whose squares are difficult for kernels that add them in binary32: all have one
 * magnitude, except one of magnitude `other`. */
typedef struct hard_row {
    uint16_t most, other;
} hard_row;
static const hard_row hard_rows[] = {
    {0x0000, 0x0000}, /* all zeros */
    {0x0001, 0x007f}, /* subnormal */
    {0x0001, 0x7f7f}, /* the largest among subnormals */
    {0x1f80, 0x1f80}, /* 2^-64: no square is a normal number */
    {0x1f80, 0x2000}, /* 2^-63 among those: its square is a normal number */
    {0x2a80, 0x2b00}, /* 2^-42 and 2^-41 */
    {0x3980, 0x3f80}, /* 1 among 2^-12: its lane loses the squares of the others */
    {0x3980, 0x5f80}, /* 2^64: its square is infinite */
    {0x7f7f, 0x7f7f}, /* the largest */
    {0x3f80, 0x7f80}, /* infinity */
    {0x3f80, 0x7fff}, /* NaN */
    {0x3f80, 0x7f81}, /* a signalling NaN */
};

/* Inputs of such rows: normal, zero, and as large as the weights, where the product of both sums of
 * squares is a tight bound. */
typedef enum hard_inputs { NORMAL, NOTHING, ALIKE, HARD_INPUTS } hard_inputs;

static void draw_hard(const hard_row *hard, hard_inputs with, uint32_t place, layer *l)
{
    const uint32_t n = l->w.cols;
    for (uint32_t i = 0; i < ROWS * n; i++) {
        const uint16_t code = i % n == place ? hard->other : hard->most;
        sb_store_u16(l->codes + 2 * (size_t)i, (uint16_t)(code | roll(2) << 15));
    }
    for (uint32_t i = 0; i < INPUTS * n; i++) {
        const double size = (double)sb_bf16_to_f32(i % n == place ? hard->other : hard->most);
        l->x[i] = with == NORMAL ? (double)normal() : with == ALIKE && size < 0x1p128 ? size : 0;
    }
}

/* The other code is at each place in turn; signs are random. */
TEST(test_hard_rows)
{
    const kind plain = {SB_FORMAT_bf16, SB_FORMAT_f32, 0, SB_ZEROS_none, 0};
    key = sb_rng_key(0, "hard rows");
    at = 0;
    for (size_t h = 0; h < sizeof hard_rows / sizeof *hard_rows; h++)
        for (uint32_t n = 1; n <= 100; n += n < 31 ? 10 : n < 34 ? 1 : 33) {
            layer l = a_layer(&plain, ORDINARY, n);
            size_t certain = 0, all = 0;
            for (uint32_t i = 0; i < n * HARD_INPUTS; i++) {
                draw_hard(&hard_rows[h], i % HARD_INPUTS, i / HARD_INPUTS, &l);
                check_under_all(&l, ORDINARY, &certain, &all);
            }
            if (hard_rows[h].other == 0) /* all-zero rows cost no more than others */
                assert_int_equal(certain, all);
            free_layer(&l);
        }
}

/* A row of E2M1 with E4M3 scales for which kernels that round inputs to a fixed number of digits
 * have the largest errors. Each group has one large input and fifteen small ones, each of almost
 * half of 2^-47 of the large one. The small ones add up. The last group has the largest scale. The
 * codes of the large inputs are 0 unless `large`. */
static void lost_digits(size_t n, int large, unsigned char *codes, unsigned char *scales, double *x)
{
    for (size_t k = 0; k < n; k++) {
        const unsigned code = k % 16 ? 7u : large ? 2u : 0u;
        x[k] = k % 16 ? 0x1.ffp-2 : 0x1.fcp46;
        codes[k / 2] = (unsigned char)(k % 2 ? codes[k / 2] | code << 4 : code);
    }
    for (size_t g = 0; g < (n + 15) / 16; g++)
        scales[g] = (g + 1) * 16 >= n ? 0x7e : 0x38;
}

/* A layer in NVFP4. */
static sb_matrix in_nvfp4(const unsigned char *codes, const unsigned char *scales, uint32_t rows,
                          uint32_t n)
{
    return (sb_matrix){.data = codes,
                       .format = SB_FORMAT_e2m1,
                       .rows = rows,
                       .cols = n,
                       .quant = {.scales = scales,
                                 .scale_format = SB_FORMAT_e4m3,
                                 .block_rows = 1,
                                 .block_cols = 16,
                                 .scale_row = n / 16,
                                 .scale_col = 1,
                                 .groups = n / 16,
                                 .stored_rows = rows}};
}

/* Two such rows; the second one with a quarter of each scale. */
static sb_matrix lost_in_two(size_t n, int large, unsigned char *codes, unsigned char *scales,
                             double *x)
{
    lost_digits(n, large, codes, scales, x);
    memcpy(codes + n / 2, codes, n / 2);
    for (size_t g = 0; g < n / 16; g++)
        scales[n / 16 + g] = (unsigned char)(scales[g] - 0x10);
    return in_nvfp4(codes, scales, 2, (uint32_t)n);
}

/* Checks the promise of row.h for such rows, read as layers read them: with scales in place, one
 * row or two at a time. Partials of the second row are multiplied by four. */
static void check_lost_digits(size_t n, int large)
{
    const sb_dot_kernels *set = sb_dot_kernels_now();
    unsigned char codes[2048], scales[256];
    double x[2048], wide[2048];
    const sb_matrix w = lost_in_two(n, large, codes, scales, x);
    const size_t each = sb_row_workspace(&w);
    double *room = malloc((2 * each + sb_row_input_workspace(&w)) * sizeof *room);
    const sb_row_input input = sb_row_prepare(&w, x, room + 2 * each);
    const sb_row_codes first = sb_row_open(&w, 0, room);
    sb_row_codes rows[3] = {first, sb_row_open(&w, 1, room + each), first};
    static const int quarter[] = {0, 0, 1, 0, 1, 1, 0}; /* 1: a partial of the second row */
    sb_partial p[7];
    p[0] = set->row[SB_FORMAT_e2m1](&first, &input);
    for (size_t i = 0; i < 3 && set->reads_scales && set->reads_scales(scales, n / 8); i++) {
        rows[i].scales = NULL;
        rows[i].scale_codes = scales + i % 2 * (n / 16);
    }
    for (int i = 0; i < 2; i++)
        p[1 + i] = set->row[SB_FORMAT_e2m1](&rows[i], &input);
    for (int i = 0; i < 2; i++) {
        p[3 + 2 * i] = p[1 + i];
        p[4 + 2 * i] = p[2 - i];
        if (set->pair[SB_FORMAT_e2m1])
            set->pair[SB_FORMAT_e2m1](rows + i, &input, p + 3 + 2 * i);
    }
    long double sum = 0, magnitude = 0;
    sb_matrix_wide(&w, 0, wide);
    for (size_t k = 0; k < n; k++) {
        sum += (long double)wide[k] * (long double)x[k];
        magnitude += (long double)sb_absolute(wide[k]) * (long double)x[k];
    }
    for (int i = 0; i < 7; i++) {
        if (quarter[i])
            p[i] = (sb_partial){4 * p[i].sum, 4 * p[i].magnitude};
        const double bound = (double)sb_row_roundings(n) * 0x1p-53 * p[i].magnitude;
        const double off = sb_absolute((double)(sum - (long double)p[i].sum));
        if (!(off <= bound) || p[i].magnitude < (double)magnitude * (1 - 0x1p-40))
            fail_msg("%s: %zu columns, partial %d: off by %a, bound %a, magnitude %a", set->name, n,
                     i, off, bound, p[i].magnitude);
    }
    free(room);
}

TEST(test_lost_digits)
{
    for (size_t s = 0; sb_dot_set(s); s++) {
        assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
        for (size_t n = 16; n <= 2048 && sb_dot_set(s)->row[SB_FORMAT_e2m1];
             n += n < 320 ? 16 : 432) {
            check_lost_digits(n, 0);
            check_lost_digits(n, 1);
        }
    }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* The outputs with all kernel sets; `want` has those for one input. */
static void check_sets(const sb_matrix *w, const double *x, const float *want)
{
    const sb_scalar one = SB_SCALAR_ONE;
    float got[80];
    assert_true(w->rows <= sizeof got / sizeof *got);
    for (size_t s = 0; sb_dot_set(s); s++) {
        assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
        assert_int_equal(sb_dot_matrix(w, x, 1, &one, got), SB_OK);
        for (uint32_t r = 0; r < w->rows; r++)
            if (sb_bits_f32(got[r]) != sb_bits_f32(want[r]))
                fail_msg("%s: row %u of %u columns: %a, not %a", sb_dot_set(s)->name, (unsigned)r,
                         (unsigned)w->cols, (double)got[r], (double)want[r]);
    }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* Two large inputs cancel. The rest is two small inputs, as far below as a rounding test allows.
 * The smaller one is one binary digit of a fixed-point number at a time: no nonzero digit may be
 * dropped. */
TEST(test_each_digit_counts)
{
    enum { COLS = 512, COUNT = 3 };
    unsigned char codes[COUNT * COLS / 2] = {0}, scales[COUNT * COLS / 16];
    const sb_matrix w = in_nvfp4(codes, scales, COUNT, COLS);
    memset(scales, 0x38, sizeof scales);
    for (uint32_t first = 0; first < COLS; first += 176)
        for (int sign = -1; sign <= 1; sign += 2) {
            double x[COLS] = {0}, small = 0x1p-18;
            for (size_t r = 0; r < COUNT; r++)
                memcpy(codes + r * COLS / 2 + first / 2, "\xa2\x22", 2); /* 1, -1, 1, 1 */
            x[first] = x[first + 1] = 1;
            x[first + 2] = 0x1p-17;
            for (int digit = 18; digit <= 40; digit++, small /= 2) {
                x[first + 3] = sign * small;
                const float sum = (float)(0x1p-17 + sign * small);
                check_sets(&w, x, (const float[COUNT]){sum, sum, sum});
            }
            memset(codes, 0, sizeof codes);
        }
}

/* More rows than a thread takes at once, each with its own codes and scales. */
TEST(test_many_rows)
{
    enum { COLS = 48, COUNT = 53 };
    const sb_scalar one = SB_SCALAR_ONE;
    unsigned char codes[COUNT * COLS / 2], scales[COUNT * COLS / 16];
    double x[COLS];
    float want[COUNT];
    key = sb_rng_key(0, "many rows");
    at = 0;
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)roll(256);
    for (size_t i = 0; i < sizeof scales; i++)
        scales[i] = (unsigned char)(8 + roll(0x7f - 8));
    for (size_t k = 0; k < COLS; k++)
        x[k] = (double)normal();
    for (uint32_t rows = 1; rows <= COUNT; rows++) {
        const sb_matrix w = in_nvfp4(codes, scales, rows, COLS);
        assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
        assert_int_equal(sb_dot_matrix(&w, x, 1, &one, want), SB_OK);
        check_sets(&w, x, want);
    }
}

/* The same without scales, with rows in stored order or in another. */
TEST(test_many_plain_rows)
{
    enum { COLS = 37, COUNT = 61 };
    const sb_scalar one = SB_SCALAR_ONE;
    unsigned char codes[4 * COUNT * COLS];
    double x[COLS];
    float want[COUNT];
    uint32_t map[COUNT];
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)(roll(256) & 0xbb);
    for (size_t k = 0; k < COLS; k++)
        x[k] = (double)normal();
    for (uint32_t i = 0; i < COUNT; i++)
        map[i] = 17 * i % COUNT;
    for (uint32_t rows = 1; rows <= COUNT; rows++)
        for (size_t k = 0; k < 2 * KINDS; k++) {
            const sb_matrix w = {.data = codes,
                                 .format = kinds[k / 2].format,
                                 .rows = rows,
                                 .cols = COLS,
                                 .row_map = k % 2 ? map : NULL};
            if (!sb_format_is_plain(w.format))
                continue;
            assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
            assert_int_equal(sb_dot_matrix(&w, x, 1, &one, want), SB_OK);
            check_sets(&w, x, want);
        }
}

/* Rows that share their scales with some of their neighbours, or with all. */
TEST(test_many_rows_of_a_block)
{
    enum { COLS = 48, COUNT = 77, GROUPS = COLS / 16 };
    static const uint32_t heights[] = {1, 3, 16, 24, 32, COUNT};
    const sb_scalar one = SB_SCALAR_ONE;
    unsigned char codes[COUNT * COLS], scales[COUNT * GROUPS * 4];
    double x[COLS];
    float want[COUNT];
    uint32_t map[COUNT];
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)(roll(256) & 0xbb);
    for (size_t i = 0; i < COUNT * GROUPS; i++)
        sb_store_u32(scales + 4 * i, sb_bits_f32(a_scale(ORDINARY)));
    for (size_t k = 0; k < COLS; k++)
        x[k] = (double)normal();
    for (uint32_t i = 0; i < COUNT; i++)
        map[i] = 17 * i % COUNT;
    for (uint32_t rows = 1; rows <= COUNT; rows++)
        for (size_t h = 0; h < 2 * sizeof heights / sizeof *heights; h++) {
            const sb_matrix w = {.data = codes,
                                 .format = SB_FORMAT_e4m3,
                                 .rows = rows,
                                 .cols = COLS,
                                 .row_map = h % 2 ? map : NULL,
                                 .quant = {.scales = scales,
                                           .scale_format = SB_FORMAT_f32,
                                           .block_rows = heights[h / 2],
                                           .block_cols = 16,
                                           .scale_row = GROUPS,
                                           .scale_col = 1,
                                           .groups = GROUPS,
                                           .stored_rows = COUNT}};
            assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
            assert_int_equal(sb_dot_matrix(&w, x, 1, &one, want), SB_OK);
            check_sets(&w, x, want);
        }
}

/* Sums without terms, for one input or many, are +0, with scales and without. */
TEST(test_no_columns)
{
    for (size_t s = 0; sb_dot_set(s); s++)
        for (size_t k = 0; k < 2 * KINDS; k++) {
            sb_matrix w = {.format = kinds[k / 2].format, .rows = ROWS};
            const sb_scalar one = SB_SCALAR_ONE;
            unsigned char *nothing =
                calloc(1, 1); /* on the heap, so that a sanitizer detects a read beyond it */
            double *x = calloc(1, sizeof *x);
            assert_true(nothing && x);
            w.data = nothing;
            if (k % 2)
                w.quant = (sb_quant){.scales = nothing,
                                     .scale_format = kinds[k / 2].scale,
                                     .block_rows = 1,
                                     .block_cols = kinds[k / 2].group ? kinds[k / 2].group : 16,
                                     .stored_rows = ROWS,
                                     .scale_col = 1};
            assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
            for (size_t count = 1; count <= 5; count++) {
                float got[5 * ROWS];
                memset(got, 0xff, sizeof got);
                assert_int_equal(sb_dot_matrix(&w, x, count, &one, got), SB_OK);
                for (size_t i = 0; i < count * ROWS; i++)
                    assert_int_equal(sb_bits_f32(got[i]), 0);
            }
            free(nothing);
            free(x);
        }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* Codes that are the weights themselves; 4-bit codes always have scales. */
TEST(test_no_scales)
{
    enum { LONGEST = 300 };
    const sb_scalar one = SB_SCALAR_ONE;
    for (size_t k = 0; k < KINDS; k++)
        for (size_t n = 1; n <= LONGEST && sb_format_bytes(kinds[k].format); n += n < 40 ? 1 : 26) {
            unsigned char codes[ROWS * LONGEST * 4];
            double x[LONGEST];
            float want[ROWS], got[ROWS];
            const sb_matrix w = {
                .data = codes, .format = kinds[k].format, .rows = ROWS, .cols = (uint32_t)n};
            for (size_t i = 0; i < sizeof codes; i++) /* a finite number in every format */
                codes[i] = (unsigned char)(roll(256) & 0xbb);
            for (size_t i = 0; i < n; i++)
                x[i] = (double)normal();
            assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
            assert_int_equal(sb_dot_matrix(&w, x, 1, &one, want), SB_OK);
            for (size_t s = 0; sb_dot_set(s); s++) {
                assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
                memset(got, 0xff, sizeof got);
                assert_int_equal(sb_dot_matrix(&w, x, 1, &one, got), SB_OK);
                if (memcmp(got, want, sizeof got) != 0)
                    fail_msg("%s, %s, %zu columns", sb_dot_set(s)->name,
                             sb_format_name(kinds[k].format), n);
            }
        }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* One stored scale that kernels do not read in place, in any row. Layouts: rows in stored order,
 * rows in another order, and rows with gaps between their scales. */
TEST(test_odd_scales)
{
    enum { STORED = 40, COLS = 48, WITH = 3, FURTHER = 5 };
    const unsigned char odd[] = {0x01, 0x7f, 0xb8};
    const sb_scalar one = SB_SCALAR_ONE;
    uint32_t map[STORED];
    unsigned char codes[STORED * COLS / 2], scales[2 * STORED * FURTHER];
    double x[COLS];
    float want[STORED], got[STORED];
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)roll(256);
    for (size_t i = 0; i < COLS; i++)
        x[i] = (double)normal();
    for (uint32_t i = 0; i < STORED; i++)
        map[i] = i < STORED / 2 ? i : STORED + STORED / 2 - 1 - i;
    for (uint32_t i = 0; i < 3 * 3 * STORED; i++) {
        const uint32_t layout = i % 3, row = i / 9, stride = layout == 2 ? FURTHER : WITH;
        const sb_matrix w = {.data = codes,
                             .format = SB_FORMAT_e2m1,
                             .rows = layout == 1 ? STORED - 2 : STORED,
                             .cols = COLS,
                             .row_map = layout == 1 ? map : NULL,
                             .quant = {.scales = scales,
                                       .scale_format = SB_FORMAT_e4m3,
                                       .block_rows = 1,
                                       .block_cols = 16,
                                       .scale_row = stride,
                                       .scale_col = 1,
                                       .groups = WITH,
                                       .stored_rows = STORED}};
        memset(scales, 0x38, sizeof scales);
        scales[row * stride + (size_t)roll(WITH)] = odd[i / 3 % 3];
        assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
        assert_int_equal(sb_dot_matrix(&w, x, 1, &one, want), SB_OK);
        for (size_t s = 0; sb_dot_set(s); s++) {
            assert_int_equal(sb_dot_select(sb_dot_set(s)->name, NULL), SB_OK);
            memset(got, 0xee, sizeof got);
            assert_int_equal(sb_dot_matrix(&w, x, 1, &one, got), SB_OK);
            if (memcmp(got, want, w.rows * sizeof *got) != 0)
                fail_msg("%s, scale %#x in row %u, layout %u", sb_dot_set(s)->name, odd[i / 3 % 3],
                         row, layout);
        }
    }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}
