/* test_quick.c - fast parts of the pass over the bytes agree with the definitions: Kendall's
 * statistic, ranks of FP4 groups, repeated keys, columns of zeros. V-13, V-21, V-155. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/kendall.h"
#include "tools/check/scan/repeated_keys.h"
#include "tools/check/scan/scan_columns.h"
#include "tools/check/scan/scan_fit.h"

/* --- pairs ------------------------------------------------------------------------------------ */

static int order(int a, int b)
{
    return (a > b) - (a < b);
}

TEST(kendall_by_pairs)
{
    for (unsigned n = 0; n <= SB_FIT_WINDOW; n++)
        for (unsigned kind = 0; kind < 4; kind++) {
            uint64_t key = sb_rng_key(n, "kendall"), ranked = 0, plain = 5, fast = 5;
            static const uint32_t values[] = {2, 7, 100, 65536};
            sb_fit_keys x, y;
            int64_t agree = 0;
            for (unsigned i = 0; i < SB_FIT_WINDOW; i++) {
                x[i] = (int16_t)((int)sb_rng_below(key, i, values[kind]) - 32768);
                y[i] = (int16_t)((int)sb_rng_below(key, i + 100, 65536) - 32768);
                y[i] = i % 3 ? y[i] : x[i];
            }
            for (unsigned i = 0; i < n; i++)
                for (unsigned j = 0; j < i; j++) {
                    agree += order(x[i], x[j]) * order(y[i], y[j]);
                    ranked += x[i] != x[j];
                }
            assert_int_equal(sb_kendall_plain(x, y, n, &plain), agree);
            assert_int_equal(sb_kendall()(x, y, n, &fast), agree);
            assert_int_equal(plain, 5 + ranked);
            assert_int_equal(fast, 5 + ranked);
        }
}

/* --- NVFP4 groups: the integers have the order of the scales and variances -------------------- */

enum { ROWS = 9, COLS = 256, GROUPS = COLS / 16 };

typedef struct layer {
    unsigned char codes[ROWS][COLS / 2], scales[ROWS][GROUPS];
    sb_matrix matrix;
    sb_unit unit;
} layer;

static void draw(layer *l, uint64_t key)
{
    memset(l, 0, sizeof *l);
    for (unsigned i = 0; i < sizeof l->codes; i++)
        l->codes[i / (COLS / 2)][i % (COLS / 2)] = (unsigned char)sb_rng_below(key, i, 256);
    for (unsigned i = 0; i < sizeof l->scales; i++)
        l->scales[i / GROUPS][i % GROUPS] =
            (unsigned char)sb_rng_below(key, i + 5000, key % 2 ? 256 : 127);
    memset(l->codes[3] + 8, 0x80, 32);
    l->matrix = (sb_matrix){.data = l->codes[0],
                            .format = SB_FORMAT_e2m1,
                            .rows = ROWS,
                            .cols = COLS,
                            .quant = {.scales = l->scales[0],
                                      .scale_format = SB_FORMAT_e4m3,
                                      .stored_rows = ROWS,
                                      .block_rows = 1,
                                      .block_cols = 16,
                                      .groups = GROUPS,
                                      .scale_row = GROUPS,
                                      .scale_col = 1}};
}

/* Computed from the values, one pair at a time. */
static sb_fit defined_fit(const layer *l)
{
    sb_fit fit = {0};
    double scale[ROWS * GROUPS], spread[ROWS * GROUPS];
    unsigned n = 0;
    for (uint32_t i = 0; i < ROWS * GROUPS; i++) {
        float codes[16];
        double sum = 0, squares = 0, s;
        sb_matrix_codes(&l->matrix, i / GROUPS, i % GROUPS * 16, 16, codes);
        s = (double)sb_matrix_scale(&l->matrix, i / GROUPS, i % GROUPS * 16);
        for (unsigned k = 0; k < 16; k++) {
            sum += (double)codes[k];
            squares += (double)codes[k] * (double)codes[k];
        }
        if (!(squares > 0) || !(s >= 0))
            continue;
        scale[n] = s;
        spread[n++] = squares / 16 - sum * sum / 256;
    }
    for (unsigned first = 0; first < n; first += SB_FIT_WINDOW) {
        unsigned end = n - first < SB_FIT_WINDOW ? n : first + SB_FIT_WINDOW;
        if (end - first < SB_FIT_WINDOW && end - first < 16)
            break;
        for (unsigned i = first; i < end; i++)
            for (unsigned j = first; j < i; j++) {
                int x = (scale[i] > scale[j]) - (scale[i] < scale[j]);
                fit.ranked[SB_FIT_SCALES] += x != 0;
                fit.agree[SB_FIT_SCALES] -= x * ((spread[i] > spread[j]) - (spread[i] < spread[j]));
                fit.pairs++;
            }
    }
    return fit;
}

