/* test_gate_ariths.c - arithmetics by name: those that cover several units have bounds large enough
 * for each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/ops/knob.h"
#include "tests/lib/suite.h"
#include "tools/judge/gate/gate.h"

TEST(every_row_has_a_name_that_finds_it)
{
    sb_gate_arith at, of;
    assert_true(sb_gate_arith_count() > 10);
    for (size_t i = 0; i < sb_gate_arith_count(); i++) {
        assert_int_equal(sb_gate_arith_at(i, &at), SB_OK);
        assert_int_equal(sb_gate_arith_of(at.name, &of, NULL), SB_OK);
        assert_memory_equal(&at, &of, sizeof at);
        assert_true(strlen(sb_gate_arith_help(i)) > 10);
        assert_int_equal(at.exact, i == 0);
    }
}

TEST(units_of_the_list_of_atoms_are_names_too)
{
    for (size_t i = 0; i < sb_arithmetic_count(); i++) {
        const sb_arithmetic *ar = sb_arithmetic_at(i);
        sb_gate_arith of;
        char name[80];
        assert_int_equal(sb_gate_arith_of(ar->name, &of, NULL), SB_OK);
        assert_memory_equal(&of.ar, ar, sizeof of.ar);
        strcpy(name, ar->name);
        strcat(name, "+bf16");
        assert_int_equal(sb_gate_arith_of(name, &of, NULL), SB_OK);
        assert_memory_equal(&of.ar, ar, sizeof of.ar);
        assert_string_equal(of.name, name);
        strcpy(name, ar->name);
        strcat(name, ":triton+bf16");
        assert_int_equal(sb_gate_arith_of(name, &of, NULL), SB_OK);
        assert_ptr_equal(of.ar.functions, &sb_functions_table[SB_FUNCTIONS_triton]);
        assert_ptr_equal(of.ar.atom, ar->atom);
        assert_string_equal(of.name, name);
        assert_int_equal(of.knobs.value[SB_KNOB_act], SB_act_bf16);
    }
}

TEST(other_names_are_refused_with_those_there_are)
{
    static const char *const names[] = {"",
                                        "bf16",
                                        "+bf16",
                                        "exact+bf16",
                                        "fp32+fp8",
                                        "FP32",
                                        "fp32+bf16+bf16",
                                        "fp32 ",
                                        "exact+f16",
                                        "exact:cuda",
                                        "fp32+bf16:cuda",
                                        "exact@128",
                                        "fp32@",
                                        "fp32@0",
                                        "fp32@-16",
                                        "fp32@16x",
                                        "a name that is longer than any of those in the table is"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sb_gate_arith ar;
        sb_error err = {""};
        assert_int_equal(sb_gate_arith_of(names[i], &ar, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "bf16_mma"));
    }
    static const char *const chunks[] = {"fp32@100", "fp32@8:triton", "bf16_mma@1024+bf16",
                                         "library@128@128"};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        sb_gate_arith ar;
        sb_error err = {""};
        assert_int_equal(sb_gate_arith_of(chunks[i], &ar, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, i < 3 ? "power of two from 16 to 512" : "bf16_mma"));
    }
    for (int empty = 0; empty < 2; empty++) {
        sb_gate_arith ar;
        sb_error err = {""};
        assert_int_equal(sb_gate_arith_of(empty ? "fp32:" : "fp32:nobody", &ar, &err),
                         SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "sleef_u10"));
    }
}

/* V-104: "inside operations the values that profile `hf` rounds" */
TEST(rounding_points_are_values_of_profile_hf)
{
    sb_knobs hf, exact;
    sb_gate_arith ar;
    assert_int_equal(sb_knobs_profile(&hf, "hf", NULL), SB_OK);
    sb_knobs_exact(&exact);
    assert_int_equal(sb_gate_arith_of("fp32", &ar, NULL), SB_OK);
    assert_memory_equal(&ar.knobs, &exact, sizeof exact);
    assert_int_equal(sb_gate_arith_of("fp32+bf16", &ar, NULL), SB_OK);
    size_t moved = 0;
    for (int k = 0; k < SB_KNOB_COUNT; k++) {
        assert_true(ar.knobs.value[k] == exact.value[k] || ar.knobs.value[k] == hf.value[k]);
        moved += ar.knobs.value[k] != exact.value[k];
    }
    assert_int_equal(moved, 11);
}

/* --- units ------------------------------------------------------------------------------------ */

enum { MOST = 700 };
static float a[MOST], b[MOST];

