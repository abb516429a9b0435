/* Every container in every form in which it occurs, in small sizes. */
#include "tests/lib/quant_layer.h"

#include "tests/lib/cmocka.h"

enum { ROOM = 320 };

static quant_spec list[ROOM];
static size_t count;

static void add(quant_spec spec)
{
    assert_true(count < ROOM);
    list[count++] = spec;
}

#define C(id) .container = SB_CONTAINER_##id
#define D(id) SB_DTYPE_##id

static void add_fp4(void)
{
    static const sb_container nv[] = {SB_CONTAINER_nvfp4_ct, SB_CONTAINER_nvfp4_modelopt};
    static const sb_dtype factors[] = {D(F32), D(BF16), D(F16)}, e8m0[] = {D(U8), D(F8_E8M0)};
    for (unsigned i = 0; i < 2; i++) {
        quant_spec s = {.container = nv[i],
                        .rows = 7,
                        .cols = 48,
                        .bits = 4,
                        .block = {1, 16},
                        .scale = D(F8_E4M3),
                        .scale_rank = 2};
        for (unsigned rank = 0; rank < 3; rank++)
            for (unsigned f = 0; f < 3; f++) {
                s.factor = factors[f];
                s.factor_rank = rank;
                s.input = (rank + f) % 2 == 0;
                add(s);
            }
        s.cols = 16; /* one group */
        add(s);
        s.special = 1;
        s.cols = 256;
        add(s);
        s = (quant_spec){C(mxfp4),         .rows = 5,        .cols = 96,     .bits = 4,
                         .block = {1, 32}, .scale = e8m0[i], .scale_rank = 2};
        add(s);
        s.special = 1;
        add(s);
        s = (quant_spec){C(mxfp8),         .rows = 5,        .cols = 160,    .bits = 8,
                         .block = {1, 32}, .scale = e8m0[i], .scale_rank = 2};
        add(s);
        s.rows = 1;
        add(s);
        s.special = 1;
        add(s);
    }
}

/* Rows, columns and blocks; some grids end within a block. */
static const uint32_t grids[][4] = {
    {256, 256, 128, 128}, {130, 200, 128, 128}, {24, 300, 24, 128}, {129, 40, 128, 40},
    {40, 96, 32, 32},     {96, 200, 64, 64},    {2, 256, 2, 128},   {300, 600, 128, 128},
};

static void add_fp8(void)
{
    static const sb_dtype scales[] = {D(BF16), D(F32), D(F16), D(F8_E8M0), D(U8)};
    for (unsigned g = 0; g < sizeof grids / sizeof *grids; g++)
        for (unsigned d = 0; d < (g == 7 ? 1 : 5); d++) {
            quant_spec s = {C(fp8_block),
                            .rows = grids[g][0],
                            .cols = grids[g][1],
                            .bits = 8,
                            .block = {grids[g][2], grids[g][3]},
                            .scale = scales[d],
                            .scale_rank = 2,
                            .special = g == 4};
            add(s);
            s.container = SB_CONTAINER_fp8_block_ct;
            s.scale_rank = d % 2 ? 4 : 2;
            add(s);
        }
    for (unsigned d = 0; d < 3; d++)
        for (unsigned rank = 0; rank < 3; rank++) {
            quant_spec s = {C(fp8_tensor),      .rows = 6,        .cols = 40,
                            .bits = 8,          .block = {6, 40}, .scale = scales[d],
                            .scale_rank = rank, .factor = D(F32), .factor_rank = rank,
                            .input = d == 1};
            add(s);
            s.rows = s.block[0] = 129; /* more than one block of the usual size */
            add(s);
            s.rows = s.block[0] = 6;
            s.container = SB_CONTAINER_int8_channel;
            s.input = 0;
            add(s);
            s.block[0] = 1;
            s.special = d == 2;
            if (rank > 0)
                add(s);
            s.container = SB_CONTAINER_fp8_channel;
            s.input = rank == 1;
            if (rank > 0)
                add(s);
        }
}

