/* plant_values.c - commands that change numbers, some as broken quantizers would. */
#include "tests/check/plant.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/small_float.h"
#include "tests/check/folder_parts.h"

static float number(const char *word)
{
    char *end;
    float value = strtof(word, &end);
    if (*end || end == word)
        fail_msg("%s is no number", word);
    return value;
}

static void set(folder *f, const plant_words *w) /* NAME ELEMENT VALUE */
{
    folder_set(plant_tensor(f, w), plant_number(w->word[2]), number(w->word[3]));
}

static void fill(folder *f, const plant_words *w) /* NAME VALUE */
{
    folder_fill(plant_tensor(f, w), number(w->word[2]));
}

/* Applies a change, by `by`, to every tensor with `part` in its name. */
static void each(folder *f, const char *part, void (*change)(folder_tensor *, float), float by)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i]->name, part)) {
            change(f->tensors[i], by);
            count++;
        }
    if (!count)
        fail_msg("no tensor has %s in its name", part);
}

static void times_by(folder_tensor *t, float by)
{
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, folder_get(t, i) * by);
}

static void plus_by(folder_tensor *t, float by)
{
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, folder_get(t, i) + by);
}

static void invert_by(folder_tensor *t, float by)
{
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, by / folder_get(t, i));
}

static void positive_by(folder_tensor *t, float by)
{
    (void)by;
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, fabsf(folder_get(t, i)));
}

static void powers_by(folder_tensor *t, float by)
{
    (void)by;
    for (uint64_t i = 0; i < folder_values(t); i++) {
        int exponent;
        float fraction = frexpf(folder_get(t, i), &exponent);
        if (fraction != 0.5f) /* a power of two stays: trained weights have some by chance */
            folder_set(t, i, ldexpf(1.0f, exponent));
    }
}

static void words_by(folder_tensor *t, float by)
{
    assert_int_equal(t->dtype, SB_DTYPE_I32);
    uint32_t step = by < 8.5f ? 0x11111111u * (uint32_t)by : 0;
    for (uint64_t i = 0; i < t->size; i += 4)
        sb_store_u32(t->bytes + i, sb_load_u32(t->bytes + i) + step);
}

static void times(folder *f, const plant_words *w) /* PART VALUE */
{
    each(f, w->word[1], times_by, number(w->word[2]));
}

static void plus(folder *f, const plant_words *w)
{
    each(f, w->word[1], plus_by, number(w->word[2]));
}

static void invert(folder *f, const plant_words *w) /* PART */
{
    each(f, w->word[1], invert_by, 1.0f);
}

static void positive(folder *f, const plant_words *w) /* PART */
{
    each(f, w->word[1], positive_by, 0.0f);
}

/* Rounds up to powers of two. */
static void powers(folder *f, const plant_words *w) /* PART */
{
    each(f, w->word[1], powers_by, 0.0f);
}

static void fill_all(folder *f, const plant_words *w) /* PART VALUE */
{
    each(f, w->word[1], folder_fill, number(w->word[2]));
}

/* Adds VALUE to every nibble of 32-bit words: another convention of zero points. */
static void nibbles_plus(folder *f, const plant_words *w) /* PART VALUE */
{
    each(f, w->word[1], words_by, number(w->word[2]));
}

/* Sets an I32 or I64 element. */
static void integer(folder *f, const plant_words *w) /* NAME ELEMENT VALUE */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t at = plant_number(w->word[2]), value = plant_number(w->word[3]);
    assert_true(at < folder_values(t));
    if (t->dtype == SB_DTYPE_I64)
        sb_store_u64(t->bytes + 8 * at, value);
    else
        sb_store_u32(t->bytes + 4 * at, (uint32_t)value);
}

/* Adds to every I64 element its place: offsets become ids. */
static void to_ids(folder *f, const plant_words *w) /* NAME */
{
    folder_tensor *t = plant_tensor(f, w);
    assert_int_equal(t->dtype, SB_DTYPE_I64);
    for (uint64_t i = 0; 8 * i < t->size; i++)
        sb_store_u64(t->bytes + 8 * i, sb_load_u64(t->bytes + 8 * i) + i);
}

/* Sets every 32-bit word to VALUE. */
static void words(folder *f, const plant_words *w) /* NAME VALUE */
{
    folder_tensor *t = plant_tensor(f, w);
    for (uint64_t i = 0; i + 4 <= t->size; i += 4)
        sb_store_u32(t->bytes + i, (uint32_t)plant_number(w->word[2]));
}

