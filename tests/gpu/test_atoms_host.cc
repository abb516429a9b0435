/* test_atoms_host.cc - compares the host bodies of gpu/atom with the interpreter of
 * ref/formats/atoms.h: every code and every pair of scales, random and hostile fragments. Faults in
 * the operands must show, and harmless changes must not. SAMEBIT_CASES / 6 is the number of
 * fragments per format and kind of operands (default 200); from the 2001st on, only one column of
 * each is compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/atom/host/warp.h"
#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/small_float.h"
#include "tests/gpu/atom_model.h"
#include "tests/lib/suite.h"

namespace
{

typedef void body(const atom_warp *warp, float d[32][4]);

void bf16_body(const atom_warp *warp, float d[32][4])
{
    sb_warp_mma_bf16(warp->a, warp->b, d);
}
void f16_body(const atom_warp *warp, float d[32][4])
{
    sb_warp_mma_f16(warp->a, warp->b, d);
}
void e4m3_body(const atom_warp *warp, float d[32][4])
{
    sb_warp_mma_e4m3(warp->a, warp->b, d);
}
void nvfp4_body(const atom_warp *warp, float d[32][4])
{
    sb_warp_mma_nvfp4(warp->a, warp->b, warp->sa, warp->sb, warp->from_a, warp->from_b, d);
}

const struct {
    const char *name;
    sb_format format;
    sb_atom_id row;
    body *run;
} atoms[] = {
    {"bf16", SB_FORMAT_bf16, SB_ATOM_sm120_f16, bf16_body},
    {"f16", SB_FORMAT_f16, SB_ATOM_sm120_f16, f16_body},
    {"e4m3", SB_FORMAT_e4m3, SB_ATOM_sm120_fp8, e4m3_body},
    {"nvfp4", SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, nvfp4_body},
};
enum { ATOMS = sizeof atoms / sizeof *atoms, NVFP4 = 3, WHOLE = 8 };

uint64_t cases()
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long n = text ? strtoul(text, NULL, 10) / ATOM_KINDS + 1 : 200;
    return n;
}

/* The number of elements of d, in one column or in all, whose bits differ from the model's. */
size_t differences(const float d[32][4], const float want[32][4], unsigned only)
{
    size_t count = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned row, column;
            atom_place_d(lane, i, &row, &column);
            if (only == WHOLE || column == only)
                count += sb_bits_f32(d[lane][i]) != sb_bits_f32(want[lane][i]);
        }
    return count;
}

/* Compares the body on `given` with the model on `warp`. */
size_t compare(unsigned which, const sb_atom *model, const atom_warp *given, const atom_warp *warp,
               unsigned only)
{
    float d[32][4], want[32][4];
    memcpy(d, given->c, sizeof d);
    atoms[which].run(given, d);
    atom_model(model, atoms[which].format, warp, only, want);
    return differences(d, want, only);
}

size_t compare_same(unsigned which, const atom_warp *warp, unsigned only)
{
    return compare(which, &sb_atoms[atoms[which].row], warp, warp, only);
}

/* --- random and hostile fragments ------------------------------------------------------------- */

TEST(test_random)
{
    for (unsigned which = 0; which < ATOMS; which++)
        for (unsigned kind = 0; kind < ATOM_KINDS; kind++) {
            uint64_t key = sb_rng_key(42, atoms[which].name) + kind;
            for (uint64_t i = 0, most = cases(); i < most; i++) {
                atom_warp warp;
                atom_draw(atoms[which].format, kind, sb_rng_u64(key, i), &warp);
                unsigned only = i < 2000 ? (unsigned)WHOLE : (unsigned)(i % 8);
                size_t count = compare_same(which, &warp, only);
                if (count)
                    fail_msg("%s, operands %u, case %u: %zu elements differ", atoms[which].name,
                             kind, (unsigned)i, count);
            }
        }
}

/* The fragments reach these kinds of results. Otherwise the test above would prove little. */
TEST(test_reach)
{
    for (unsigned which = 0; which < ATOMS; which++) {
        size_t nan = 0, infinite = 0, zero = 0, subnormal = 0;
        for (uint64_t i = 0; i < 30 * ATOM_KINDS; i++) {
            atom_warp warp;
            float d[32][4];
            atom_draw(atoms[which].format, (unsigned)(i % ATOM_KINDS), sb_rng_u64(7, i), &warp);
            memcpy(d, warp.c, sizeof d);
            atoms[which].run(&warp, d);
            for (unsigned at = 0; at < 128; at++) {
                uint32_t bits = sb_bits_f32(d[at / 4][at % 4]) & 0x7fffffff;
                nan += bits > 0x7f800000;
                infinite += bits == 0x7f800000;
                zero += bits == 0;
                subnormal += bits > 0 && bits < 0x00800000;
            }
        }
        assert_true(nan > 0 && infinite > 0 && zero > 0 && subnormal > 0);
    }
}

