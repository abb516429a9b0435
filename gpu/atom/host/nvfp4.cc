/* nvfp4.cc - m16n8k64 of E2M1 with a UE4M3 scale for every 16 elements (row sm120_nvfp4). */
#include <stddef.h>
#include <string.h>

#include "gpu/atom/host/fragment.h"
#include "gpu/atom/host/warp.h"
#include "gpu/atom/nvfp4_scales.h"

namespace
{

enum { K = 64, GROUPS = 4, GROUP = 16 };

/* A table of the doubled values of both codes of a byte. */
struct pair_table {
    int16_t value[256][2];
    pair_table()
    {
        static const int16_t size[8] = {0, 1, 2, 3, 4, 6, 8, 12};
        for (unsigned byte = 0; byte < 256; byte++)
            for (unsigned i = 0; i < 2; i++) {
                unsigned code = byte >> 4 * i & 15;
                value[byte][i] = (int16_t)(code & 8 ? -size[code & 7] : size[code & 7]);
            }
    }
};
const pair_table table;

void read_line(const uint32_t words[8], int16_t out[K])
{
    for (unsigned i = 0; i < K / 2; i++)
        memcpy(out + 2 * i, table.value[words[i / 4] >> 8 * (i & 3) & 0xff], sizeof *table.value);
}

/* True if all codes of a column are zeros, of either sign. Its sums are then zero, but the
 * exponents of their scales still count. */
bool all_zero(const uint32_t words[8])
{
    uint32_t any = 0;
    for (unsigned i = 0; i < 8; i++)
        any |= words[i] & 0x77777777u;
    return any == 0;
}

void group_sums(const int16_t *a, const int16_t *b, int32_t (&sums)[GROUPS])
{
    for (unsigned q = 0; q < GROUPS; q++) {
        int32_t sum = 0;
        for (unsigned i = 0; i < GROUP; i++)
            sum += a[GROUP * q + i] * b[GROUP * q + i];
        sums[q] = sum;
    }
}

} // namespace

void sb_warp_mma_nvfp4(const uint32_t a[32][4], const uint32_t b[32][2], const uint32_t sa[32],
                       const uint32_t sb[32], unsigned from_a, unsigned from_b, float d[32][4])
{
    sb_fragment_words words;
    sb_nvfp4_scales scales_a[SB_ROWS], scales_b;
    int16_t rows[SB_ROWS][K], line[K];
    sb_fragment_gather(a, b, &words);
    for (unsigned row = 0; row < SB_ROWS; row++) {
        /* H-9: "The scales of row m are in the word of lane 4 (m mod 8) + 2 p + m / 8" */
        sb_nvfp4_scales_of(sa[4 * (row & 7) + 2 * from_a + (row >> 3)], &scales_a[row]);
        read_line(words.a[row], rows[row]);
    }
    for (unsigned column = 0; column < SB_COLUMNS; column++) {
        bool empty = all_zero(words.b[column]);
        /* H-9: "the scales of column n in the word of lane 4 n + q" */
        sb_nvfp4_scales_of(sb[4 * column + from_b], &scales_b);
        read_line(words.b[column], line);
        for (unsigned row = 0; row < SB_ROWS; row++) {
            float *c = &sb_fragment_result(d, row, column);
            int32_t sums[GROUPS] = {0, 0, 0, 0};
            if (!empty)
                group_sums(rows[row], line, sums);
            *c = sb_nvfp4_end(sums, scales_a[row], scales_b, *c);
        }
    }
}