/* --- FP4 -------------------------------------------------------------------------------------- */

/* Sets the code of element ELEMENT, or of the first element with code FROM. */
static void code(folder *f, const plant_words *w) /* NAME ELEMENT|=FROM CODE */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t at = 0;
    if (*w->word[2] == '=') {
        while (folder_nibble(t, at) != plant_number(w->word[2] + 1))
            at++;
    } else {
        at = plant_number(w->word[2]);
    }
    assert_int_not_equal(folder_nibble(t, at), plant_number(w->word[3]));
    folder_set_nibble(t, at, (unsigned)plant_number(w->word[3]));
}

/* Lowers magnitudes above CODE to CODE in elements first .. first + count - 1. */
static void lower(folder *f, const plant_words *w) /* NAME CODE FIRST COUNT */
{
    folder_tensor *t = plant_tensor(f, w);
    unsigned most = (unsigned)plant_number(w->word[2]);
    uint64_t first = plant_number(w->word[3]), count = plant_number(w->word[4]);
    for (uint64_t i = first; i < first + count; i++)
        if ((folder_nibble(t, i) & 7) > most)
            folder_set_nibble(t, i, (folder_nibble(t, i) & 8) | most);
}

/* Moves every code halfway to the zero point. */
static void halve(folder *f, const plant_words *w) /* NAME ZERO */
{
    folder_tensor *t = plant_tensor(f, w);
    int zero = (int)plant_number(w->word[2]);
    for (uint64_t i = 0; i < 2 * t->size; i++)
        folder_set_nibble(t, i, (unsigned)(zero + ((int)folder_nibble(t, i) - zero) / 2));
}

/* Swaps the two nibbles of every byte. */
static void nibble_order(folder *f, const plant_words *w)
{
    folder_tensor *t = plant_tensor(f, w);
    for (uint64_t i = 0; i < t->size; i++)
        t->bytes[i] = (unsigned char)((unsigned)t->bytes[i] >> 4 | (unsigned)t->bytes[i] << 4);
}

/* Packs blocks of 16 as ggml does: element j beside element j + 8. */
static void ggml_order(folder *f, const plant_words *w)
{
    folder_tensor *t = plant_tensor(f, w);
    for (uint64_t block = 0; block < t->size / 8; block++) {
        unsigned codes[16];
        for (unsigned j = 0; j < 16; j++)
            codes[j] = folder_nibble(t, block * 16 + j);
        for (unsigned j = 0; j < 8; j++)
            t->bytes[block * 8 + j] = (unsigned char)(codes[j] | codes[j + 8] << 4);
    }
}

static void flip_all(folder *f, const plant_words *w) /* NAME BITS */
{
    folder_tensor *t = plant_tensor(f, w);
    for (uint64_t i = 0; i < t->size; i++)
        folder_flip(t, i, (unsigned)plant_number(w->word[2]));
}

/* Adds VALUE to every byte that is not 0. */
static void bytes_plus(folder *f, const plant_words *w) /* NAME VALUE */
{
    folder_tensor *t = plant_tensor(f, w);
    int by = (int)strtol(w->word[2], NULL, 10);
    for (uint64_t i = 0; i < t->size; i++)
        t->bytes[i] = (unsigned char)(t->bytes[i] ? t->bytes[i] + by : 0);
}

/* Lowers magnitudes above BYTE to BYTE; with "below", sets magnitudes below BYTE to 0. */
static void clamp(folder *f, const plant_words *w) /* NAME BYTE [below] */
{
    folder_tensor *t = plant_tensor(f, w);
    unsigned most = (unsigned)plant_number(w->word[2]), changed = 0;
    for (uint64_t i = 0; i < t->size; i++) {
        unsigned sign = t->bytes[i] & 0x80u, magnitude = t->bytes[i] & 0x7fu;
        unsigned kept =
            w->word[3] ? (magnitude < most ? 0 : magnitude) : (magnitude > most ? most : magnitude);
        changed += kept != magnitude;
        t->bytes[i] = (unsigned char)(sign | kept);
    }
    assert_true(changed > 0);
}

static void noise(folder *f, const plant_words *w) /* NAME */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t key = sb_rng_key(1, t->name);
    for (uint64_t i = 0; i < t->size; i++)
        t->bytes[i] = (unsigned char)sb_rng_u64(key, i);
}