/* --- every code ------------------------------------------------------------------------------- */

const float addends[] = {0.0f, 1.0f, -0x1.fffffep-6f, 0x1.5p20f, 0x1.234568p-24f, -0x1p-140f};

/* All 65536 pairs of E4M3, and all 16-bit codes with eight others: each product alone in its sum,
 * and beside a product of 1. */
void every_pair(unsigned which, unsigned bits, unsigned columns)
{
    unsigned half = bits == 16 ? 0x3f80 : 0x38, others = bits == 16 ? 8 : 256;
    if (atoms[which].format == SB_FORMAT_f16)
        half = 0x3c00;
    for (unsigned first = 0; first < 1u << bits; first += 16)
        for (unsigned other = 0; other < others; other += columns) {
            atom_warp warp;
            memset(&warp, 0, sizeof warp);
            for (unsigned lane = 0; lane < 32; lane += 4) {
                uint32_t n =
                    bits == 16 ? sb_rng_below(3, other + lane / 4, 0x10000) : other + lane / 4;
                warp.a[lane][0] = (first + lane / 4) | (other & 8 ? half << bits : 0);
                warp.a[lane][1] = (first + lane / 4 + 8) | (first & 16 ? half << bits : 0);
                warp.b[lane][0] = n | half << bits;
            }
            for (unsigned at = 0; at < 128; at++)
                warp.c[at / 4][at % 4] = addends[(at + first / 16 + other / 8) % 6];
            size_t count = compare_same(which, &warp, WHOLE);
            if (count)
                fail_msg("%s: codes from %x, %x: %zu", atoms[which].name, first, other, count);
        }
}

TEST(test_every_code)
{
    every_pair(0, 16, 8);
    every_pair(1, 16, 8);
    every_pair(2, 8, 8);
}

/* All pairs of scale bytes in each of the four positions, with different codes; and all pairs of
 * E2M1 codes. */
TEST(test_every_scale)
{
    for (unsigned first = 0; first < 256; first += 16)
        for (unsigned other = 0; other < 256; other += 8) {
            atom_warp warp;
            atom_draw(SB_FORMAT_e2m1, ATOM_ORDINARY, sb_rng_u64(9, first * 256 + other), &warp);
            unsigned place = (first / 16 + other / 8) % 4;
            for (unsigned m = 0; m < 16; m++) {
                uint32_t *word = &warp.sa[m % 8 * 4 + 2 * warp.from_a + m / 8];
                *word = (*word & ~(0xffu << 8 * place)) | (first + m) << 8 * place;
            }
            for (unsigned n = 0; n < 8; n++) {
                uint32_t *word = &warp.sb[4 * n + warp.from_b];
                *word = (*word & ~(0xffu << 8 * place)) | (other + n) << 8 * place;
            }
            for (unsigned at = 0; at < 128; at++)
                warp.c[at / 4][at % 4] = addends[(at + first / 16 + other / 8) % 6];
            assert_int_equal(compare_same(NVFP4, &warp, WHOLE), 0);
        }
    for (unsigned at = 0; at < 64; at++)
        for (unsigned half = 0; half < 2; half++) {
            atom_warp warp;
            memset(&warp, 0, sizeof warp);
            for (unsigned lane = 0; lane < 32; lane++) {
                uint32_t place = 4 * (at % 8);
                warp.sa[lane] = warp.sb[lane] = 0x38383838;
                if (lane % 4 != at % 32 / 8)
                    continue;
                warp.a[lane][at / 32 * 2] = (lane / 4) << place;
                warp.a[lane][at / 32 * 2 + 1] = (lane / 4 + 8) << place;
                warp.b[lane][at / 32] = (lane / 4 + 8 * half) << place;
            }
            float d[32][4] = {};
            nvfp4_body(&warp, d);
            for (unsigned m = 0; m < 16; m++)
                for (unsigned n = 0; n < 8; n++) {
                    float want =
                        sb_e2m1_to_f32((uint8_t)m) * sb_e2m1_to_f32((uint8_t)(n + 8 * half));
                    assert_true(d[m % 8 * 4 + n / 2][m / 8 * 2 + n % 2] == want);
                }
        }
}