static void add_int(void)
{
    static const sb_dtype scales[] = {D(F16), D(BF16), D(F32)};
    for (unsigned v = 0; v < 2 * 2 * 2 * 3; v++) {
        quant_spec s = {C(int_gptq),
                        .rows = 24,
                        .cols = 96,
                        .bits = v & 1 ? 8 : 4,
                        .block = {1, v % 5 ? 32 : 96},
                        .scale = scales[v % 3],
                        .v2 = v >> 1 & 1,
                        .asymmetric = v >> 2 & 1,
                        .index = (quant_index)(v >> 3),
                        .special = v == 5};
        if (s.v2 || s.bits != 0)
            add(s);
        s.container = SB_CONTAINER_int_ct;
        s.scale_rank = 2;
        s.v2 = 0;
        s.rows = s.asymmetric ? 24 : 11;
        s.index = s.index == INDEX_TRIVIAL && v & 2 ? INDEX_UNSET : s.index;
        add(s);
    }
    for (unsigned d = 0; d < 3; d++) {
        quant_spec s = {C(int_awq),      .rows = 16,         .cols = 40,          .bits = 4,
                        .block = {1, 8}, .scale = scales[d], .asymmetric = d != 2};
        add(s);
        s = (quant_spec){C(int4_modelopt), .rows = 10,         .cols = 48,      .bits = 4,
                         .block = {1, 16}, .scale = scales[d], .scale_rank = 2, .factor = D(F32),
                         .factor_rank = d, .input = d == 0};
        add(s);
        s = (quant_spec){C(int_ct),
                         .rows = 16,
                         .cols = 24,
                         .bits = 4,
                         .block = {1, 24},
                         .scale = scales[d],
                         .scale_rank = 1 + d % 2,
                         .asymmetric = d == 1};
        add(s);
    }
}

static void add_stacks(void)
{
    static const quant_spec stacks[] = {
        {C(nvfp4_ct), .rows = 6, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F8_E4M3),
         .scale_rank = 2, .factor = D(F32), .factor_rank = 1, .input = 1},
        {C(nvfp4_modelopt), .rows = 6, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F8_E4M3),
         .scale_rank = 2, .factor = D(F32), .factor_rank = 2, .input = 1},
        {C(nvfp4_modelopt), .rows = 6, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(F8_E4M3),
         .scale_rank = 2, .factor = D(F32), .factor_shared = 1},
        {C(mxfp4), .rows = 5, .cols = 64, .bits = 4, .block = {1, 32}, .scale = D(U8),
         .scale_rank = 2},
        {C(mxfp8), .rows = 5, .cols = 64, .bits = 8, .block = {1, 32}, .scale = D(U8),
         .scale_rank = 2},
        {C(fp8_block), .rows = 130, .cols = 72, .bits = 8, .block = {128, 64}, .scale = D(BF16),
         .scale_rank = 2},
        {C(fp8_block_ct), .rows = 130, .cols = 72, .bits = 8, .block = {128, 64}, .scale = D(F32),
         .scale_rank = 4},
        {C(fp8_channel), .rows = 6, .cols = 24, .bits = 8, .block = {1, 24}, .scale = D(BF16),
         .scale_rank = 2},
        {C(fp8_channel), .rows = 6, .cols = 24, .bits = 8, .block = {1, 24}, .scale = D(F32),
         .scale_rank = 1},
        {C(fp8_tensor), .rows = 6, .cols = 24, .bits = 8, .block = {6, 24}, .scale = D(F32),
         .factor = D(F32), .input = 1},
        {C(fp8_tensor), .rows = 6, .cols = 24, .bits = 8, .block = {6, 24}, .scale = D(F32),
         .scale_rank = 1, .scale_shared = 1},
        {C(fp8_tensor), .rows = 6, .cols = 24, .bits = 8, .block = {6, 24}, .scale = D(BF16),
         .scale_rank = 0, .scale_shared = 1},
        {C(int8_channel), .rows = 6, .cols = 24, .bits = 8, .block = {1, 24}, .scale = D(BF16),
         .scale_rank = 2},
        {C(int_ct), .rows = 8, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(BF16),
         .scale_rank = 2},
        {C(int_ct), .rows = 8, .cols = 32, .bits = 4, .block = {1, 16}, .scale = D(BF16),
         .scale_rank = 2, .asymmetric = 1},
        {C(int_ct), .rows = 8, .cols = 32, .bits = 8, .block = {1, 16}, .scale = D(BF16),
         .scale_rank = 2, .asymmetric = 1, .index = INDEX_ANY},
    };
    for (unsigned i = 0; i < sizeof stacks / sizeof *stacks; i++)
        for (unsigned names = 0; names < 3; names++) {
            quant_spec s = stacks[i];
            s.experts = i % 4 == 3 ? 5 : 3;
            s.names = s.index == INDEX_NONE ? (quant_names)names : NAMES_LOW;
            add(s);
            s.experts = 1;
            if (names == 1)
                add(s);
        }
}

const quant_spec *quant_variants(size_t *n)
{
    if (count == 0) {
        add_fp4();
        add_fp8();
        add_int();
        add_stacks();
    }
    *n = count;
    return list;
}
