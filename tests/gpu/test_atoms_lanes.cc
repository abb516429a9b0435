/* test_atoms_lanes.cc - the atoms as kernels call them, in the emulator, compared with the
 * interpreter of ref/formats/atoms.h: the host bodies under their device names, and the portable
 * bodies of sm_90, for which the host provides the s8 instruction and the shuffles. SAMEBIT_CASES /
 * (6 part) is the number of fragments per kernel and kind of operands; each kernel has its own
 * `part` (default 60). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tests/gpu/atom_kernels.cuh"
#include "tests/gpu/atom_model.h"
#include "tests/lib/suite.h"

namespace
{

typedef void kernel(sb_global<const uint32_t> in, sb_global<uint32_t> out);

enum { BATCH = 30 };
typedef uint32_t given_words[BATCH][32][ATOM_IN];
typedef uint32_t result_words[BATCH][32][ATOM_OUT];

uint64_t batches(unsigned part)
{
    const char *text = getenv("SAMEBIT_CASES");
    return ATOM_KINDS * (text ? strtoul(text, NULL, 10) / (ATOM_KINDS * BATCH * part) + 1 : 2);
}

void to_words(const atom_warp *warp, uint32_t out[32][ATOM_IN])
{
    for (unsigned lane = 0; lane < 32; lane++) {
        memcpy(out[lane], warp->a[lane], sizeof warp->a[lane]);
        memcpy(out[lane] + 4, warp->b[lane], sizeof warp->b[lane]);
        out[lane][6] = warp->sa[lane];
        out[lane][7] = warp->sb[lane];
        memcpy(out[lane] + 8, warp->c[lane], sizeof warp->c[lane]);
    }
}

void fill(uint64_t key, given_words out)
{
    for (unsigned i = 0; i < BATCH; i++)
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned at = 0; at < ATOM_IN; at++)
                out[i][lane][at] = (uint32_t)sb_rng_u64(key + i, 32 * at + lane);
}

/* Runs a batch of fragments, one warp each. The seed determines the order of lanes and blocks. */
void run(const char *name, kernel *body, const given_words in, uint64_t seed, result_words out)
{
    sb_error err;
    sb_emu_region given, result;
    given_words copy;
    memcpy(copy, in, sizeof copy);
    sb_emu *emu = sb_emu_new(seed);
    assert_non_null(emu);
    if (sb_emu_region_open(&given, "in", copy, sizeof copy, SB_EMU_INPUT, &err) != SB_OK ||
        sb_emu_region_open(&result, "out", out, sizeof(result_words), SB_EMU_OUTPUT, &err) !=
            SB_OK ||
        sb_emu_call(emu, name, body, dim3(BATCH), dim3(32), 0, &err,
                    sb_global<const uint32_t>(&given), sb_global<uint32_t>(&result)) != SB_OK)
        fail_msg("%s", err.text);
    sb_emu_region_close(&given);
    sb_emu_region_close(&result);
    sb_emu_free(emu);
}

