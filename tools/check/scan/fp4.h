/* fp4.h - shared by the FP4 checks of one matrix (scan_fp4.c, fp4_*.c). */
#ifndef SB_CHECK_FP4_H
#define SB_CHECK_FP4_H

#include "tools/check/read/fused.h"
#include "tools/check/scan/follow.h"
#include "tools/check/scan/scan.h"

/* The relative distance by which a quotient may lie beyond a rounding boundary. A quotient in BF16
 * has an error of 2^-9, and reciprocals in place of divisions add little. */
#define SB_FP4_SLACK 0x1p-8

/* For each of the 16 codes: its value, and the least and greatest quotient for which it is
 * certainly a nearest code, with some binary32 rounding errors of the quotient allowed for. */
typedef struct sb_fp4_ranges {
    float value[16], low[16], high[16];
} sb_fp4_ranges;

/* A cache entry. For a largest magnitude and a scale byte of a block, it has the distance of this
 * byte from the byte that each formula gives. */
typedef struct sb_fp4_recent {
    uint32_t bits; /* bits of the magnitude */
    uint8_t known, stored, distance[SB_FP4_FORMULAS];
} sb_fp4_recent;
enum { SB_FP4_RECENT = 512 };

/* What each code adds to counters of eight bits; the codes of a byte are added in pairs. x is twice
 * the value of a code. */
typedef enum sb_fp4_count {
    SB_FP4_PLUS_12, /* x + 12 */
    SB_FP4_SQUARE,  /* x^2; the sum of two may not fit */
    SB_FP4_FOURTH,  /* x^4 modulo 256 */
    SB_FP4_FOURTHS, /* x^4 / 256 */
    SB_FP4_COUNT_1, /* counters of magnitudes 1 and 2, one in each half of the byte */
    SB_FP4_COUNT_3, /* counters of magnitudes 3 and 4 */
    SB_FP4_COUNT_5, /* counters of magnitudes 5 and 6 */
    SB_FP4_COUNT_9, /* counters of the codes 9 to 15, and of code 8 */
    SB_FP4_COUNT_0, /* counters of magnitude 0, and of the codes 9 to 15 */
    SB_FP4_COUNTS
} sb_fp4_count;

/* Counts of the codes of a panel. bytes[]: a count per byte value, even and odd bytes counted
 * separately. totals[]: the number of codes of each magnitude from 1 to 6, of codes 9 to 15, of
 * code 8, and the sum of x^2. Each total consists of four partial sums. The counts of the last
 * steps (up to seven) are not in the first eight totals yet, but in pending[], with two counters in
 * each byte. If few is set, only zeros and the codes 9 to 15 are counted: the counters of
 * SB_FP4_COUNT_0, the first two totals. */
enum { SB_FP4_MINUS = 6, SB_FP4_MINUS_ZERO, SB_FP4_SQUARES, SB_FP4_TOTALS, SB_FP4_STEPS = 7 };
typedef struct sb_fp4_tally {
    int few;
    uint32_t bytes[512];
    uint64_t totals[SB_FP4_TOTALS][4];
    unsigned char pending[4][32];
    unsigned steps;
    uint64_t codes; /* number of codes in the totals */
} sb_fp4_tally;

/* Which loops run; those of AVX-512 are some of them, and those of AVX2 are the others. */
typedef enum sb_fp4_loops { SB_FP4_PLAIN, SB_FP4_AVX2, SB_FP4_AVX512 } sb_fp4_loops;

/* The values that stay the same over the rows of a panel. A scale byte that is zero, negative or a
 * NaN has value and inverse 0. A chunk is 16 columns that share a scale, 8 bytes of codes. */
typedef struct sb_fp4 {
    const sb_panel *panel;
    sb_seen_fp4 *seen;
    int mx;
    sb_fp4_loops loops; /* as sb_dot_select() chose */
    unsigned chunks;    /* chunks per block: 1, for MXFP4 2 */
    uint32_t blocks;    /* per row */
    int usable;         /* the multiplier is a normal number of binary32 */
    int nearest;        /* V-23 applies: the original is plain and the producer rounds to nearest */
    double multiplier;  /* 1 for MXFP4 */
    int shape;          /* V-41 needs the sums of values and of their fourth powers */
    double scale[256];  /* scale of each scale byte */
    double scale2[256]; /* square of that scale */
    /* 1 / (scale * multiplier); the scale's square; both 0 if squares would not fit binary32 */
    float inverse[256], square[256];
    /* V-25, fast test: this byte is certainly right if the bits of the block's largest magnitude
     * are in low_bits .. low_bits + span */
    uint32_t low_bits[256], span[256];
    uint64_t sums[256]; /* sums over the two codes of each byte (fp4_bytes.c) */
    uint8_t counts[SB_FP4_COUNTS][16];
    sb_fp4_ranges ranges;
    sb_fp4_recent *recent; /* SB_FP4_RECENT of them, zeroed */
} sb_fp4;

