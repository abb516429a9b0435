#include "ref/formats/repack.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"

/* The number of nibbles in a word: rows that share the word in AWQ, columns of one row
 * otherwise. */
enum { SHARING = 8 };

/* "nibble i of word (r, n) is element k = 8r + i of row n": a word is four bytes of the row.
 */
static void of_gptq(const sb_matrix *m, uint64_t row, unsigned char *codes)
{
    const uint64_t n = m->quant.stored_rows;
    size_t bytes = (m->cols * (size_t)sb_format_bits(m->format) + 7) / 8;
    const unsigned char *word = m->data + 4 * row;
    for (; bytes >= 4; bytes -= 4, codes += 4, word += 4 * n)
        memcpy(codes, word, 4);
    if (bytes > 0)
        memcpy(codes, word, bytes);
}

/* The nibble of row j of eight in an AWQ word. */
static const uint32_t awq_nibble[SHARING] = {0, 4, 1, 5, 2, 6, 3, 7};

/* Converts the columns of one row from `first` to the end. */
static void of_awq(const sb_matrix *m, uint64_t row, size_t first, unsigned char *codes)
{
    const uint64_t words = m->quant.stored_rows / SHARING;
    const uint32_t place = awq_nibble[row % SHARING];
    memset(codes + first / 2, 0, (m->cols + 1) / 2 - first / 2);
    for (size_t k = first; k < m->cols; k++) {
        const uint32_t code = sb_load_u32(m->data + 4 * (k * words + row / SHARING)) >> 4 * place;
        codes[k / 2] |= (unsigned char)((code & 15u) << k % 2 * 4);
    }
}

/* Exchanges the bits of b under `mask` with the bits of a that are `shift` places higher. */
static inline void exchange(uint32_t *a, uint32_t *b, unsigned shift, uint32_t mask)
{
    const uint32_t moved = ((*a >> shift) ^ *b) & mask;
    *b ^= moved;
    *a ^= moved << shift;
}

/* Transposes eight words of eight nibbles: exchanges halves, then bytes, then nibbles. */
static void transpose(uint32_t w[SHARING])
{
    for (int i = 0; i < 4; i++)
        exchange(&w[i], &w[i + 4], 16, 0x0000ffffu);
    for (int i = 0; i < SHARING; i++)
        if (!(i & 2))
            exchange(&w[i], &w[i + 2], 8, 0x00ff00ffu);
    for (int i = 0; i < SHARING; i += 2)
        exchange(&w[i], &w[i + 1], 4, 0x0f0f0f0fu);
}

/* Converts eight rows from `row` on; row is a multiple of eight. */
static void of_awq_words(const sb_matrix *m, uint64_t row, unsigned char *codes, size_t each)
{
    const uint64_t words = m->quant.stored_rows / SHARING;
    const unsigned char *at = m->data + 4 * (row / SHARING);
    size_t k = 0;
    for (; k + SHARING <= m->cols; k += SHARING) {
        uint32_t w[SHARING];
        for (size_t i = 0; i < SHARING; i++)
            w[i] = sb_load_u32(at + 4 * (k + i) * words);
        transpose(w);
        for (size_t r = 0; r < SHARING; r++)
            sb_store_u32(codes + r * each + k / 2, w[awq_nibble[r]]);
    }
    for (size_t r = 0; r < SHARING; r++)
        of_awq(m, row + r, k, codes + r * each);
}

/* Converts eight bytes at a time: extracts one nibble of each, then joins two, four and eight
 * nibbles. */
static void of_pairs(const sb_matrix *m, uint64_t row, unsigned char *codes)
{
    const unsigned char *at = m->data + row / 2 * m->cols;
    const unsigned shift = 4 * (unsigned)(row % 2);
    for (size_t k = 0; k < m->cols; k += 8) {
        unsigned char some[8] = {0};
        const size_t count = m->cols - k < 8 ? m->cols - k : 8;
        memcpy(some, at + k, count);
        uint64_t word = sb_load_u64(some) >> shift & 0x0f0f0f0f0f0f0f0fu;
        word = (word | word >> 4) & 0x00ff00ff00ff00ffu;
        word = (word | word >> 8) & 0x0000ffff0000ffffu;
        sb_store_u32(some, (uint32_t)(word | word >> 16));
        memcpy(codes + k / 2, some, (count + 1) / 2);
    }
}

/* True if eight rows share their words with no other rows and are in order. */
static int share_words(const sb_matrix *m, uint32_t row)
{
    const uint64_t first = sb_matrix_stored_row(m, row);
    int share = first % SHARING == 0;
    for (uint32_t i = 1; i < SHARING; i++)
        share &= sb_matrix_stored_row(m, row + i) == first + i;
    return share;
}

void sb_matrix_repack(const sb_matrix *matrix, uint32_t row, size_t rows, unsigned char *codes,
                      size_t each)
{
    const sb_packing packing = matrix->quant.packing;
    for (size_t i = 0, now; i < rows; i += now, row += (uint32_t)now, codes += now * each) {
        const uint64_t stored = sb_matrix_stored_row(matrix, row);
        now = 1;
        if (packing == SB_PACKING_gptq) {
            of_gptq(matrix, stored, codes);
        } else if (packing == SB_PACKING_pairs) {
            of_pairs(matrix, stored, codes);
        } else if (rows - i >= SHARING && share_words(matrix, row)) {
            of_awq_words(matrix, stored, codes, each);
            now = SHARING;
        } else {
            of_awq(matrix, stored, 0, codes);
        }
    }
}