/* Moves every row down by one; the last becomes the first. */
static void rotate(folder *f, const plant_words *w) /* NAME */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t row = t->size / t->shape[0];
    unsigned char *last = malloc((size_t)row);
    assert_non_null(last);
    memcpy(last, t->bytes + t->size - row, (size_t)row);
    memmove(t->bytes + row, t->bytes, (size_t)(t->size - row));
    memcpy(t->bytes, last, (size_t)row);
    free(last);
}

/* Swaps the two halves of the rows of each expert. */
static void swap_halves(folder *f, const plant_words *w) /* NAME */
{
    folder_tensor *t = plant_tensor(f, w);
    uint64_t experts = t->rank == 3 ? t->shape[0] : 1, half = t->size / experts / 2;
    unsigned char *kept = malloc((size_t)half);
    assert_non_null(kept);
    for (uint64_t e = 0; e < experts; e++) {
        unsigned char *at = t->bytes + 2 * e * half;
        memcpy(kept, at, (size_t)half);
        memcpy(at, at + half, (size_t)half);
        memcpy(at + half, kept, (size_t)half);
    }
    free(kept);
}

/* --- a tensor goes through another format ----------------------------------------------------- */

static float largest(const folder_tensor *t, uint64_t first, uint64_t count)
{
    float most = 0;
    for (uint64_t i = first; i < first + count; i++)
        most = fmaxf(most, fabsf(folder_get(t, i)));
    return most;
}

/* Rounds BF16 through FP8 with one scale per row, or through FP4 with one per 16. */
static void through(folder *f, const plant_words *w) /* NAME fp8|fp4 */
{
    folder_tensor *t = plant_tensor(f, w);
    int fp4 = strcmp(w->word[2], "fp4") == 0;
    uint64_t unit = fp4 ? 16 : t->shape[t->rank - 1];
    for (uint64_t first = 0; first < folder_values(t); first += unit) {
        float scale = largest(t, first, unit) / (fp4 ? 6.0f : 448.0f);
        for (uint64_t i = first; i < first + unit && scale > 0; i++) {
            float x = folder_get(t, i) / scale;
            x = fp4 ? sb_e2m1_to_f32(sb_f32_to_e2m1(x)) : sb_e4m3_to_f32(sb_f32_to_e4m3(x));
            folder_set(t, i, x * scale);
        }
    }
}

/* Makes a BF16 matrix FP8 with one scale per block of ROWS x 128, in the grid of 128 x 128. */
static void to_fp8(folder *f, const plant_words *w) /* NAME [ROWS] */
{
    folder_tensor *from = plant_tensor(f, w);
    char *name = folder_string(from->name), scale_name[512];
    uint64_t n = from->shape[0], k = from->shape[1], rows = 128;
    uint64_t grid[2] = {(n + 127) / 128, (k + 127) / 128};
    if (w->word[2])
        rows = plant_number(w->word[2]);
    snprintf(scale_name, sizeof scale_name, "%s_scale_inv", name);
    folder_rename(f, name, "the original of it");
    if (folder_maybe(f, scale_name))
        folder_drop(f, scale_name);
    folder_tensor *codes = folder_add(f, name, SB_DTYPE_F8_E4M3, 2, from->shape, from->file);
    folder_tensor *scales = folder_add(f, scale_name, SB_DTYPE_BF16, 2, grid, from->file);
    for (uint64_t b = 0; b < grid[0] * grid[1]; b++) {
        uint64_t top = b / grid[1] * rows, left = b % grid[1] * 128;
        uint64_t bottom = b / grid[1] + 1 == grid[0] || top + rows > n ? n : top + rows;
        uint64_t width = left + 128 > k ? k - left : 128;
        float most = 0;
        for (uint64_t r = top; r < bottom; r++)
            most = fmaxf(most, largest(from, r * k + left, width));
        folder_set(scales, b, most / 448.0f);
        for (uint64_t r = top; r < bottom; r++)
            for (uint64_t i = r * k + left; i < r * k + left + width; i++)
                folder_set(codes, i, folder_get(from, i) / folder_get(scales, b));
    }
    folder_drop(f, "the original of it");
    free(name);
}

/* Sets initial values: matrices of N(0, 0.02), norms of 0. */
static void untrained(folder *f, const plant_words *w) /* PART */
{
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        uint64_t key = sb_rng_key(7, t->name);
        if (!strstr(t->name, w->word[1]))
            continue;
        for (uint64_t k = 0; k < folder_values(t); k++) {
            double u = sb_rng_uniform(key, 2 * k) + 0x1p-26, v = sb_rng_uniform(key, 2 * k + 1);
            double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
            folder_set(t, k, t->rank == 1 ? 0.0f : (float)(0.02 * normal));
        }
    }
}