/* --- codes and scales alone (fp4_bytes.c, fp4_bytes_avx2.c) ----------------------------------- */

/* Twice the value of a magnitude. */
extern const uint8_t sb_fp4_twice[8];

/* Rows that are processed together, at the given distances in memory. */
enum { SB_FP4_ROWS = 16 };
typedef struct sb_fp4_rows {
    const unsigned char *codes, *scales;
    size_t codes_step, scales_step;
    uint32_t first, count;
} sb_fp4_rows;

/* The sums that these rows add to the moments, in units of half the multiplier. sum[0..3] are by
 * chunk modulo 4, so that the number of chunks that are added at once does not matter. sum[4..7]
 * are the same for the last chunks of each row, up to three. */
typedef struct sb_fp4_sums {
    double sum[8], sum2[8], sum4[8], largest;
    uint64_t vanished; /* codes other than zero under scales that are not above zero */
    uint32_t dead;     /* a bit for each row of zeros */
    uint32_t zeros;    /* all-zero blocks of the current row so far */
    uint64_t hidden;   /* `vanished` before the current row */
} sb_fp4_sums;

void sb_fp4_prepare_sums(sb_fp4 *f);

/* The loops that run with the dot kernels of this name. */
sb_fp4_loops sb_fp4_loops_with(const char *kernels);

/* Returns a bit for each row of zeros. */
uint32_t sb_fp4_add_rows(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally);

/* Counts one block, except its moments. */
void sb_fp4_block(const sb_fp4 *f, const unsigned char *codes, uint8_t byte, uint32_t row,
                  uint32_t block, sb_fp4_sums *r);

/* Counts the blocks of row k from `block` on, and ends the row. */
void sb_fp4_end_row(const sb_fp4 *f, const sb_fp4_rows *rows, uint32_t k, uint32_t block,
                    sb_fp4_tally *tally, sb_fp4_sums *r);

/* Counts the rows, many blocks at once. */
void sb_fp4_rows_avx2(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally,
                      sb_fp4_sums *r);

/* The same, where sb_fp4_tally.few is set. */
void sb_fp4_few_avx512(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally,
                       sb_fp4_sums *r);

/* 1 if sb_fp4_tally.few may be set. This does not depend on the loops: a report has the same counts
 * with every instruction set. */
static inline int sb_fp4_keeps_few(const sb_fp4 *f)
{
    return !f->mx && !f->shape && f->blocks % 8 < 4;
}

/* 1 if eight blocks are processed at once. */
static inline int sb_fp4_by_eights(const sb_fp4 *f)
{
    return f->loops && sb_fp4_keeps_few(f);
}

/* Adds the tally to `seen`, and empties the tally. */
void sb_fp4_add_tally(sb_seen *seen, sb_fp4_tally *tally);

/* 1 if sb_fp4_tally.few can be set from here on: every magnitude and code 8 have occurred, zeros
 * also outside of all-zero blocks, and sb_fp4_count_all can count the magnitudes later. */
int sb_fp4_few_will_do(const sb_fp4 *f);

/* The member of the panel's matrix, or NULL. */
const sb_member *sb_fp4_member(const sb_panel *panel);

/* Counts the codes of each magnitude in a whole matrix. */
void sb_fp4_count_all(const sb_matrix *matrix, uint64_t magnitude[8]);

/* --- comparison with the original (fp4_nearest.c, fp4_fast.c, fp4_avx2.c) --------------------- */

/* One row, and the same row of the original: `bf16` if the original is BF16, else `weights`,
 * converted to binary32. */
typedef struct sb_fp4_line {
    const unsigned char *codes, *scales, *bf16;
    const float *weights;
    /* the bits of the largest magnitude of each chunk, set by the fast test */
    uint32_t *largest;
    float error2[8], weight2[8]; /* by pair of columns modulo 8, in squares of the multiplier */
    uint32_t row;
} sb_fp4_line;

/* Compares with a row of the original. Returns 0 if every block of the original's row rounds to
 * zeros. */
int sb_fp4_against(const sb_fp4 *f, sb_fp4_line *line);

