/* fp4.h - the FP4 checks of one matrix among themselves (scan_fp4.c, fp4_*.c). */
#ifndef SB_CHECK_FP4_H
#define SB_CHECK_FP4_H

#include "tools/check/follow.h"
#include "tools/check/scan.h"

/* How far a quotient may be beyond a rounding boundary, in parts of itself: a quotient in BF16 is
 * off by 2^-9, and reciprocals instead of divisions add little. */
#define SB_FP4_SLACK 0x1p-8

/* One of 16 codes: its value, and the least and greatest quotient of which it is certainly a
 * nearest one, whatever a few roundings of binary32 have done to the quotient. */
typedef struct sb_fp4_ranges {
    float value[16], low[16], high[16];
} sb_fp4_ranges;

/* What a block's largest magnitude and its scale byte gave last time: how far the byte is from that
 * of each formula. */
typedef struct sb_fp4_recent {
    uint32_t bits; /* of the magnitude */
    uint8_t known, stored, distance[SB_FP4_FORMULAS];
} sb_fp4_recent;
enum { SB_FP4_RECENT = 512 };

/* What each code counts in sums of eight bits, to which two codes add at a time. x is twice the
 * value of a code. */
typedef enum sb_fp4_count {
    SB_FP4_PLUS_12, /* x + 12 */
    SB_FP4_SQUARE,  /* x^2; two of them do not always fit */
    SB_FP4_FOURTH,  /* x^4 modulo 256 */
    SB_FP4_FOURTHS, /* x^4 / 256 */
    SB_FP4_COUNT_1, /* a counter in each half: of magnitude 1, 2 */
    SB_FP4_COUNT_3, /* of 3, 4 */
    SB_FP4_COUNT_5, /* of 5, 6 */
    SB_FP4_COUNT_9, /* of the codes 9 to 15, 8 */
    SB_FP4_COUNT_0, /* of magnitude 0, of the codes 9 to 15 */
    SB_FP4_COUNTS
} sb_fp4_count;

/* Codes of a panel, counted in two ways: those of even and odd bytes by byte; or many at once, in
 * four parts each: of magnitude 1 to 6, of the codes 9 to 15, of 8, and the sum of x^2. Of the last
 * steps, up to seven, the former eight are still in two counters of each byte. Of few only those of
 * SB_FP4_COUNT_0 are counted, in the places of the first two. */
enum { SB_FP4_MINUS = 6, SB_FP4_MINUS_ZERO, SB_FP4_SQUARES, SB_FP4_TOTALS, SB_FP4_STEPS = 7 };
typedef struct sb_fp4_tally {
    int few;
    uint32_t bytes[512];
    uint64_t totals[SB_FP4_TOTALS][4];
    unsigned char pending[4][32];
    unsigned steps;
    uint64_t codes; /* how many the totals are of */
} sb_fp4_tally;

/* What stays the same over the rows of a panel. A scale byte that is zero, negative or a NaN has
 * value and inverse 0. A chunk is 16 columns that share a scale, 8 bytes of codes. */
typedef struct sb_fp4 {
    const sb_panel *panel;
    sb_seen_fp4 *seen;
    int mx;
    int avx2;          /* as sb_dot_select() chose */
    unsigned chunks;   /* of a block: 1, of MXFP4 2 */
    uint32_t blocks;   /* of a row */
    int usable;        /* the multiplier is one that can be computed with */
    int nearest;       /* V-23 is asked: the original is plain and the producer rounds to nearest */
    double multiplier; /* 1 of MXFP4 */
    int shape;         /* V-41 asks for the sums of values and of their fourth powers */
    double scale[256]; /* of a byte */
    double scale2[256];                /* its square */
    float inverse[256], square[256];   /* 1 / (scale times multiplier); the scale's square */
    uint32_t low_bits[256], span[256]; /* V-25, fast: for certain this byte if the bits of the */
                                       /* block's largest are low_bits and up to span more */
    uint64_t sums[256];                /* fp4_bytes.c: of the two codes of a byte */
    uint8_t counts[SB_FP4_COUNTS][16];
    sb_fp4_ranges ranges;
    sb_fp4_recent *recent; /* SB_FP4_RECENT of them, zeroed */
} sb_fp4;