/* --- faults and variations -------------------------------------------------------------------- */

void swap_words(uint32_t *x, uint32_t *y)
{
    uint32_t kept = *x;
    *x = *y;
    *y = kept;
}

typedef void change(atom_warp *warp, unsigned lane);
void registers_of_a(atom_warp *w, unsigned lane)
{
    swap_words(&w->a[lane][1], &w->a[lane][2]);
}
void registers_of_b(atom_warp *w, unsigned lane)
{
    swap_words(&w->b[lane][0], &w->b[lane][1]);
}
void halves_of_a(atom_warp *w, unsigned lane)
{
    w->a[lane][0] = w->a[lane][0] << 16 | w->a[lane][0] >> 16;
}
void lanes_of_b(atom_warp *w, unsigned lane)
{
    if (lane % 2)
        swap_words(&w->b[lane][0], &w->b[lane - 1][0]);
}
void no_minus(atom_warp *w, unsigned lane)
{
    w->a[lane][0] &= 0x77777777;
}
void scale_bytes(atom_warp *w, unsigned lane)
{
    w->sb[lane] =
        (w->sb[lane] & 0xffff0000) | (w->sb[lane] & 0xff) << 8 | (w->sb[lane] >> 8 & 0xff);
}
void scale_rows(atom_warp *w, unsigned lane)
{
    if (lane % 2)
        swap_words(&w->sa[lane], &w->sa[lane - 1]);
}
void scale_thread(atom_warp *w, unsigned lane)
{
    if (lane == 0)
        w->from_b = (w->from_b + 1) % 4;
}
void c_elements(atom_warp *w, unsigned lane)
{
    float kept = w->c[lane][1];
    w->c[lane][1] = w->c[lane][2];
    w->c[lane][2] = kept;
}

/* Changes that leave every result as it is: the same reordering of k within 16 in A and B, and
 * scales in lanes that are not read. */
void same_order(atom_warp *w, unsigned lane)
{
    if (lane % 2 == 0) {
        for (unsigned r = 0; r < 4; r++)
            swap_words(&w->a[lane][r], &w->a[lane + 1][r]);
        for (unsigned r = 0; r < 2; r++)
            swap_words(&w->b[lane][r], &w->b[lane + 1][r]);
    }
}
void unread_scales(atom_warp *w, unsigned lane)
{
    if (lane % 4 / 2 != w->from_a)
        w->sa[lane] ^= 0x01020304u * (lane + 1);
    if (lane % 4 != w->from_b)
        w->sb[lane] ^= 0x01020304u * (lane + 1);
}

size_t seen(unsigned which, change *how)
{
    size_t count = 0;
    for (uint64_t i = 0; i < 20; i++) {
        atom_warp warp, given;
        atom_draw(atoms[which].format, ATOM_ORDINARY, sb_rng_u64(5, i), &warp);
        given = warp;
        for (unsigned lane = 0; lane < 32; lane++)
            how(&given, lane);
        count += compare(which, &sb_atoms[atoms[which].row], &given, &warp, WHOLE);
    }
    return count;
}

TEST(test_faults)
{
    for (unsigned which = 0; which < ATOMS; which++) {
        assert_true(seen(which, registers_of_a) > 0);
        assert_true(seen(which, registers_of_b) > 0);
        assert_true(seen(which, halves_of_a) > 0);
        assert_true(seen(which, lanes_of_b) > 0);
        assert_true(seen(which, no_minus) > 0);
        assert_true(seen(which, c_elements) > 0);
        assert_int_equal(seen(which, same_order), 0);
        assert_int_equal(seen(which, unread_scales), 0);
    }
    assert_true(seen(NVFP4, scale_bytes) > 0);
    assert_true(seen(NVFP4, scale_rows) > 0);
    assert_true(seen(NVFP4, scale_thread) > 0);
}

/* The number of elements, in 60 fragments of a kind, that differ under a changed row of
 * atoms.def. */
size_t seen_in_row(unsigned which, const sb_atom *changed, unsigned kind)
{
    size_t count = 0;
    for (uint64_t at = 0; at < 60; at++) {
        atom_warp warp;
        atom_draw(atoms[which].format, kind, sb_rng_u64(6, at), &warp);
        count += compare(which, changed, &warp, &warp, WHOLE);
    }
    return count;
}

/* H-2: "A product of zero and a C of zero have the exponent Z". Only bfloat16 shows this: its
 * products can be so small. */