const struct {
    const char *name;
    kernel *body;
    sb_format format;
    sb_atom_id row;
    unsigned from_a, from_b, part;
} kernels[] = {
    {"bf16", atom_bf16, SB_FORMAT_bf16, SB_ATOM_sm120_f16, 0, 0, 10},
    {"f16", atom_f16, SB_FORMAT_f16, SB_ATOM_sm120_f16, 0, 0, 10},
    {"e4m3", atom_e4m3, SB_FORMAT_e4m3, SB_ATOM_sm120_fp8, 0, 0, 10},
    {"e4m3_portable", atom_e4m3_portable, SB_FORMAT_e4m3, SB_ATOM_sm120_fp8, 0, 0, 1},
    {"nvfp4", atom_nvfp4, SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 0, 0, 10},
    {"nvfp4_12", atom_nvfp4_12, SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 1, 2, 10},
    {"nvfp4_portable", atom_nvfp4_portable, SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 0, 0, 1},
    {"nvfp4_portable_01", atom_nvfp4_portable_01, SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 0, 1, 10},
    {"nvfp4_portable_12", atom_nvfp4_portable_12, SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 1, 2, 10},
    {"nvfp4_portable_13", atom_nvfp4_portable_13, SB_FORMAT_e2m1, SB_ATOM_sm120_nvfp4, 1, 3, 10},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* Compares one column of the results, or all if `only` is 8. */
bool as_model(unsigned which, const atom_warp *warp, const uint32_t out[32][4], unsigned only)
{
    float want[32][4];
    memcpy(want, out, sizeof want);
    atom_model(&sb_atoms[kernels[which].row], kernels[which].format, warp, only, want);
    return memcmp(want, out, sizeof want) == 0;
}

TEST(test_mma)
{
    static given_words in;
    static result_words out;
    static atom_warp warps[BATCH];
    for (unsigned which = 0; which < KERNELS; which++)
        for (uint64_t batch = 0; batch < batches(kernels[which].part); batch++) {
            uint64_t key = sb_rng_key(43, kernels[which].name);
            for (unsigned i = 0; i < BATCH; i++) {
                atom_draw(kernels[which].format, (unsigned)(batch % ATOM_KINDS),
                          sb_rng_u64(key, batch * BATCH + i), &warps[i]);
                warps[i].from_a = kernels[which].from_a;
                warps[i].from_b = kernels[which].from_b;
                to_words(&warps[i], in[i]);
            }
            run(kernels[which].name, kernels[which].body, in, batch, out);
            for (unsigned i = 0; i < BATCH; i++)
                if (!as_model(which, &warps[i], out[i], batch < 400 ? 8 : i % 8))
                    fail_msg("%s: fragment %u of batch %u differs from the model",
                             kernels[which].name, i, (unsigned)batch);
        }
}

TEST(test_s8)
{
    static given_words in;
    static result_words out;
    fill(44, in);
    run("s8", atom_s8, in, 3, out);
    for (unsigned i = 0; i < BATCH; i++) {
        atom_warp warp;
        int32_t c[32][4], want[32][4];
        for (unsigned lane = 0; lane < 32; lane++) {
            memcpy(warp.a[lane], in[i][lane], sizeof warp.a[lane]);
            memcpy(warp.b[lane], in[i][lane] + 4, sizeof warp.b[lane]);
            memcpy(c[lane], in[i][lane] + 8, sizeof c[lane]);
        }
        atom_model_s8(&warp, c, want);
        assert_memory_equal(out[i], want, sizeof want);
    }
}

template <int COUNT, bool TRANSPOSED> void one_ldmatrix(const given_words in)
{
    static result_words out;
    run("ldmatrix", atom_ldmatrix<COUNT, TRANSPOSED>, in, COUNT, out);
    for (uint32_t i = 0; i < BATCH; i++)
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t j = 0; j < 4; j++)
                for (uint32_t e = 0; e < 2; e++) {
                    uint32_t row = TRANSPOSED ? lane % 4 * 2 + e : lane / 4;
                    uint32_t column = TRANSPOSED ? lane / 4 : lane % 4 * 2 + e;
                    uint32_t word = in[i][8 * j + row][column / 2];
                    uint32_t got = out[i][lane][j] >> 16 * e & 0xffff;
                    assert_int_equal(got, j < COUNT ? word >> 16 * (column & 1) & 0xffff : 0);
                }
}

TEST(test_ldmatrix)
{
    static given_words in;
    fill(45, in);
    one_ldmatrix<1, false>(in);
    one_ldmatrix<2, false>(in);
    one_ldmatrix<4, false>(in);
    one_ldmatrix<1, true>(in);
    one_ldmatrix<2, true>(in);
    one_ldmatrix<4, true>(in);
}

/* Twice the value of an E2M1 code, on which the portable body of NVFP4 relies. */
TEST(test_doubled)
{
    const int size[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    for (uint32_t four = 0; four < 0x10000; four++) {
        uint32_t out = sb_e2m1_doubled(four | 0xabcd0000);
        for (unsigned i = 0; i < 4; i++) {
            uint32_t code = four >> 4 * i & 15;
            int want = code & 8 ? -size[code & 7] : size[code & 7];
            assert_true((int8_t)(out >> 8 * i) == want);
        }
    }
}

} // namespace