/* --- codes and scales alone (fp4_bytes.c, fp4_bytes_avx2.c) ------------------------------------
 */

/* Twice the value of a magnitude. */
extern const uint8_t sb_fp4_twice[8];

/* Rows that are done at once, as far apart as the steps say. */
enum { SB_FP4_ROWS = 16 };
typedef struct sb_fp4_rows {
    const unsigned char *codes, *scales;
    size_t codes_step, scales_step;
    uint32_t first, count;
} sb_fp4_rows;

/* What they add to the moments, in units of the multiplier and of half a code: by chunk modulo 4,
 * so that it is the same number however many chunks are added at once. Sums of the last chunks of
 * the rows, up to three, are behind those of the others. */
typedef struct sb_fp4_sums {
    double sum[8], sum2[8], sum4[8], largest;
    uint64_t vanished; /* codes other than zero under scales that are not above zero */
    uint32_t dead;     /* a bit for each row of zeros */
    uint32_t zeros;    /* of the row so far: blocks without a code other than zero */
    uint64_t hidden;   /* `vanished` before it */
} sb_fp4_sums;

void sb_fp4_prepare_sums(sb_fp4 *f);

/* Returns a bit for each row of zeros. */
uint32_t sb_fp4_add_rows(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally);

/* One block, but for its moments. */
void sb_fp4_block(const sb_fp4 *f, const unsigned char *codes, uint8_t byte, uint32_t row,
                  uint32_t block, sb_fp4_sums *r);

/* The blocks of row k from one on, and its end. */
void sb_fp4_end_row(const sb_fp4 *f, const sb_fp4_rows *rows, uint32_t k, uint32_t block,
                    sb_fp4_tally *tally, sb_fp4_sums *r);

/* The rows, many blocks at once. */
void sb_fp4_rows_avx2(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally,
                      sb_fp4_sums *r);

/* Whether eight blocks are done at once, and few codes may be counted. */
static inline int sb_fp4_by_eights(const sb_fp4 *f)
{
    return f->avx2 && !f->mx && !f->shape && f->blocks % 8 < 4;
}

/* Adds the tally to what has been seen, and empties it. */
void sb_fp4_add_tally(sb_seen *seen, sb_fp4_tally *tally);

/* Whether it will do to count few codes from here on: every code has come, outside of blocks of
 * zeros, too, and the others can be counted once more. */
int sb_fp4_few_will_do(const sb_fp4 *f);

/* The matrix of the panel in its checkpoint, or NULL. */
const sb_member *sb_fp4_member(const sb_panel *panel);

/* How many codes of each magnitude a whole matrix has. */
void sb_fp4_count_all(const sb_matrix *matrix, uint64_t magnitude[8]);

/* --- beside the original (fp4_nearest.c, fp4_fast.c, fp4_avx2.c) -------------------------------
 */

/* One row beside that of the original, which is BF16, or, where bf16 is NULL, made binary32. */
typedef struct sb_fp4_line {
    const unsigned char *codes, *scales, *bf16;
    const float *weights;
    uint32_t *largest;           /* the bits of the largest magnitude of each chunk: set by the */
                                 /* fast test */
    float error2[8], weight2[8]; /* by pair of columns modulo 8, in squares of the multiplier */
    uint32_t row;
} sb_fp4_line;

/* Against a row of the original. Returns whether any block of it can be other than zeros. */
int sb_fp4_against(const sb_fp4 *f, sb_fp4_line *line);

/* The definition of V-23 for one element: code of weight w under the scale e, in binary64. */
int sb_fp4_is_nearest(unsigned code, double w, double e);

/* The middles between neighbouring magnitudes. */
extern const double sb_fp4_middles[7];