TEST(test_zero_exponent)
{
    static const int others[] = {-126, -132, -134};
    for (unsigned which = 0; which < ATOMS; which++)
        for (int zero : others) {
            sb_atom changed = sb_atoms[atoms[which].row];
            changed.zero = zero;
            const size_t count = seen_in_row(which, &changed, ATOM_TINY);
            if ((count > 0) != (atoms[which].format == SB_FORMAT_bf16))
                fail_msg("%s: %d as the exponent of a zero changes %zu elements", atoms[which].name,
                         zero, count);
        }
}

/* H-13: for each atom with two readings, some fragments tell them apart. */
TEST(test_open)
{
    for (unsigned which = 0; which < ATOMS; which++) {
        sb_atom empty = sb_atoms[atoms[which].row], plus = empty;
        empty.open = SB_ATOM_EMPTY_AS_ZERO;
        plus.open = SB_ATOM_PLUS_ZERO;
        assert_int_equal(seen_in_row(which, &empty, ATOM_APART) > 0, which == NVFP4);
        assert_int_equal(seen_in_row(which, &plus, ATOM_TINY) > 0,
                         atoms[which].format == SB_FORMAT_bf16);
        assert_int_equal(seen_in_row(which, &empty, ATOM_ORDINARY), 0);
        assert_int_equal(seen_in_row(which, &plus, ATOM_ORDINARY), 0);
    }
}

/* A model with one bit more or less, or with rounding in two steps, gives other results. */
TEST(test_other_models)
{
    for (unsigned which = 0; which < ATOMS; which++) {
        const sb_atom row = sb_atoms[atoms[which].row];
        sb_atom changed[4] = {row, row, row, row};
        changed[0].fraction--;
        changed[1].fraction++;
        changed[2].kept--;
        changed[3].block /= 2;
        for (unsigned i = 0; i < 4; i++) {
            if (seen_in_row(which, &changed[i], ATOM_HUGE_C) +
                    seen_in_row(which, &changed[i], ATOM_CODES) ==
                0)
                fail_msg("%s: change %u of the model is not seen", atoms[which].name, i);
        }
    }
}

/* --- s8 and ldmatrix -------------------------------------------------------------------------- */

TEST(test_s8)
{
    for (uint64_t i = 0; i < 300; i++) {
        atom_warp warp;
        int32_t c[32][4], d[32][4], want[32][4];
        atom_draw(SB_FORMAT_e2m1, ATOM_CODES, sb_rng_u64(8, i), &warp);
        for (unsigned at = 0; at < 128; at++)
            c[at / 4][at % 4] = (int32_t)sb_rng_u64(i, at) >> (i % 3 * 12);
        if (i == 0) { /* the largest possible sum, which wraps around */
            memset(warp.a, 0x80, sizeof warp.a);
            memset(warp.b, 0x80, sizeof warp.b);
            c[0][0] = INT32_MAX;
        }
        memcpy(d, c, sizeof d);
        sb_warp_mma_s8(warp.a, warp.b, d);
        atom_model_s8(&warp, c, want);
        assert_memory_equal(d, want, sizeof d);
        swap_words(&warp.a[i % 32][1], &warp.a[i % 32][2]);
        memcpy(d, c, sizeof d);
        sb_warp_mma_s8(warp.a, warp.b, d);
        assert_true(i == 0 || memcmp(d, want, sizeof d) != 0);
    }
}

/* The value of every element encodes its matrix, row and column. */
TEST(test_ldmatrix)
{
    uint32_t rows[32][4];
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t word = 0; word < 4; word++) {
            uint32_t first = lane / 8 << 12 | lane % 8 << 4 | 2 * word;
            rows[lane][word] = first | (first + 1) << 16;
        }
    for (unsigned count = 1; count <= 4; count *= 2)
        for (int transposed = 0; transposed < 2; transposed++) {
            uint32_t d[32][4];
            memset(d, 0xa5, sizeof d);
            sb_warp_ldmatrix(rows, count, transposed, d);
            for (uint32_t lane = 0; lane < 32; lane++)
                for (uint32_t j = 0; j < 4; j++)
                    for (uint32_t e = 0; e < 2; e++) {
                        uint32_t i = lane >> 2, k = lane % 4 * 2 + e;
                        uint32_t want = transposed ? j << 12 | k << 4 | i : j << 12 | i << 4 | k;
                        uint32_t got = d[lane][j] >> 16 * e & 0xffff;
                        assert_int_equal(got, j < count ? want : 0xa5a5);
                    }
        }
}

} // namespace