/* Random operands of a format, with exponents that differ by up to `spread`. Some keys give one
 * sign only. */
static sb_reduction random_terms(sb_format format, uint64_t key, size_t n, unsigned spread)
{
    sb_reduction r = {0};
    for (size_t i = 0; i < n; i++) {
        float scale = 1.0f;
        for (uint32_t k = sb_rng_below(key, 4 * i, spread + 1); k > 0; k--)
            scale /= 2.0f;
        a[i] = sb_round_to(format, scale * sb_rng_normal(key, 4 * i + 1));
        b[i] = sb_round_to(format, sb_rng_normal(key, 4 * i + 2));
        if (key % 3 == 0 && (a[i] < 0.0f) != (b[i] < 0.0f))
            a[i] = -a[i];
        sb_reduce(&r, (sb_ball){(double)a[i], 0.0}, (sb_ball){(double)b[i], 0.0});
    }
    return r;
}

static double apart(double x, double y)
{
    return x < y ? y - x : x - y;
}

/* Puts the terms in another order. */
static void shuffle(uint64_t key, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = sb_rng_below(key, (1u << 21) + i, (uint32_t)i);
        float x = a[i - 1], y = b[i - 1];
        a[i - 1] = a[k], b[i - 1] = b[k];
        a[k] = x, b[k] = y;
    }
}

/* V-103: "the bound of ampere_f16 is at least that of each row whose form is HALF, in any order" */
TEST(bf16_mma_covers_every_unit_of_its_kind)
{
    sb_gate_arith cover;
    size_t rows = 0;
    assert_int_equal(sb_gate_arith_of("bf16_mma", &cover, NULL), SB_OK);
    for (size_t k = 0; k < sb_arithmetic_count(); k++) {
        const sb_arithmetic *row = sb_arithmetic_at(k);
        if (!row->atom || row->atom->form != SB_ATOM_HALF || row->in_order)
            continue;
        rows++;
        for (uint64_t key = 1; key < 400; key++) {
            size_t n = 1 + sb_rng_below(key, 1u << 20, MOST);
            sb_reduction r = random_terms(SB_FORMAT_bf16, key, n, (unsigned)(key % 12));
            double limit = sb_atom_error(&cover.ar, &r);
            assert_true(limit >= sb_atom_error(row, &r));
            sb_atom other = *row->atom; /* its blocks have other terms */
            other.order = other.order == SB_ATOM_IN_ROW ? SB_ATOM_IN_PAIRS : SB_ATOM_IN_ROW;
            for (uint64_t order = 0; order < 3; order++) {
                float y = sb_atom_dot(row->atom, SB_FORMAT_bf16, a, 1, b, 1, n);
                float z = sb_atom_dot(&other, SB_FORMAT_bf16, a, 1, b, 1, n);
                assert_true(apart((double)y, r.sum) <= limit);
                assert_true(apart((double)z, r.sum) <= limit);
                shuffle(key, n);
            }
        }
    }
    assert_true(rows >= 5);
}

/* rho of T-52 without the roundings that all arithmetics have in common. */
static double rho_of(const sb_atom *atom, size_t chain)
{
    double cut = 1.0, kept = 1.0;
    for (int i = 0; i < atom->fraction; i++)
        cut /= 2.0;
    for (int i = 0; i < atom->kept; i++)
        kept /= 2.0;
    double blocks = (double)sb_atom_blocks(atom, chain);
    double last = atom->addend == SB_ATOM_LAST
                      ? (double)((chain + atom->terms - 1) / atom->terms) * SB_UNIT
                      : 0.0;
    return blocks * ((double)(atom->block + 1) * cut + kept) + last;
}

/* V-109: "35 u for 32 products where sums keep 23 bits, and 37 2^-13 where they keep 13" */
TEST(fp8_units_are_covered_at_every_length)
{
    sb_gate_arith wide, narrow;
    size_t rows = 0;
    assert_int_equal(sb_gate_arith_of("fp8_mma", &wide, NULL), SB_OK);
    assert_int_equal(sb_gate_arith_of("fp8_short", &narrow, NULL), SB_OK);
    assert_true(rho_of(wide.ar.fp8, 32) == 35.0 * SB_UNIT);
    assert_true(rho_of(narrow.ar.fp8, 32) == 37.0 * 0x1p-13);
    for (int k = 0; k < SB_ATOM_COUNT; k++) {
        const sb_atom *row = &sb_atoms[k];
        if ((!strstr(row->name, "fp8") && !strstr(row->name, "mxf8")) || row->sums == SB_ATOM_F16)
            continue;
        rows++;
        const sb_atom *cover = row->kept > 13 ? wide.ar.fp8 : narrow.ar.fp8;
        for (size_t n = 1; n < 20000; n++)
            assert_true(rho_of(cover, n) >= rho_of(row, n));
        for (uint64_t key = 1; key < 200; key++) {
            size_t n = 1 + sb_rng_below(key, 1u << 20, MOST);
            sb_reduction r = random_terms(SB_FORMAT_e4m3, key, n, (unsigned)(key % 5));
            double rho = rho_of(cover, n), t = r.magnitude + 7.0;
            float y = sb_atom_dot(row, SB_FORMAT_e4m3, a, 1, b, 1, n);
            assert_true(apart((double)y, r.sum) <= rho * t / (1.0 - rho));
        }
    }
    assert_int_equal(rows, 6);
}

