/* random_codes.c - check 36: stretches of integer codes that are random bytes, or all the lowest
 * code, and matrices with too many codes in the outer half of their range. */
#include <inttypes.h>

#include "ref/container/show.h"
#include "tools/check/scan/across.h"

/* V-36: upper bound for chi squared of random bytes, at 15 degrees of freedom. */
#define CHI 45.0

static const sb_tensor *codes_of(const sb_unit *unit)
{
    const sb_tensor *t = unit->found.part[SB_PART_qweight];
    return t ? t : unit->found.part[SB_PART_weight_packed];
}

/* 1 if all values of the four highest bits of a code are equally frequent. */
static int is_random(const unsigned char *p, uint64_t count, unsigned bits)
{
    uint64_t seen[16] = {0};
    for (uint64_t i = 0; i < count; i++) {
        seen[p[i] >> 4]++;
        seen[p[i] & 15] += bits == 4;
    }
    double n = (double)count * (bits == 4 ? 2 : 1), chi = 0;
    for (unsigned i = 0; i < 16; i++) {
        double off = (double)seen[i] - n / 16;
        chi += off * off * 16 / n;
    }
    return chi < CHI;
}

static int is_all(const unsigned char *p, uint64_t count, unsigned char byte)
{
    for (uint64_t i = 0; i < count; i++)
        if (p[i] != byte)
            return 0;
    return 1;
}

/* V-36: "zero points are all the same and not 0": then code 0 is the lowest weight, not padding. */
static int is_symmetric(const sb_unit *unit)
{
    const sb_tensor *zeros = unit->found.part[SB_PART_qzeros];
    zeros = zeros ? zeros : unit->found.part[SB_PART_weight_zero_point];
    return !zeros || zeros->bytes == 0 ||
           (zeros->data[0] != 0 && is_all(zeros->data, zeros->bytes, zeros->data[0]));
}

static void tell(sb_check *check, const sb_unit *unit, const sb_code_run *run, const char *what,
                 uint64_t usual, uint64_t runs)
{
    const sb_tensor *t = codes_of(unit);
    sb_check_find(check, 36, SB_LEVEL_error, t->name,
                  "bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                  " are %s, expected codes of weights (%" PRIu64
                  " such places); of the other codes, %" PRIu64
                  " %% are in the outer half of the range",
                  run->first, run->end - 1, t->bytes, what, runs, usual);
}

/* In percent; 100 if there are too few codes. */
static uint64_t share_of(uint64_t outer, uint64_t codes)
{
    return codes < 4 * SB_CODE_WINDOW ? 100 : 100 * outer / codes;
}

/* V-36: "a quarter of the codes of such a tensor" - the lowest code may be padding, unless zero
 * points are all the same. */
static void judge_ends(sb_check *check, const sb_unit *unit)
{
    const sb_code_runs *c = &unit->codes;
    const sb_tensor *t = codes_of(unit);
    const unsigned char most = c->bits == 4 ? 15 : 255;
    uint64_t lowest = 0, highest = 0;
    const uint64_t codes = t->bytes * 8 / c->bits;
    if (codes < 4 * SB_CODE_WINDOW || (share_of(c->outer, c->codes) < 25 && !c->count))
        return; /* most: fewer codes are in the outer half */
    for (uint64_t i = 0; i < t->bytes; i++) {
        const unsigned char code = t->data[i] & most;
        lowest += (unsigned)(code == 0) + (unsigned)(c->bits == 4 && t->data[i] >> 4 == 0);
        highest += (unsigned)(code == most) + (unsigned)(c->bits == 4 && t->data[i] >> 4 == 15);
    }
    const uint64_t ends = highest + (is_symmetric(unit) ? lowest : highest);
    if (4 * ends < codes)
        return;
    sb_check_find(
        check, 36, SB_LEVEL_error, t->name,
        "of %" PRIu64 " codes %" PRIu64 " are the lowest and %" PRIu64
        " the highest of the range, expected less than an eighth each: larger weights were cut off",
        codes, lowest, highest);
}

static void judge_codes(sb_check *check, const sb_unit *unit, uint64_t usual)
{
    const sb_code_runs *c = &unit->codes;
    const sb_tensor *t = codes_of(unit);
    uint64_t own = share_of(c->outer, c->codes);
    usual = own < 100 ? own : usual;
    if (usual > 35) /* V-36: "at most 35 %" */
        return;
    for (uint64_t i = 0; i < c->count && i < SB_CODE_RUNS; i++) {
        const sb_code_run *run = &c->runs[i];
        const unsigned char *p = t->data + run->first;
        uint64_t count = run->end - run->first;
        const char *what = is_random(p, count, c->bits) ? "random"
                           : is_all(p, count, 0) && is_symmetric(unit)
                               ? "all zero, which is the lowest code"
                               : NULL;
        if (!what)
            continue;
        tell(check, unit, run, what, usual, c->count);
        return;
    }
}

void sb_check_random_codes(sb_check *check)
{
    const sb_units *u = &check->self.units;
    uint64_t codes = 0, outer = 0;
    for (size_t i = 0; i < u->count; i++) {
        codes += u->rows[i].codes.codes;
        outer += u->rows[i].codes.outer;
    }
    const uint64_t usual = share_of(outer, codes);
    for (size_t i = 0; i < u->count; i++) {
        if (u->rows[i].codes.bits)
            judge_ends(check, &u->rows[i]);
        if (u->rows[i].codes.count)
            judge_codes(check, &u->rows[i], usual);
    }
}