/* The definition of V-23 for one element: weight w, its code, scale e, in binary64. */
int sb_fp4_is_nearest(unsigned code, double w, double e);

/* The midpoints between neighbouring magnitudes. */
extern const double sb_fp4_middles[7];

/* The fast test of a row: returns 0 if every code is certainly a nearest one, else 1. Adds to
 * error2 and weight2, except for blocks whose inverse is 0. Both versions give the same numbers. */
void sb_fp4_prepare_ranges(sb_fp4_ranges *ranges);
int sb_fp4_doubts(const sb_fp4 *f, sb_fp4_line *line);
int sb_fp4_doubts_avx2(const sb_fp4 *f, sb_fp4_line *line);

/* fp4_scales.c, V-25: the scale byte that a formula gives for a block with largest magnitude a, in
 * a tensor with this factor. */
uint8_t sb_fp4_scale(sb_fp4_formula formula, float a, const sb_factor *factor);
void sb_fp4_prepare_scales(sb_fp4 *f);
/* Compares the scale of a block that the fast test with low_bits and span does not prove right. */
void sb_fp4_compare_scale(const sb_fp4 *f, uint8_t stored, float largest, uint32_t row,
                          uint32_t block);

/* fp4_judge.c: judges one matrix by itself, after its last row. */
void sb_fp4_judge(const sb_fp4 *f);

/* --- across matrices (fp4_groups.c, fp4_rules.c) ---------------------------------------------- */

/* The matrix whose name differs only in its last part; NULL: there is none. */
const sb_member *sb_fused_sibling(const sb_units *units, const sb_member *member, const char *last);

/* Fills group with the members of a set that exist, and returns their number. Returns 0 if there is
 * only one, or if `member` is not the first of them. */
unsigned sb_fused_group(const sb_units *units, const sb_member *member, unsigned set,
                        const sb_member *group[SB_FUSED_MOST]);

/* sb_member_fp4: 1 if a matrix was read and holds FP4 codes. sb_member_has_global: 1 if its global
 * scale is a positive number. */
int sb_member_fp4(const sb_member *member);
int sb_member_has_global(const sb_member *member);

/* The tensor with the global scale, as findings name it. */
const char *sb_member_global(const sb_member *member);

/* 1 if x, in binary32, is within three steps of a BF16 number. */
int sb_near_bf16(double x);

typedef enum sb_answer { SB_NOT_ASKED, SB_OBEYED, SB_BROKEN } sb_answer;

/* A rule that a producer may or may not follow. If nearly all matrices of a kind obey, those that
 * do not are damaged: one finding each, at level `lone`. If many do not obey, the producer does not
 * follow the rule: one finding for all, a warning at most; none if usual is NULL. */
typedef struct sb_rule {
    unsigned number;
    sb_level lone;
    int (*applies)(const sb_member *member);
    /* six: the producer maps the largest weight of a block to 6, not to 4 or 6 */
    sb_answer (*ask)(const sb_check *check, const sb_member *member, int six);
    const char *(*tensor)(const sb_member *member);
    void (*tell)(const sb_check *check, const sb_member *member, char *text, size_t size);
    const char *usual;
} sb_rule;

void sb_ask(sb_check *check, const sb_rule *rules, size_t count);

/* The largest block scale of a matrix and of the fused matrices that share its global scale. */
unsigned sb_fp4_group_largest(const sb_units *units, const sb_member *member);

void sb_fp4_rules(sb_check *check); /* 17, 18, 19, 23, 25 */

/* Counts a place, and keeps the first: "row 17, block 3". */
static inline void sb_fp4_place(sb_fp4_places *p, uint32_t row, uint32_t block)
{
    if (p->count == 0) {
        p->row = row;
        p->block = block;
    }
    p->count += p->count < UINT32_MAX;
}

/* fp4_distance.c, V-24: |value - original| / |original|; negative if there is nothing to
 * compare. */
double sb_fp4_distance(const sb_seen *seen);

/* The likely cause of a large distance, as one clause of a sentence. */
const char *sb_fp4_signature(const sb_seen *seen, char *text, size_t size);

/* V-24: "a recipe that declares tuned codes" - 1 if tuned codes explain a large distance, and no
 * worse fault explains it. Reads the matrix once more. */
int sb_fp4_may_be_tuned(const sb_panel *panel, sb_follow *follow);

/* V-24 itself. */
void sb_fp4_judge_distance(const sb_fp4 *f, const char *tensor);

/* "expert 3 ...gate_proj: " for a piece of a stack, else "". */
const char *sb_fp4_piece(const sb_panel *panel, char *text, size_t size);

#endif
