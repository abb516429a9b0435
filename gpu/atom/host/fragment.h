/* fragment.h - converts the registers of a warp to the rows and columns of its matrices. */
#ifndef SB_ATOM_HOST_FRAGMENT_H
#define SB_ATOM_HOST_FRAGMENT_H

#include <stdint.h>

enum { SB_WARP = 32, SB_ROWS = 16, SB_COLUMNS = 8 };

/* The words of the 16 rows of A and the 8 columns of B in the order of k. Word i has the elements W
 * i to W i + W - 1, where W is the number of elements in a register. */
struct sb_fragment_words {
    uint32_t a[SB_ROWS][8], b[SB_COLUMNS][8];
};

/* H-8: "register r of A has row g + 8 (r mod 2) and starts at k = W t + 4 W (r / 2). Register r of
 * B has column g and starts at k = W t + 4 W r" */
inline void sb_fragment_gather(const uint32_t a[32][4], const uint32_t b[32][2],
                               sb_fragment_words *out)
{
    for (unsigned lane = 0; lane < SB_WARP; lane++) {
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned r = 0; r < 4; r++)
            out->a[g + 8 * (r & 1)][t + 4 * (r >> 1)] = a[lane][r];
        for (unsigned r = 0; r < 2; r++)
            out->b[g][t + 4 * r] = b[lane][r];
    }
}

/* The element of C and D at this row and column: H-8: "Element i of C and D has row g + 8 (i / 2)
 * and column 2 t + i mod 2" */
template <class T> inline T &sb_fragment_result(T d[32][4], unsigned row, unsigned column)
{
    return d[4 * (row & 7) + column / 2][2 * (row >> 3) + (column & 1)];
}

/* Read and write the elements of all rows of a column. */
inline void sb_fragment_column(const float d[32][4], unsigned column, float rows[SB_ROWS])
{
    const float(*lane)[4] = d + column / 2;
    for (unsigned g = 0; g < 8; g++) {
        rows[g] = lane[4 * g][column & 1];
        rows[g + 8] = lane[4 * g][2 + (column & 1)];
    }
}
inline void sb_fragment_put(const float rows[SB_ROWS], unsigned column, float d[32][4])
{
    float(*lane)[4] = d + column / 2;
    for (unsigned g = 0; g < 8; g++) {
        lane[4 * g][column & 1] = rows[g];
        lane[4 * g][2 + (column & 1)] = rows[g + 8];
    }
}

#endif