/* Stores A_log as llama.cpp does. */
static void minus_exp(folder *f, const plant_words *w) /* NAME */
{
    folder_tensor *t = plant_tensor(f, w);
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, -expf(folder_get(t, i)));
}

static int by_size(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Cuts off the magnitudes above the smaller ones, so that PERCENT of all are cut. In FP8 they are
 * then as large as codes can be. */
static void cut_off(folder *f, const plant_words *w) /* NAME PERCENT */
{
    folder_tensor *t = plant_tensor(f, w);
    const uint64_t count = folder_values(t), kept = count - count * plant_number(w->word[2]) / 100;
    float *sizes = malloc(count * sizeof *sizes);
    assert_non_null(sizes);
    for (uint64_t i = 0; i < count; i++)
        sizes[i] = fabsf(folder_get(t, i));
    qsort(sizes, (size_t)count, sizeof *sizes, by_size);
    const float most = sizes[kept], by = t->dtype == SB_DTYPE_F8_E4M3 ? 448.0f / most : 1.0f;
    for (uint64_t i = 0; i < count; i++) {
        float x = folder_get(t, i);
        folder_set(t, i, by * (x > most ? most : x < -most ? -most : x));
    }
    free(sizes);
}

/* Draws the exponents, up to that of 1 (FP8: of 256). */
static void stray(folder *f, const plant_words *w) /* NAME */
{
    folder_tensor *t = plant_tensor(f, w);
    const int range = t->dtype == SB_DTYPE_F8_E4M3 ? 15 : 120, top = range == 15 ? 8 : 0;
    for (uint64_t i = 0; i < folder_values(t); i++) {
        int exponent;
        float fraction = frexpf(folder_get(t, i), &exponent);
        exponent = top - (int)sb_rng_below(sb_rng_key(5, t->name), i, (uint32_t)range);
        folder_set(t, i, ldexpf(fraction, exponent));
    }
}

/* Sets PERCENT of the codes to an end of their range: packed FP4 codes, or integers of BITS bits.
 */
static void to_ends(folder *f, const plant_words *w) /* NAME PERCENT fp4|4|8 */
{
    folder_tensor *t = plant_tensor(f, w);
    const int fp4 = strcmp(w->word[3], "fp4") == 0;
    const unsigned bits = fp4 ? 4 : (unsigned)plant_number(w->word[3]), most = (1u << bits) - 1;
    const uint64_t percent = plant_number(w->word[2]), key = sb_rng_key(6, t->name);
    for (uint64_t i = 0; i < t->size * 8 / bits; i++) {
        const unsigned shift = (unsigned)(i * bits % 8),
                       end = sb_rng_below(key, 2 * i + 1, 2) * most;
        unsigned char *byte = &t->bytes[i * bits / 8];
        const unsigned code = fp4 ? ((unsigned)*byte >> shift & 8u) | 7u : end;
        if (sb_rng_below(key, 2 * i, 100) < percent)
            *byte = (unsigned char)((*byte & ~(most << shift)) | code << shift);
    }
}

const plant_command plant_value_commands[] = {
    {"cut-off", 2, cut_off},
    {"stray", 1, stray},
    {"to-ends", 3, to_ends},
    {"set", 3, set},
    {"fill", 2, fill},
    {"fill-all", 2, fill_all},
    {"times", 2, times},
    {"plus", 2, plus},
    {"invert", 1, invert},
    {"positive", 1, positive},
    {"powers", 1, powers},
    {"nibbles-plus", 2, nibbles_plus},
    {"words", 2, words},
    {"integer", 3, integer},
    {"to-ids", 1, to_ids},
    {"code", 3, code},
    {"lower", 4, lower},
    {"halve", 2, halve},
    {"nibble-order", 1, nibble_order},
    {"ggml-order", 1, ggml_order},
    {"flip-all", 2, flip_all},
    {"bytes-plus", 2, bytes_plus},
    {"clamp", 2, clamp},
    {"noise", 1, noise},
    {"rotate", 1, rotate},
    {"swap-halves", 1, swap_halves},
    {"through", 2, through},
    {"to-fp8", 1, to_fp8},
    {"untrained", 1, untrained},
    {"minus-exp", 1, minus_exp},
    {NULL, 0, NULL},
};
