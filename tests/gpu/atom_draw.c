/* atom_draw.c - operands for atoms: ordinary ones, and those that a wrong atom would treat
 * wrongly. */
#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tests/gpu/atom_model.h"

/* For each format, codes that a body might treat wrongly. */
static const uint16_t hostile_bf16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x8080,
                                        0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffff, 0x3f80,
                                        0xbf80, 0x3fff, 0x2000, 0x5f80, 0x1f00, 0x6000};
static const uint16_t hostile_f16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400,
                                       0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xffff, 0x3c00,
                                       0xbc00, 0x3fff, 0x0800, 0x1400, 0x7800, 0x2400};
static const uint16_t hostile_e4m3[] = {0x00, 0x80, 0x01, 0x81, 0x07, 0x08, 0x88, 0x7e, 0xfe, 0x7f,
                                        0xff, 0x38, 0xb8, 0x3f, 0x77, 0x78, 0x10, 0x0f, 0x20, 0x60};
static const uint8_t hostile_scales[] = {0x00, 0x01, 0x07, 0x08, 0x7e, 0x7f, 0x38, 0x3f,
                                         0x80, 0xff, 0xfe, 0x40, 0x10, 0x70, 0x02, 0x88};
static const uint32_t hostile_c[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800001, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xff800001, 0x3f800000, 0xbfffffff, 0x01000001};

static int is_special(sb_format format, uint32_t code)
{
    return format != SB_FORMAT_e2m1 && !sb_is_finite_f32(sb_code_to_f32(format, code));
}

/* One operand code of a kind. */
static uint32_t draw_code(sb_format format, unsigned kind, uint64_t key, uint64_t at)
{
    uint32_t bits = sb_format_bits(format), draw = sb_rng_below(key, 2 * at, 1u << bits);
    uint32_t which = sb_rng_below(key, 2 * at + 1, 160);
    if (format == SB_FORMAT_e2m1)
        return draw;
    if (kind == ATOM_HOSTILE && which < 40)
        return format == SB_FORMAT_bf16  ? hostile_bf16[which % 20]
               : format == SB_FORMAT_f16 ? hostile_f16[which % 20]
                                         : hostile_e4m3[which % 20];
    if (kind == ATOM_CODES)
        return is_special(format, draw) ? draw ^ (1u << (bits - 2)) : draw;
    if (which % 8 == 0)
        return draw >> (bits - 1) << (bits - 1);
    float scale = which < 20 ? 0x1p-7f : 1.0f;
    if (kind == ATOM_TINY) /* the product of two is about the least number, or below */
        scale *= format == SB_FORMAT_bf16 ? 0x1p-76f : format == SB_FORMAT_f16 ? 0x1p-12f : 0x1p-5f;
    return sb_f32_to_code(format, sb_rng_normal(key, 2 * at) * scale);
}

static float draw_c(unsigned kind, uint64_t key, uint64_t at)
{
    float x = sb_rng_normal(key, 2 * at);
    uint32_t which = sb_rng_below(key, 2 * at + 1, 64);
    if ((kind == ATOM_HOSTILE || kind == ATOM_FEW) && which < 32)
        return sb_f32_from_bits(hostile_c[which % 16]);
    if (kind == ATOM_CODES) {
        uint32_t bits = (uint32_t)sb_rng_u64(key, 2 * at);
        return sb_f32_from_bits((bits & 0x7f800000u) == 0x7f800000u ? bits ^ 0x40000000u : bits);
    }
    if (kind == ATOM_APART)
        return which < 16 ? 0.0f : x * 0x1p-10f;
    if (kind == ATOM_TINY)
        return which < 48 ? (which & 1 ? -0.0f : 0.0f) : x * 0x1p-147f;
    if (kind == ATOM_HUGE_C && which < 48)
        return x * sb_f32_from_bits((127 - 64 + 3 * which) << 23);
    return kind == ATOM_ORDINARY && which < 8 ? 0.0f : x;
}

/* For ATOM_APART: the quarters of k in which A and B have disjoint supports, as bits. */
static unsigned apart(uint64_t key)
{
    return (unsigned)(key >> 20 & 15) | 1u << (key >> 24 & 3);
}

static uint32_t draw_scales(unsigned kind, uint64_t key, uint64_t at)
{
    uint32_t word = 0;
    for (unsigned q = 0; q < 4; q++) {
        uint32_t draw = sb_rng_below(key, 8 * at + 2 * q, 0x7f);
        uint32_t which = sb_rng_below(key, 8 * at + 2 * q + 1, 64);
        if (kind == ATOM_ORDINARY || kind == ATOM_CANCEL)
            draw = 0x30 + draw % 16;
        if (kind == ATOM_APART)
            draw = apart(key) >> q & 1 ? 0x60 + draw % 31 : 1 + draw % 31;
        if (kind == ATOM_HOSTILE && which < 16)
            draw = hostile_scales[which];
        word |= draw << 8 * q;
    }
    return word;
}

/* In A, makes every second element the negative of the first. With equal neighbours in B, all
 * products cancel. */
static void cancel(unsigned bits, uint32_t *a, uint32_t *b)
{
    uint32_t low = bits == 16 ? 0xffffu : bits == 8 ? 0x00ff00ffu : 0x0f0f0f0fu;
    uint32_t sign = bits == 16 ? 0x8000u : bits == 8 ? 0x00800080u : 0x08080808u;
    if (a)
        *a = (*a & low) | ((*a & low) ^ sign) << bits;
    if (b)
        *b = (*b & low) | (*b & low) << bits;
}

/* Makes every second element zero: in A the odd ones, in B the even ones, so that all products are
 * zero. */
static uint32_t halved(unsigned bits, int of_a, uint32_t word)
{
    const uint32_t low = bits == 16 ? 0xffffu : bits == 8 ? 0x00ff00ffu : 0x0f0f0f0fu;
    return of_a ? word & low : word & ~low;
}

void atom_draw(sb_format format, unsigned kind, uint64_t key, atom_warp *out)
{
    unsigned bits = sb_format_bits(format), width = 32 / bits;
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned column = lane >> 2;
        int dead = kind == ATOM_FEW ? column != key % 8 && column != (key >> 8) % 8
                                    : kind == ATOM_HOSTILE && column == key % 8;
        for (unsigned r = 0; r < 6; r++) {
            uint32_t word = 0;
            for (unsigned e = 0; e < width; e++)
                word |= draw_code(format, kind, key, (6 * lane + r) * 8 + e) << bits * e;
            if (kind == ATOM_APART && /* H-8: the quarter of k that the register belongs to */
                apart(key) >> (2 * (r < 4 ? r / 2 : r - 4) + lane % 4 / 2) & 1)
                word = halved(bits, r < 4, word);
            if (r < 4)
                out->a[lane][r] = word;
            else
                out->b[lane][r - 4] = dead ? 0 : word;
            if (kind == ATOM_CANCEL && (key >> 3 & 3) != lane % 4)
                cancel(bits, r < 4 ? &out->a[lane][r] : NULL, r < 4 ? NULL : &out->b[lane][r - 4]);
        }
        for (unsigned i = 0; i < 4; i++)
            out->c[lane][i] = draw_c(kind, key, 4096 + 4 * lane + i);
        out->sa[lane] = draw_scales(kind, key, 2048 + lane);
        out->sb[lane] = dead && (key & 1) ? 0 : draw_scales(kind, key, 2080 + lane);
    }
    out->from_a = (unsigned)(key >> 16 & 1);
    out->from_b = (unsigned)(key >> 17 & 3);
}