/* The sum of a chain of 16 FP4 blocks, with the exact sum, the sum of the magnitudes and 2^e of
 * T-52. For even keys, some groups have factors with disjoint supports. For odd keys no group has,
 * and all products are positive. */
typedef struct fp4_chain {
    float sum;
    double exact, magnitude, floor;
} fp4_chain;

/* A scale: any size for odd keys. For even keys, large if all products of the group are zero,
 * otherwise small. */
static float scale_at(uint64_t key, uint32_t at, uint32_t large)
{
    const uint32_t code =
        key % 2 ? 1 + sb_rng_below(key, at, 0x7e) : (large ? 0x60 : 1) + sb_rng_below(key, at, 31);
    return sb_ue4m3_to_f32((uint8_t)code);
}

static fp4_chain chain_of(const sb_atom *unit, uint64_t key)
{
    fp4_chain c = {0};
    sb_atom_term terms[4];
    for (uint32_t g = 0; g < 64; g++) {
        int8_t x[16], y[16];
        double sum = 0.0, size = 0.0, scales;
        const uint32_t apart = key % 2 ? 0 : sb_rng_below(key, 100 * g, 2);
        const uint32_t codes = key % 2 ? 8 : 16; /* codes 0 to 7 have no sign */
        const float s = scale_at(key, 100 * g + 1, apart), t = scale_at(key, 100 * g + 2, apart);
        for (uint32_t k = 0; k < 16; k++) {
            x[k] =
                (int8_t)(2.0f * sb_e2m1_to_f32((uint8_t)sb_rng_below(key, 100 * g + k + 3, codes)));
            y[k] = (int8_t)(2.0f *
                            sb_e2m1_to_f32((uint8_t)sb_rng_below(key, 100 * g + k + 20, codes)));
            x[k] = apart && k % 2 ? 0 : x[k];
            y[k] = apart && k % 2 == 0 ? 0 : y[k];
            sum += x[k] * y[k];
            size += x[k] * y[k] < 0 ? -x[k] * y[k] : x[k] * y[k];
        }
        scales = (double)s * (double)t;
        c.exact += sum * scales / 4.0, c.magnitude += size * scales / 4.0;
        scales = sb_larger((double)s, 0x1p-6) * sb_larger((double)t, 0x1p-6);
        c.floor = sb_larger(c.floor, scales);
        terms[g % 4] = sb_atom_group(unit, x, y, s, t);
        if (g % 4 == 3)
            c.sum = sb_atom_run(unit, terms, c.sum);
    }
    return c;
}

/* T-52 for both readings of H-13: "a group whose products are all zero has the exponent of its
 * scales, or Z." */
TEST(the_bound_of_fp4_holds_for_both_readings)
{
    sb_atom other = sb_atoms[SB_ATOM_sm120_nvfp4];
    size_t differ = 0;
    double worst = 0.0;
    other.open = SB_ATOM_EMPTY_AS_ZERO;
    for (uint64_t key = 1; key < 3000; key++) {
        const fp4_chain first = chain_of(&sb_atoms[SB_ATOM_sm120_nvfp4], key);
        const fp4_chain second = chain_of(&other, key);
        const double rho = 16.0 * (5.0 * 0x1p-35 + 0x1p-23);
        const double limit = rho * (first.magnitude + first.floor) / (1.0 - rho);
        assert_true(apart((double)first.sum, first.exact) <= limit);
        assert_true(apart((double)second.sum, second.exact) <= limit);
        worst = sb_larger(worst, apart((double)first.sum, first.exact) / limit);
        differ += first.sum != second.sum;
    }
    assert_true(differ > 0 && worst > 0.4); /* half of the bound would not suffice */
}