/* The fast test of a row: adds to error2 and weight2, but for blocks whose inverse is 0; returns
 * whether it leaves a doubt. Where it leaves none every code is a nearest one. The same numbers
 * either way. */
void sb_fp4_prepare_ranges(sb_fp4_ranges *ranges);
int sb_fp4_doubts(const sb_fp4 *f, sb_fp4_line *line);
int sb_fp4_doubts_avx2(const sb_fp4 *f, sb_fp4_line *line);

/* fp4_scales.c, V-25: the byte that a formula gives a block of largest magnitude a, of a tensor
 * with this factor. */
uint8_t sb_fp4_scale(sb_fp4_formula formula, float a, const sb_factor *factor);
void sb_fp4_prepare_scales(sb_fp4 *f);
/* Of a block outside of low and high. */
void sb_fp4_compare_scale(const sb_fp4 *f, uint8_t stored, float largest, uint32_t row,
                          uint32_t block);

/* fp4_judge.c: what one matrix shows by itself, after its last row. */
void sb_fp4_judge(const sb_fp4 *f);

/* --- across matrices (fp4_groups.c, fp4_rules.c) ---------------------------------------------- */

/* Layers whose weights engines join, by the last part of their names. */
enum { SB_FUSED_SETS = 4, SB_FUSED_MOST = 3 };
extern const char *const sb_fused_sets[SB_FUSED_SETS][SB_FUSED_MOST];

/* The matrix beside it with another last part of its name; NULL: there is none. */
const sb_member *sb_fused_sibling(const sb_units *units, const sb_member *member, const char *last);

/* The members of a set that are there, if this is the first of them and there are more; else 0. */
unsigned sb_fused_group(const sb_units *units, const sb_member *member, unsigned set,
                        const sb_member *group[SB_FUSED_MOST]);

/* Whether a matrix was read, and holds FP4 codes; and a global scale that is a positive number. */
int sb_member_fp4(const sb_member *member);
int sb_member_has_global(const sb_member *member);

/* Tensors to blame, as findings name them. */
const char *sb_member_global(const sb_member *member);

/* Whether x is within three units of a BF16 number's last place in binary32. */
int sb_near_bf16(double x);

typedef enum sb_answer { SB_NOT_ASKED, SB_OBEYED, SB_BROKEN } sb_answer;

/* A rule that a producer may or may not follow. Where nearly all matrices of a kind obey, who does
 * not is damaged: one finding each, at the level `lone`. Where many do not, it was not their rule:
 * one finding for all, a warning at most; usual NULL: none. */
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

/* The largest block scale of a matrix and of the fused ones that share its global scale. */
unsigned sb_fp4_group_largest(const sb_units *units, const sb_member *member);

void sb_fp4_rules(sb_check *check); /* 17, 18, 19, 23, 25 */

/* "row 17, block 3": counts a place. */
static inline void sb_fp4_place(sb_fp4_places *p, uint32_t row, uint32_t block)
{
    if (p->count == 0) {
        p->row = row;
        p->block = block;
    }
    p->count += p->count < UINT32_MAX;
}

/* The square root, to what messages print. */
double sb_fp4_root(double x);

/* fp4_distance.c, V-24: |value - original| / |original|; negative: there is nothing to compare. */
double sb_fp4_distance(const sb_seen *seen);

/* What a large distance looks like: one clause of a sentence. */
const char *sb_fp4_signature(const sb_seen *seen, char *text, size_t size);

/* V-24: "a recipe that declares tuned codes" - whether nothing worse than those explains a large
 * distance. Reads the matrix once more. */
int sb_fp4_may_be_tuned(const sb_panel *panel, sb_follow *follow);

/* V-24 itself. */
void sb_fp4_judge_distance(const sb_fp4 *f, const char *tensor);

/* "expert 3 ...gate_proj: " of a piece of a stack, else "". */
const char *sb_fp4_piece(const sb_panel *panel, char *text, size_t size);

#endif