TEST(fit_of_nvfp4)
{
    static layer l;
    for (uint64_t key = 0; key < 200; key++) {
        draw(&l, key);
        sb_seen seen = {.rows = ROWS};
        sb_panel panel = {
            .unit = &l.unit, .matrix = l.matrix, .rows = ROWS, .last = 1, .seen = &seen};
        sb_scan_fit(&panel);
        sb_fit want = defined_fit(&l);
        assert_int_equal(seen.fit.pairs, want.pairs);
        assert_int_equal(seen.fit.ranked[SB_FIT_SCALES], want.ranked[SB_FIT_SCALES]);
        assert_int_equal(seen.fit.agree[SB_FIT_SCALES], want.agree[SB_FIT_SCALES]);
    }
}

/* --- columns ---------------------------------------------------------------------------------- */

/* Zero codes, zero scales, scales that are no numbers, and an original that is zero, too. */
TEST(columns_by_codes)
{
    static layer l;
    static unsigned char bf16[ROWS][2 * COLS];
    static double scratch[2 * COLS];
    unsigned found = 0;
    for (uint64_t key = 0; key < 200; key++) {
        unsigned char live[COLS] = {0}, want[COLS] = {0};
        double values[COLS];
        uint32_t longest = 0, votes = 0;
        draw(&l, key);
        uint32_t first = sb_rng_below(key, 1, COLS / 2) * 2, dead = 40 + sb_rng_below(key, 2, 60);
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t k = first / 2; k < COLS / 2 && k < first / 2 + dead / 2; k++)
                l.codes[i][k] = 0x80;
        if (key % 3)
            memset(l.scales, key % 3 == 1 ? 0x38 : 0, sizeof l.scales[0] * (key % 5));
        sb_matrix master = {.data = bf16[0], .format = SB_FORMAT_bf16, .rows = ROWS, .cols = COLS};
        for (uint32_t i = 0; i < ROWS * COLS; i++)
            sb_store_u16(bf16[i / COLS] + 2 * (size_t)(i % COLS),
                         (uint16_t)(sb_rng_below(key, i, 40) ? 0x3f80u
                                    : i % 2                  ? 0x8000u
                                                             : 0u));
        sb_seen seen = {.rows = ROWS};
        sb_panel panel = {.unit = &l.unit,
                          .matrix = l.matrix,
                          .rows = ROWS,
                          .last = 1,
                          .master = key % 2 ? &master : NULL,
                          .seen = &seen,
                          .scratch = scratch};
        sb_scan_columns(&panel, live);
        for (uint32_t i = 0; i < ROWS; i++) {
            int any = 0;
            sb_matrix_wide(&l.matrix, i, values);
            for (uint32_t k = 0; k < COLS; k++) {
                any |= values[k] != 0;
                want[k] |= values[k] != 0 ||
                           (panel.master && !(bf16[i][2 * k] | (bf16[i][2 * k + 1] & 0x7f)));
            }
            votes += (uint32_t)any;
        }
        for (uint32_t k = 0, run = 0; k < COLS && votes >= SB_COLUMN_VOTES; k++) {
            run = want[k] ? 0 : run + 1;
            longest = run > longest ? run : longest;
        }
        assert_int_equal(seen.column_votes, votes);
        assert_int_equal(seen.zero_cols, longest);
        found += longest > 8;
    }
    assert_true(found > 20);
}

/* --- keys ------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Few keys and many, repeated within a list or across two lists. The same key on another grid is
 * another key. */
TEST(keys_that_stand_twice)
{
    static const size_t counts[] = {0, 1, 100, 5000, 100000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t count = counts[c], half = count / 2, repeated = 0;
        uint64_t *all = calloc(count + 1, sizeof *all);
        sb_key_set keys;
        sb_unit unit[2] = {{.marks = {calloc(count + 1, sizeof(sb_mark)), half, half}},
                           {.marks = {calloc(count + 1, sizeof(sb_mark)), count - half, 0}}};
        sb_units units = {.rows = unit, .count = 2};
        assert_true(all && unit[0].marks.rows && unit[1].marks.rows);
        for (size_t i = 0; i < count; i++) {
            size_t of = i > 10 && i % 37 == 0 ? i - 7 : i;
            sb_mark *m = i < half ? &unit[0].marks.rows[i] : &unit[1].marks.rows[i - half];
            m->key = sb_rng_key(of, "mark") & ~(uint64_t)0xff;
            m->place = (uint64_t)i << 16 | (i % 3 == 0);
            all[i] = sb_mark_kind(m);
            assert_int_equal(sb_mark_at(m), i);
            assert_int_equal(sb_mark_grid(m), i % 3 == 0);
        }
        if (count)
            qsort(all, count, sizeof *all, by_value);
        assert_true(sb_repeated_keys(&units, &keys));
        for (size_t i = 0; i < count; i++) {
            int before = i && all[i] == all[i - 1], after = i + 1 < count && all[i] == all[i + 1];
            repeated += !before && after;
            assert_int_equal(sb_key_set_has(&keys, all[i]), before || after);
        }
        assert_int_equal(keys.count, repeated);
        assert_true(count < 5000 || repeated > count / 200);
        sb_key_set_free(&keys);
        free(all);
        free(unit[0].marks.rows);
        free(unit[1].marks.rows);
    }
}
