/* move.cc - m16n8k32 of signed bytes, which is exact, and ldmatrix, which only moves data. */
#include "gpu/atom/host/fragment.h"
#include "gpu/atom/host/warp.h"

void sb_warp_mma_s8(const uint32_t a[32][4], const uint32_t b[32][2], int32_t d[32][4])
{
    sb_fragment_words words;
    int16_t rows[SB_ROWS][32], line[32];
    sb_fragment_gather(a, b, &words);
    for (unsigned row = 0; row < SB_ROWS; row++)
        for (unsigned k = 0; k < 32; k++)
            rows[row][k] = (int8_t)(words.a[row][k / 4] >> 8 * (k & 3));
    for (unsigned column = 0; column < SB_COLUMNS; column++) {
        for (unsigned k = 0; k < 32; k++)
            line[k] = (int8_t)(words.b[column][k / 4] >> 8 * (k & 3));
        for (unsigned row = 0; row < SB_ROWS; row++) {
            int32_t *c = &sb_fragment_result(d, row, column), sum = 0;
            for (unsigned k = 0; k < 32; k++)
                sum += rows[row][k] * line[k];
            *c = (int32_t)((uint32_t)*c + (uint32_t)sum);
        }
    }
}

/* H-10: "register j of lane l receives elements 2 t and 2 t + 1 of row g of matrix j, or,
 * transposed, element g of its rows 2 t and 2 t + 1" */
void sb_warp_ldmatrix(const uint32_t rows[32][4], unsigned count, int transposed, uint32_t d[32][4])
{
    for (unsigned lane = 0; lane < SB_WARP; lane++)
        for (unsigned j = 0; j < count; j++) {
            unsigned g = lane / 4, t = lane % 4;
            const uint32_t(*matrix)[4] = rows + 8 * j;
            uint32_t low = matrix[2 * t][g / 2] >> 16 * (g & 1) & 0xffff;
            uint32_t high = matrix[2 * t + 1][g / 2] >> 16 * (g & 1) & 0xffff;
            d[lane][j] = transposed ? low | high << 16 : matrix[g][t];
        }
}
